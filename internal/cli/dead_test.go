package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// newListening returns a link as newLinked does, with an address for commands.
func newListening(t *testing.T) *link {
	t.Helper()
	server, err := own.Start(t.Context(), &home.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return dialed(t, server, "")
}

// dialed returns a link to a server.
func dialed(t *testing.T, server home.Server, creds string) *link {
	t.Helper()
	conn, err := server.Dial(t.Context(), &home.Options{Creds: creds})
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&settings{program: self}).connect(t.Context(), conn, server.URL(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// run runs a command line against l's server.
func (l *link) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Run(t.Context(), append(args, "--nats", l.url, "--data", t.TempDir()), strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// TestDead shows, replays and removes dead letters, including some with external texts.
func TestDead(t *testing.T) {
	l := newListening(t)
	inbox := transport.Inbox("", "worker")
	if status, out, errs := l.run(t, "dead"); status != exitOK || out != "" || errs != "nothing was given up\n" {
		t.Errorf("cortex dead = %d, %q, %q, want nothing", status, out, errs)
	}

	serve := func(h func(*transport.Event) error) (stop func()) {
		t.Helper()
		sub, err := l.bus.Subscribe(t.Context(), inbox, &transport.SubscribeOptions{Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			served <- sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { return h(e) })
		}()
		return func() {
			_ = sub.Close()
			<-served
		}
	}
	stop := serve(func(e *transport.Event) error { return transport.Permanent(errors.New("cannot do\n\x1b[31m" + e.ID)) })
	for _, id := range []string{"one", "two", "three"} {
		if err := l.bus.Publish(t.Context(), inbox, &transport.Event{
			ID: id, Time: time.Now(), From: "user", ContextID: "demo", TaskID: "t-1", Payload: &a2a.Message{
				ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("say \u202e\x1b]0;" + id)},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	damaged := &transport.Event{ID: "damaged", From: "user", ContextID: "demo", Payload: &transport.Opaque{Kind: "message", Version: "1", Data: []byte("{no\x1b[2J")}}
	if err := l.bus.Publish(t.Context(), inbox, damaged); err != nil {
		t.Fatal(err)
	}
	var list []view.DeadJSON
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for ; len(list) < 4 && t.Context().Err() == nil; <-poll.C {
		_, out, _ := l.run(t, "dead", "list", "--json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	id := func(i int) string { return list[i].ID }

	status, out, errs := l.run(t, "dead", "--limit", "3")
	lines := strings.Split(out, "\n")
	if status != exitOK || len(lines) != 5 || !regexp.MustCompile(`^ID +WHEN +INBOX +FROM +KIND +REASON$`).MatchString(lines[0]) ||
		!regexp.MustCompile(`^`+id(0)+` +now +worker +user +message +cannot do one$`).MatchString(lines[1]) {
		t.Errorf("cortex dead = %d:\n%s%s", status, out, errs)
	}
	_, shown, _ := l.run(t, "dead", "show", id(0))
	for _, want := range []string{"reason        cannot do one\n", "inbox         worker\n", "conversation  demo\n", "task          t-1\n", "event         one\n", "deliveries    1\n", `"text": "say `} {
		if !strings.Contains(shown, want) {
			t.Errorf("cortex dead show lacks %q:\n%s", want, shown)
		}
	}
	_, bad, _ := l.run(t, "dead", "show", id(3))
	_, asJSON, _ := l.run(t, "dead", "show", id(0), "--json")
	for _, text := range []string{out, shown, bad, asJSON} {
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("a stranger's text reaches the terminal: %q", text)
		}
	}
	var one view.DeadJSON
	if err := json.Unmarshal([]byte(asJSON), &one); err != nil || one.Event.ID != "one" || one.Reason != "cannot do\n\x1b[31mone" {
		t.Errorf("cortex dead show --json = %s, %v", asJSON, err)
	}

	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"show", "99"}, exitFailed, "there is no dead letter 99: `cortex dead` lists them"},
		{[]string{"replay", "x"}, exitFailed, "there is no dead letter x"},
		{[]string{"replay"}, exitUsage, "which ones?"},
		{[]string{"remove", "--all", "1"}, exitUsage, "which ones?"},
		{[]string{"--limit", "-1"}, exitUsage, "--limit -1"},
		{[]string{"replay", id(3)}, exitFailed, "cannot be read"},
	} {
		status, _, errs := l.run(t, append([]string{"dead"}, c.args...)...)
		if status != c.want || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("cortex dead %v = %d, %q, want %d and one line with %q", c.args, status, errs, c.want, c.says)
		}
	}

	if status, out, errs := l.run(t, "dead", "remove", id(1)); status != exitOK || out != "removed "+id(1)+"\n" {
		t.Errorf("cortex dead remove = %d, %q, %q", status, out, errs)
	}
	status, out, errs = l.run(t, "dead", "replay", "--all")
	if status != exitFailed || !strings.Contains(out, "replayed "+id(0)+": it is in the inbox of worker") || strings.Count(out, "\n") != 2 ||
		!strings.Contains(errs, "1 of 3 dead letters were left as they are") {
		t.Errorf("cortex dead replay --all = %d:\n%s%s", status, out, errs)
	}
	replayed := make(chan string, 2)
	stop = serve(func(e *transport.Event) error {
		replayed <- e.ID
		return nil
	})
	if first, second := <-replayed, <-replayed; first != "one" || second != "three" {
		t.Errorf("%s and %s came again, want one and three", first, second)
	}
	stop()
	if status, _, _ := l.run(t, "dead", "remove", "--all"); status != exitOK {
		t.Errorf("cortex dead remove --all = %d", status)
	}
	if _, _, errs := l.run(t, "dead"); errs != "nothing was given up\n" {
		t.Errorf("cortex dead says %q after all were removed", errs)
	}
}

// TestNewDeadJSON checks that a dead letter that cannot be encoded does not hide the others.
func TestNewDeadJSON(t *testing.T) {
	nested := strings.Repeat("[", 9998) + strings.Repeat("]", 9998)
	p, err := transport.DecodePayload("message", transport.PayloadVersion, []byte(`{"messageId":"m","parts":[{"text":"t"}],"role":"ROLE_USER","metadata":{"x":`+nested+`}}`)) // of an older store
	if err != nil {
		t.Fatal(err)
	}
	e := &transport.Event{ID: "e", From: "stranger", ContextID: "c", Payload: p}
	j := view.NewDeadJSON(&transport.DeadLetter{ID: "7", Topic: transport.Inbox("", "worker"), Reason: "why", Event: e})
	b, err := json.Marshal([]view.DeadJSON{j})
	if err != nil || !strings.Contains(string(b), `"from":"stranger"`) || !strings.Contains(j.Unreadable, "nested") {
		t.Errorf("the letter is written as %.300s, %v; unreadable: %q; want the event without its payload, and why", b, err, j.Unreadable)
	}
}
