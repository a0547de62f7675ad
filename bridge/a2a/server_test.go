package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestOthers has two people ask: neither sees or changes what is the other's.
func TestOthers(t *testing.T) {
	w := newWorld(t, true)
	url := w.serve(w.server(), func(token string) (string, error) {
		if !strings.HasPrefix(token, "of-") {
			return "", errors.New("that is no token")
		}
		return "user:" + token[3:], nil
	})
	for _, binding := range bindings {
		at := " " + string(binding)
		ada, bob := w.join(binding, url, "Authorization", "Bearer of-ada"), w.join(binding, url, "Authorization", "Bearer of-bob")
		direct := w.join(binding, url+"/agents/worker", "Authorization", "Bearer of-ada")
		asks := w.send(ada, in(said("danger"+at), "notes", ""))
		if asks.Status.State != sdk.TaskStateInputRequired {
			t.Fatalf("%+v", asks)
		}
		for name, c := range map[string]*a2aclient.Client{"another person": bob, "another agent's server": direct} {
			for i, err := range call(t, c, asks.ID) {
				if !errors.Is(err, sdk.ErrTaskNotFound) {
					t.Errorf("%s: call %d: %v", name, i, err)
				}
			}
		}
		theirs := w.send(bob, in(said("hello"), "notes", ""))
		if theirs.ContextID != "notes" || theirs.Status.State != sdk.TaskStateCompleted {
			t.Errorf("the same name of a context is another context: %+v", theirs)
		}
		into := w.send(bob, in(said("hello again"), asks.ContextID, ""))
		if into.ID == asks.ID {
			t.Errorf("%+v", into)
		}
		list, err := bob.ListTasks(t.Context(), &sdk.ListTasksRequest{})
		must(t, err)
		for _, task := range list.Tasks {
			if strings.Contains(text(task.History[0].Parts), "danger") {
				t.Errorf("another's task is listed: %+v", task)
			}
		}
		if now := w.get(ada, asks.ID); now.Status.State != sdk.TaskStateInputRequired || w.times(w.done, "danger"+at) != 0 {
			t.Errorf("%+v", now)
		}
	}
}

// TestManyConnections has bob's requests take all connections, again and again: the streams of ada go on.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, true)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		_ = httpserver.Serve(ctx, l, w.server().Handler(func(token string) (string, error) { return "user:" + token, nil }), &httpserver.Options{Connections: 8})
	})
	listening, stop := context.WithCancel(t.Context())
	defer stop()
	began, ended := make(chan bool), make(chan bool)
	streams := []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON}
	for _, binding := range streams {
		c := w.join(binding, "http://"+l.Addr().String(), "Authorization", "Bearer ada")
		asks := w.send(c, in(said("danger"), "", ""))
		go func() {
			for e, err := range c.SubscribeToTask(listening, &sdk.SubscribeToTaskRequest{ID: asks.ID}) {
				if _, ok := e.(*sdk.Task); ok && err == nil {
					began <- true
				}
			}
			ended <- listening.Err() == nil
		}()
		<-began
	}
	var cut atomic.Int32
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
				if err != nil {
					continue
				}
				over := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
				_, _ = io.Copy(io.Discard, c) // until it is closed
				_ = c.Close()
				over()
				cut.Add(1)
			}
		})
	}
	w.until("many are closed for others", func() bool { return cut.Load() >= 40 })
	stop()
	for range streams {
		if <-ended {
			t.Error("a stream of somebody else has ended")
		}
	}
}

// Streams and calls of a person whose token is revoked end, and those of others go on.
func TestRevoked(t *testing.T) {
	w := newWorld(t, true)
	revoked := atomic.Bool{}
	url := w.serve(w.server(), func(token string) (string, error) {
		if token == "of-ada" && revoked.Load() {
			return "", errors.New("it is revoked")
		}
		return "user:" + strings.TrimPrefix(token, "of-"), nil
	})
	ended := make(chan string)
	others, stop := context.WithCancel(t.Context())
	defer stop()
	began := make(chan bool)
	streams := 0
	for _, who := range []string{"ada", "bob"} {
		for _, binding := range bindings {
			c := w.join(binding, url, "Authorization", "Bearer of-"+who)
			asks := w.send(c, in(said("danger"), "", ""))
			streams++
			go func() {
				for e, err := range c.SubscribeToTask(others, &sdk.SubscribeToTaskRequest{ID: asks.ID}) {
					if _, ok := e.(*sdk.Task); ok && err == nil {
						began <- true
					}
				}
				ended <- who
			}()
		}
	}
	for range streams {
		<-began
	}
	revoked.Store(true)
	for range streams / 2 {
		if who := <-ended; who != "ada" {
			t.Errorf("a stream of %s ended", who)
		}
	}
	stop()
	for range streams / 2 {
		<-ended
	}
}

