package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// sse is one event of a stream.
type sse struct{ name, id, data string }

// events opens a stream, and sends its events until it ends.
func (w *world) events(ctx context.Context, c *http.Client, url, last string) <-chan sse {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(w.t, err)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := c.Do(r)
	must(w.t, err)
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s answers %s", url, answer.Status)
	}
	out := make(chan sse, 1000)
	go func() {
		defer close(out)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 8<<20)
		var e sse
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e != (sse{}) {
					out <- e
				}
				e = sse{}
			}
		}
	}()
	return out
}

// next returns the next event.
func next(t *testing.T, events <-chan sse) sse {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	panic("unreachable")
}

var rowOf = regexp.MustCompile(`(?s)<li data-v="(\d+)">.*?class="kind is-(\w+)".*?<a href[^>]*>([^<]*)</a>`)

// rowsIn returns the rows of an event as version, kind and text.
func rowsIn(t *testing.T, e sse) (all []string) {
	t.Helper()
	var is struct{ HTML string }
	must(t, json.Unmarshal([]byte(e.data), &is))
	for _, m := range rowOf.FindAllStringSubmatch(is.HTML, -1) {
		all = append(all, strings.Join(m[1:], " "))
	}
	return all
}

// until reads events until a row has a text, and returns all rows and the last id.
func rowsUntil(t *testing.T, events <-chan sse, text string) (all []string, last string) {
	t.Helper()
	for {
		e := next(t, events)
		if e.name != "rows" {
			t.Fatalf("there is an event %+v", e)
		}
		all, last = append(all, rowsIn(t, e)...), e.id
		if slices.ContainsFunc(all, func(row string) bool { return strings.HasSuffix(row, text) }) {
			return all, last
		}
	}
}

// TestActivityStream follows what happens, goes away, and comes back to another process: every row comes once, in the order of the log, and none of
// another tenant.
func TestActivityStream(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.ask("x", "hello")
	b := w.browser()
	_, page := status(t, b, "GET", w.url+"activity", "")
	at := must1(url.Parse(strings.ReplaceAll(regexp.MustCompile(`data-events="([^"]+)"`).FindStringSubmatch(page)[1], "&amp;", "&")))(t)
	if rows := rowOf.FindAllStringSubmatch(page, -1); len(rows) != 4 || rows[0][2] != "answer" || rows[3][2] != "message" {
		t.Fatalf("the page has the rows %q", rows)
	}
	w.ask("x", "between the page and the stream")
	here := w.events(ctx, b, strings.TrimSuffix(w.url, "/")+at.String(), "")
	got, last := rowsUntil(t, here, "done: between the page and the stream")
	w.ask("y", "live")
	more, newer := rowsUntil(t, here, "done: live")
	got = append(got, more...)
	if last == newer {
		t.Errorf("the position stays at %s", last)
	}
	leave()
	w.ask("y", "missed")
	_, err := w.store.Append(t.Context(), "acme", "z", 0, &conversation.Entry{Seq: 1, Time: time.Now(), Cause: &transport.Event{
		ID: "m", From: "user", To: transport.Cortex, ContextID: "z", Payload: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("a secret of acme")),
	}})
	must(t, err)

	other := w.replica()
	there := w.events(t.Context(), other.browser(), other.url+"activity/events", newer)
	w.ask("x", "the end")
	more, _ = rowsUntil(t, there, "done: the end")
	got = append(got, more...)
	var want []string
	for _, turn := range []string{"between the page and the stream", "live", "missed", "the end"} {
		want = append(want, "message "+turn, "decision worker: "+turn, "result done: "+turn, "answer done: "+turn)
	}
	before := ""
	for i, row := range got {
		v, text, _ := strings.Cut(row, " ")
		if v = fmt.Sprintf("%20s", v); i >= len(want) || text != want[i] || v < before {
			t.Errorf("row %d is %q, want one of %d: %q", i, row, len(want), want[min(i, len(want)-1)])
		}
		before = v
	}
	if len(got) != len(want) {
		t.Errorf("there are %d rows, want %d", len(got), len(want))
	}
}

// TestActivityStreamOfAFilter follows only what passes a filter; what is erased is said, and a position of another journal has the page loaded again.
func TestActivityStreamOfAFilter(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	failures := w.events(t.Context(), b, w.url+"activity/events?kind=failure", "")
	words := w.events(t.Context(), b, w.url+"activity/events?text=PRINTER&agent=worker", "")
	w.ask("x", "hello")
	w.ask("y", "fail")
	for _, events := range []<-chan sse{failures, words} {
		if rows, _ := rowsUntil(t, events, "paper"); len(rows) != 1 || !strings.Contains(rows[0], "failure the printer is out of paper") {
			t.Errorf("the rows are %q", rows)
		}
	}
	must(t, w.store.Erase(t.Context(), "", "y"))
	for e := next(t, failures); ; e = next(t, failures) {
		if e.name == "gone" {
			if !strings.Contains(e.data, `"versions":[`) || e.id == "" {
				t.Errorf("what is erased is said by %+v", e)
			}
			break
		}
	}
	if e := next(t, w.events(t.Context(), b, w.url+"activity/events", "99999999")); e.name != "resync" {
		t.Errorf("a position that is not in the journal is answered by %+v", e)
	}
	if code, _ := status(t, b, "GET", w.url+"activity/events", "", "Last-Event-ID", "x"); code != 400 {
		t.Errorf("what is no position is answered with %d", code)
	}
}

// TestActivityInABrowser watches, pauses and goes on.
func TestActivityInABrowser(t *testing.T) {
	w := newWorld(t)
	w.ask("x", "first")
	p := newTab(t)
	p.open(w.link())
	p.open(w.url + "activity")
	p.await("document.documentElement.classList.contains('live')")
	eval[bool](p, "window.same = true")
	w.ask("x", "second "+hostile)
	p.await("document.querySelectorAll('.events li').length === 8 && document.querySelector('.events li').innerText.includes('answer')")
	eval[string](p, "document.getElementById('pause').click() || ''")
	w.ask("y", "third")
	p.await("document.getElementById('pause').textContent === 'Go on (4 new)' && location.search.includes('pause')")
	if n := eval[int](p, "document.querySelectorAll('.events li').length"); n != 8 {
		t.Errorf("a page that is paused has %d rows", n)
	}
	eval[string](p, "document.getElementById('pause').click() || ''")
	p.await("document.querySelectorAll('.events li').length === 12 && !location.search.includes('pause') && window.same")
	if n := eval[int](p, "new Set(Array.from(document.querySelectorAll('.events li'), li => li.innerText + li.dataset.v)).size"); n != 12 {
		t.Errorf("of 12 rows %d are different", n)
	}
	must(t, w.store.Erase(t.Context(), "", "y"))
	p.await("document.querySelectorAll('.events li').length === 8")
}

// replica serves the console of the world's store once more, as another process does.
func (w *world) replica() *world {
	w.t.Helper()
	other := &world{t: w.t, bus: w.bus, store: w.store, key: []byte("fedcba9876543210")}
	other.url = serveConsole(w.t, console.Config{
		Client: &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, "")}, Store: w.store, Agents: w.dir.Registry.Snapshot,
		Gate: console.NewGate(other.key, nil), Done: w.t.Context().Done(),
	})
	return other
}

// serveConsole serves a console until the test ends, and returns its URL.
func serveConsole(t *testing.T, cfg console.Config) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: console.New(cfg).Handler(), ReadHeaderTimeout: patience}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return "http://" + l.Addr().String() + "/"
}

// lateStore is a store to which something is added while somebody reads what it has.
type lateStore struct {
	*memstore.Store
	late func()
}

func (s *lateStore) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	if s.late != nil {
		s.late()
	}
	return s.Store.Contexts(ctx, tenant)
}

// TestActivityPageHasAnEnd adds to the log while a page is made: what comes after the position from which its stream goes on is not on it.
func TestActivityPageHasAnEnd(t *testing.T) {
	late := &lateStore{}
	w := newWorld(t, func(c *console.Config) {
		late.Store, _ = c.Store.(*memstore.Store)
		c.Store = late
	})
	w.ask("x", "hello")
	b := w.browser()
	late.late = func() { w.ask("x", "late") }
	_, page := status(t, b, "GET", w.url+"activity", "")
	if rows := rowOf.FindAllString(page, -1); len(rows) != 4 {
		t.Errorf("the page has %d rows, want 4", len(rows))
	}
}