// A context that a client names is the client's, also when somebody has guessed its conversation, begun it before, and shared it.
func TestGuessedContext(t *testing.T) {
	identify := func(token string) (string, error) { return "user:" + token, nil }
	w := newWorld(t, true)
	ada := w.join(bindings[0], w.serve(w.server(), identify), "Authorization", "Bearer ada")
	w.send(ada, in(said("hello"), "notes", ""))
	guessed := ""
	for info, err := range w.store.Contexts(t.Context(), "") {
		must(t, err)
		guessed = info.ContextID
	}
	w = newWorld(t, true)
	ada = w.join(bindings[0], w.serve(w.server(), identify), "Authorization", "Bearer ada")
	begin := &transport.Event{ID: "m1", From: "user:bob", ContextID: guessed, Payload: &sdk.Message{ID: "m1", Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewTextPart("hello")}}}
	share := &transport.Event{ID: "m2", From: "user:bob", ContextID: guessed, Payload: &transport.Share{With: []string{"user:ada"}}}
	for _, e := range []*transport.Event{begin, share} {
		e.Time = time.Now()
		must(t, w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e))
	}
	w.until("it is shared", func() bool {
		conv, err := storage.Load(t.Context(), w.store, "", guessed)
		return err == nil && len(conv.Shared) == 1
	})
	task := w.send(ada, in(said("secret"), "notes", ""))
	if task.Status.State != sdk.TaskStateRejected || !strings.Contains(text(task.Status.Message.Parts), "belongs to user:bob, and this was meant for one of your own") || w.times(w.done, "secret") > 0 {
		t.Errorf("%+v", task)
	}
	if task := w.send(ada, in(said("hello"), "other", "")); task.Status.State != sdk.TaskStateCompleted {
		t.Errorf("%+v", task)
	}
}

// call calls all operations on a task, and returns their errors.
func call(t *testing.T, c *a2aclient.Client, id sdk.TaskID) []error {
	_, got := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: id})
	_, canceled := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: id})
	_, sent := c.SendMessage(t.Context(), in(said("yes"), "", id))
	errs := []error{got, canceled, sent}
	for _, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: id}) {
		errs = append(errs, err)
	}
	return errs
}

func TestWhoIsLetIn(t *testing.T) {
	w := newWorld(t, false)
	open := w.serve(w.server(), nil)
	locked := w.serve(w.server(), func(token string) (string, error) {
		if token == "good" {
			return "user:ada", nil
		}
		return "", errors.New("that is no token")
	})
	for name, test := range map[string]struct {
		url    string
		header []string
		want   int
	}{
		"a program here":     {open, nil, 200},
		"by way of a proxy":  {open, []string{"X-Forwarded-For", "10.0.0.1"}, 403},
		"by way of a mesh":   {open, []string{"X-Forwarded-Proto", "http"}, 403},
		"a page elsewhere":   {open, []string{"Origin", "https://evil.example"}, 403},
		"a page, by its DNS": {open, []string{"Host", "evil.example"}, 403},
		"no token":           {locked, nil, 401},
		"a wrong token":      {locked, []string{"Authorization", "Bearer bad"}, 401},
		"another kind":       {locked, []string{"Authorization", "Basic good"}, 401},
		"a token":            {locked, []string{"Authorization", "Bearer good"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"", "/agents/worker"} {
				code, h, body := do(t, http.MethodPost, test.url+path, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, test.header...)
				if code != test.want || code == http.StatusUnauthorized && h.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("JSON-RPC: %d %s, want %d", code, body, test.want)
				}
				if code, _, body := do(t, http.MethodPost, test.url+path+"/message:send", `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`, test.header...); code != test.want {
					t.Errorf("HTTP+JSON: %d %s, want %d", code, body, test.want)
				}
				if code, _, body := do(t, http.MethodGet, test.url+path+"/.well-known/agent-card.json", "", test.header...); code != http.StatusOK {
					t.Errorf("the card is for everybody: %d %s", code, body)
				}
			}
		})
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost/tasks", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	rec := httptest.NewRecorder()
	if w.server().Handler(nil).ServeHTTP(rec, r); rec.Code != http.StatusForbidden {
		t.Errorf("from elsewhere: %d %s", rec.Code, rec.Body)
	}
}

// TestTraced gives the trace context of a call to the task that comes of it.
func TestTraced(t *testing.T) {
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b"
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for name, c := range map[string]struct {
			parent string
			want   [2]string
		}{"a trace": {parent, [2]string{parent, state}}, "no trace": {"what's this", [2]string{}}} {
			t.Run(string(binding)+" "+name, func(t *testing.T) {
				client := w.join(binding, url, "Traceparent", c.parent, "Tracestate", state)
				w.send(client, said("trace"))
				w.mu.Lock()
				sent := w.traced
				w.mu.Unlock()
				collect(t, client.SendStreamingMessage(t.Context(), said("trace")))
				w.mu.Lock()
				streamed := w.traced
				w.mu.Unlock()
				if sent != c.want || streamed != c.want {
					t.Errorf("the tasks have the traces %q and %q, want %q", sent, streamed, c.want)
				}
			})
		}
	}
}

// TestSentAgain sends messages twice, as a program does whose connection was lost.
func TestSentAgain(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	keyed := w.join(sdk.TransportProtocolHTTPJSON, url, "Idempotency-Key", "k1")
	plain := w.join(sdk.TransportProtocolHTTPJSON, url)
	first := w.send(keyed, said("order"))
	if again := w.send(keyed, said("order")); again.ID != first.ID || again.ContextID != first.ContextID || w.times(w.done, "order") != 1 {
		t.Errorf("with a key: %s and %s, done %d times", first.ID, again.ID, w.times(w.done, "order"))
	}
	if other := w.send(keyed, said("order more")); other.ID == first.ID {
		t.Error("the same key with other words is another message")
	}
	events := collect(t, keyed.SendStreamingMessage(t.Context(), said("order")))
	if task, ok := events[0].(*sdk.Task); !ok || task.ID != first.ID || len(events) != 1 {
		t.Errorf("a stream of what was sent before: %+v", events)
	}
	w.send(plain, said("book"))
	w.send(plain, said("book"))
	if n := w.times(w.done, "book"); n != 2 {
		t.Errorf("without a key: done %d times", n)
	}
	// A reply that is sent again does not reply to the next question.
	asks := w.send(plain, said("paint"))
	for range 2 {
		if got := w.send(plain, in(said("red"), "", asks.ID)); got.Status.State != sdk.TaskStateInputRequired || len(got.History) != 4 {
			t.Errorf("%+v", got)
		}
	}
	// A second server, as after a restart or on another replica, knows all of it.
	later := w.join(sdk.TransportProtocolHTTPJSON, w.serve(w.server(), nil), "Idempotency-Key", "k1")
	if again := w.send(later, said("order")); again.ID != first.ID || w.times(w.done, "order") != 1 {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
	tomorrow := w.doorWith(func(c *a2a.Config) {
		c.Client.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	})
	old := w.join(sdk.TransportProtocolHTTPJSON, w.serve(tomorrow, nil), "Idempotency-Key", "k1")
	if again := w.send(old, said("order")); again.ID == first.ID || w.times(w.done, "order") != 2 {
		t.Errorf("the same key a day later: %s and %s", first.ID, again.ID)
	}
	if now := w.get(later, asks.ID); now.Status.State != sdk.TaskStateInputRequired || now.ContextID != asks.ContextID {
		t.Errorf("%+v", now)
	}
}

// TestBigFiles sends and gets a file that does not fit into an event.
func TestBigFiles(t *testing.T) {
	w := newWorld(t, false)
	c := w.join(sdk.TransportProtocolJSONRPC, w.serve(w.server(), nil))
	r := said("big one")
	r.Message.Parts = append(r.Message.Parts, &sdk.Part{Content: sdk.Raw(bytes.Repeat([]byte("abc"), 300_000)), Filename: "in.bin", MediaType: "application/x-thing"})
	got := w.send(c, r)
	var size int
	for _, a := range got.Artifacts {
		for _, p := range a.Parts {
			size += len(p.Raw())
		}
	}
	if size != 1_000_000 {
		t.Errorf("%d bytes, %+v", size, got.Status)
	}
	b, err := json.Marshal(w.get(c, got.ID))
	must(t, err)
	if strings.Contains(string(b), "file_key") || strings.Contains(string(b), "cortex-file") || !strings.Contains(string(b), "in.bin") {
		t.Errorf("%.2000s", b)
	}
}

// TestManyBigFiles lists tasks whose files are together more than an answer has room for: those that come first have theirs.
func TestManyBigFiles(t *testing.T) {
	w := newWorld(t, false)
	c := w.join(sdk.TransportProtocolHTTPJSON, w.serve(w.server(), nil))
	for i := range 3 {
		w.send(c, atOnce(said(fmt.Sprint("huge ", i))))
	}
	w.until("the files", func() bool {
		all, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: sdk.TaskStateCompleted})
		must(t, err)
		return len(all.Tasks) == 3
	})
	all, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{IncludeArtifacts: true})
	must(t, err)
	var sizes []int
	left := 0
	for _, of := range all.Tasks {
		for _, a := range of.Artifacts {
			for _, p := range a.Parts {
				if n := len(p.Raw()); n > 0 {
					sizes = append(sizes, n)
				}
				if strings.Contains(p.Text(), "it is too large to be sent here") {
					left++
				}
			}
		}
	}
	if !slices.Equal(sizes, []int{12 << 20, 12 << 20}) || left != 1 || len(all.Tasks) != 3 {
		t.Errorf("%d tasks, files of %d bytes, and %d left out", len(all.Tasks), sizes, left)
	}
}

// TestManyValues sends bodies of few bytes that would take much memory, in all bindings of HTTP.
func TestManyValues(t *testing.T) {
	w := newWorld(t, false)
	at := w.serve(w.server(), nil)
	message := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"a":[` + strings.Repeat("{},", 300_000) + `{}]}}}`
	for to, body := range map[string]string{"/message:send": message, "/": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message + `}`} {
		code, _, said := do(t, http.MethodPost, at+to, body, "A2A-Version", "1.0", "Content-Type", "application/json")
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(said, "too many values") {
			t.Errorf("%s: %d %.200s", to, code, said)
		}
	}
}

// TestHostile sends what no client should: each gets an error, and it is not an internal one.
func TestHostile(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for name, body := range map[string]string{
		"nothing": "", "a word": "x", "a list": "[]", "a batch": `[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]`, "null": "null", "a number": "1",
		"no version": `{"id":1,"method":"ListTasks"}`, "another version": `{"jsonrpc":"1.0","id":1,"method":"ListTasks"}`,
		"an object as id": `{"jsonrpc":"2.0","id":{},"method":"ListTasks"}`, "no method": `{"jsonrpc":"2.0","id":1}`, "a method of 0.3": `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`,
		"params are a list": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":[1]}`, "params are text": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":"message_id"}`,
		"parts are text": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":"x"}}}`,
		"an empty part":  `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[{}]}}}`,
		"null parts":     `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[null]}}}`,
		"two contents":   `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}}}`,
		"depth":          `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message_id":` + deep + `}}`,
		"deep metadata":  `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"1","role":"ROLE_USER","parts":[],"metadata":` + deep + `}}}`,
		"no UTF-8":       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"GetTask\",\"params\":{\"id\":\"\xff\xfe\"}}",
		"a long id":      `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"` + strings.Repeat("f", 1<<20) + `"}}`,
		"half":           `{"jsonrpc":"2.0","id":1,"method":"SendMes`,
	} {
		t.Run(name, func(t *testing.T) {
			code, _, got := do(t, http.MethodPost, url, body)
			var said struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(got), &said); err != nil || said.Error.Code == 0 || said.Error.Code == -32603 || len(got) > 4000 {
				t.Errorf("%d %.500s", code, got)
			}
		})
	}
	for _, path := range []string{"/agents/", "/agents/a%20b", "/agents/cortex", "/agents/cortex:queue", "/agents/" + strings.Repeat("x", 300)} {
		if code, _, _ := do(t, http.MethodGet, url+path+"/.well-known/agent-card.json", ""); code != http.StatusNotFound && code != http.StatusForbidden && code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// FuzzBodies sends any body: each gets an answer in JSON, and none begins work but a message.
func FuzzBodies(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"page_size":1}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"x"}}`)
	f.Add(`{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"` + strings.Repeat("0", 48) + `","history_length":-1}}`)
	f.Add(`{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"message_id":"1","role":"ROLE_AGENT","parts":[{"data":{"task_id":1}}]}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		w := newWorld(t, false)
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("A2A-Version", "1.0")
		r.Header.Set("Content-Type", "application/json")
		w.server().Handler(nil).ServeHTTP(rec, r)
		for line := range strings.Lines(rec.Body.String()) {
			data := strings.TrimPrefix(line, "data: ")
			if line == "\n" || strings.HasPrefix(line, "id: ") || strings.HasPrefix(line, ":") {
				continue
			}
			if !json.Valid([]byte(data)) {
				t.Errorf("%q is answered by %q", body, rec.Body)
			}
		}
	})
}

// refusing returns a world whose Cortex refuses each message, which is in no log then.
func refusing(t *testing.T) *world {
	bus, store := memory.New(nil), memstore.New()
	t.Cleanup(func() { bus.Close() })
	sub, err := bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = sub.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
			return new(storage.Refusals).Keep(ctx, store, "", e, "That is not for you.", time.Now())
		})
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return &world{t: t, bus: bus, store: store, rpc: map[string]string{}}
}

func TestRejected(t *testing.T) {
	w := refusing(t)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		c := w.join(binding, url)
		events := collect(t, c.SendStreamingMessage(t.Context(), said("hello")))
		last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent)
		if !ok || last.Status.State != sdk.TaskStateRejected || text(last.Status.Message.Parts) != "That is not for you." {
			t.Fatalf("%+v", events[len(events)-1])
		}
		if now := w.get(c, last.TaskID); now.Status.State != sdk.TaskStateRejected {
			t.Errorf("%+v", now)
		}
		if later := w.get(w.join(binding, w.serve(w.server(), nil)), last.TaskID); later.Status.State != sdk.TaskStateRejected {
			t.Errorf("after a restart: %+v", later)
		}
		for _, got := range []*sdk.Task{w.send(c, said("hello")), w.send(c, atOnce(said("hello")))} {
			if got.Status.State != sdk.TaskStateRejected {
				t.Errorf("%+v", got)
			}
		}
	}
}

// TestSubmitted has nobody take the message from the inbox.
func TestSubmitted(t *testing.T) {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), rpc: map[string]string{}}
	defer w.bus.Close()
	url := w.serve(w.server(), nil)
	c := w.join(sdk.TransportProtocolJSONRPC, url)
	ctx, leave := context.WithCancel(t.Context())
	for e, err := range c.SendStreamingMessage(ctx, said("hello")) {
		if err != nil {
			break // the client has left
		}
		task := e.(*sdk.Task)
		if now := w.get(c, task.ID); task.Status.State != sdk.TaskStateSubmitted || now.Status.State != sdk.TaskStateSubmitted || text(now.History[0].Parts) != "hello" {
			t.Errorf("%+v, %+v", task, now)
		}
		leave()
	}
	leave()
}

// countedFiles counts the first chunks that are read of files.
type countedFiles struct {
	*memory.Bus
	reads atomic.Int64
}

func (c *countedFiles) Chunk(ctx context.Context, o transport.Object, n int) ([]byte, error) {
	if n == 0 {
		c.reads.Add(1)
	}
	return c.Bus.Chunk(ctx, o, n)
}

// TestFilesAreReadOnce checks that a call that waits for its answer reads a file once, and so takes room for it once.
func TestFilesAreReadOnce(t *testing.T) {
	w := newWorld(t, false)
	files := &countedFiles{Bus: w.bus}
	c := w.join(sdk.TransportProtocolHTTPJSON, w.serve(w.doorWith(func(cfg *a2a.Config) { cfg.Client.Transport = files }), nil)+"/agents/worker")
	for i, want := range []string{"big", "big"} { // the second time it is sent again
		r := in(said(want), "notes", "")
		files.reads.Store(0)
		got, size := w.send(c, r), 0
		for _, a := range got.Artifacts {
			for _, p := range a.Parts {
				size += len(p.Raw())
			}
		}
		if n := files.reads.Load(); size != 1_000_000 || n != 1 {
			t.Errorf("call %d: the files of the answer have %d bytes, and were opened %d times, want once", i, size, n)
		}
	}
}
