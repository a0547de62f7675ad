package rtfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// answer is what a call gives back, as the client library reads it: every field is required.
type answer struct {
	Success  *bool           `json:"success"`
	Output   json.RawMessage `json:"output"`
	Error    *string         `json:"error"`
	Took     *uint64         `json:"execution_time_ms"`
	Metadata map[string]any  `json:"metadata"`
}

// invoke calls an agent of Cortex.
func (w *world) invoke(path, body string, header ...string) *answer {
	w.T.Helper()
	status, text := w.post(path, body, header...)
	a := &answer{}
	if err := json.Unmarshal([]byte(text), a); err != nil || status != http.StatusOK || a.Success == nil || a.Took == nil || a.Metadata == nil || *a.Success != (a.Error == nil) {
		w.T.Fatalf("POST %s = %d %s", path, status, text)
	}
	return a
}

// Cortex's own agents are found, and called where their cards say.
func TestInvoke(t *testing.T) {
	w := newWorld(t)
	var from atomic.Value
	w.Join(ownCard("echo"), func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		from.Store(t.Traceparent)
		if t.Text() == "fail" {
			return nil, errors.New("it is broken")
		}
		if t.Text() == "ask" {
			return agents.InputRequired("which one?"), nil
		}
		return echo(ctx, t)
	})
	w.serve()
	all := w.discover(map[string]any{"capability_id": "sum_up", "discovery_tags": []string{"words"}, "floor": "2"})
	if len(all) != 1 || all[0].AgentID != "echo" || *all[0].Capabilities[1].Input != `{"type":"object"}` {
		t.Fatalf("discover = %+v", all)
	}
	at := all[0].Communication.Endpoints[0]
	if at.Protocol != "http" || at.URI != "http://"+w.address+"/agents/echo" {
		t.Fatalf("the endpoint is %+v", at)
	}
	const path = "/agents/echo"
	for _, c := range []struct{ body, output, failure string }{
		{`{"capability_id":"say","input":{"text":"hello"},"metadata":{"client":"rtfs_compiler","version":"0.1.0"}}`, `"again: hello"`, ""},
		{`{"capability_id":"say","input":"hello"}`, `"again: hello"`, ""},
		{`{"capability_id":"say","input":null,"metadata":null,"options":{"timeout_ms":1}}`, `"again: say"`, ""},
		{`{"capability_id":"sum","input":{"n":12345678901234567890}}`, `{"got":{"n":12345678901234567890}}`, ""},
		{`{"capability_id":"sum_up","input":{"n":[1]}}`, `{"got":{"n":[1]}}`, ""},
		{`{"capability_id":"say","input":"fail"}`, "null", "it is broken"},
		{`{"capability_id":"say","input":"ask"}`, "null", "which one?"},
		{`{"capability_id":"jump","input":"hello"}`, "null", `no capability "jump"; it has say, sum`},
		{`{"capability_id":`, "null", "not what RTFS has"},
	} {
		a := w.invoke(path, c.body)
		if string(a.Output) != c.output || c.failure == "" != *a.Success || a.Error != nil && !strings.Contains(*a.Error, c.failure) {
			t.Errorf("%s = %s %v, want %s %q", c.body, a.Output, a.Error, c.output, c.failure)
		}
	}
	a := w.invoke("/agents/nobody", `{"capability_id":"say","input":"x"}`)
	if a.Error == nil || !strings.Contains(*a.Error, "no agent") {
		t.Errorf("nobody = %+v", a)
	}
	w.invoke(path, `{"capability_id":"say","input":"x"}`, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if got, _ := from.Load().(string); !strings.Contains(got, "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("the trace is %q", got)
	}
	for path, want := range map[string]string{"/agents/echo/health": `"ok"`, "/agents/echo/capabilities": `[{"capability_id":"say",`, "/agents/nobody/health": "no such agent"} {
		r, err := http.Get("http://" + w.address + path)
		must(t, err)
		b, err := io.ReadAll(r.Body)
		must(t, err)
		r.Body.Close()
		if !strings.Contains(string(b), want) {
			t.Errorf("GET %s = %s", path, b)
		}
	}
}

// A call with a key is done once, whoever waits for it.
func TestKey(t *testing.T) {
	w := newWorld(t)
	w.times.answer = 300 * time.Millisecond
	var runs atomic.Int64
	gate := make(chan struct{})
	w.Join(ownCard("echo"), func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		runs.Add(1)
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return echo(ctx, t)
	})
	w.serve()
	const body = `{"capability_id":"say","input":"hello","metadata":{"client":"me"}}`
	a := w.invoke("/agents/echo", body, "Idempotency-Key", "k1")
	if a.Error == nil || *a.Error != "still working" || a.Metadata["task_id"] == nil || a.Metadata["context_id"] == nil {
		t.Errorf("the first call = %+v", a)
	}
	close(gate)
	w.Until("it is answered", func() bool {
		a := w.invoke("/agents/echo", body, "Idempotency-Key", "k1")
		return *a.Success && string(a.Output) == `"again: hello"`
	})
	w.stop()
	w.serve()
	b := w.invoke("/agents/echo", `{"capability_id":"say","input":"hello","metadata":{"client":"me","request_id":"k1"}}`)
	if string(b.Output) != `"again: hello"` || b.Metadata["task_id"] != a.Metadata["task_id"] || runs.Load() != 1 {
		t.Errorf("the last call = %+v, and %d runs", b, runs.Load())
	}
	if c := w.invoke("/agents/echo", strings.Replace(body, `"hello"`, `{ "text": "hello" }`, 1), "Idempotency-Key", "k1"); c.Metadata["task_id"] != a.Metadata["task_id"] {
		t.Errorf("the same words in another form = %+v", c)
	}
	if c := w.invoke("/agents/echo", strings.Replace(body, "hello", "bye", 1), "Idempotency-Key", "k1"); string(c.Output) != `"again: bye"` {
		t.Errorf("another call with the key = %+v", c)
	}
	w.invoke("/agents/echo", strings.Replace(body, `"me"`, `"you"`, 1), "Idempotency-Key", "k1")
	w.invoke("/agents/echo", body)
	if runs.Load() != 4 {
		t.Errorf("%d runs, want 4: the words are others, the key is another client's, and a call without one is always another", runs.Load())
	}
}

// TestRepeatIsNoMore has a machine that may ask for nothing more repeat a call that is under way: that is no other one, and still gets the answer.
func TestRepeatIsNoMore(t *testing.T) {
	w := newWorld(t)
	w.times.answer = 300 * time.Millisecond
	began, gate := make(chan struct{}), make(chan struct{})
	w.Join(ownCard("echo"), func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		close(began)
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return echo(ctx, t)
	})
	w.serve()
	w.b.pace.Now = func() time.Time { return time.Unix(1, 0) }
	call := func(key string) *answer {
		t.Helper()
		return w.invoke("/agents/echo", `{"capability_id":"say","input":"hello"}`, "Idempotency-Key", key)
	}
	call("k1")
	<-began
	for w.b.pace.Admit("127.0.0.1", 0) == nil {
	}
	w.Until("another call is refused", func() bool { return strings.Contains(*call("k2").Error, "ask again later") })
	for range 3 {
		if a := call("k1"); a.Error == nil || *a.Error != "still working" {
			t.Errorf("the same call again = %s, %v", a.Output, *a.Error)
		}
	}
	close(gate)
	w.Until("it is answered", func() bool { return *call("k1").Success })
}

// A machine that has all calls makes room for those of others, who may not wait for long work.
func TestCallsMakeRoom(t *testing.T) {
	w := newWorld(t)
	w.Join(ownCard("echo"), echo)
	w.serve()
	var ended []context.Context
	for n := range maxCalls {
		from := fmt.Sprint("10.0.0.7:", n)
		ctx, ok := w.b.calls.Enter(t.Context(), from, kit.Host(from))
		if !ok {
			t.Fatalf("the %d. call has no place", n+1)
		}
		kit.Arrived(ctx)
		ended = append(ended, ctx)
	}
	if _, ok := w.b.calls.Enter(t.Context(), "10.0.0.7:9999", "10.0.0.7"); ok {
		t.Error("one machine has more calls than there are")
	}
	if a := w.invoke("/agents/echo", `{"capability_id":"say","input":"hello"}`); string(a.Output) != `"again: hello"` {
		t.Errorf("the answer is %s, %v", a.Output, a.Error)
	}
	over := 0
	for _, ctx := range ended {
		if ctx.Err() != nil {
			over++
		}
	}
	if over != 1 {
		t.Errorf("%d calls have made room", over)
	}
}

// TestMachineAsksTooOften has clients of many names, all of one machine, call an agent more often than it may: the rest is refused, whatever they call
// themselves. Another machine has its own share, and so has a network of IPv6.
func TestMachineAsksTooOften(t *testing.T) {
	w := newWorld(t)
	w.Join(ownCard("echo"), echo)
	w.serve()
	w.b.pace.Now = func() time.Time { return time.Unix(1, 0) }
	call := func(from, name string) (done bool) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agents/echo", strings.NewReader(fmt.Sprintf(`{"capability_id":"say","input":"x","metadata":{"client":%q}}`, name)))
		r.RemoteAddr = from
		answered := httptest.NewRecorder()
		w.b.handler().ServeHTTP(answered, r)
		a := &answer{}
		must(t, json.Unmarshal(answered.Body.Bytes(), a))
		if a.Error != nil && !strings.Contains(*a.Error, "ask again later") {
			t.Fatalf("the call fails: %s", *a.Error)
		}
		return *a.Success
	}
	for _, machine := range []func(n int) string{
		func(n int) string { return fmt.Sprint("192.0.2.7:", 1000+n) },
		func(n int) string { return fmt.Sprintf("[2001:db8::%x]:1000", n) },
	} {
		done := 0
		for n := range transport.AgentWorkBurst + 20 {
			if call(machine(n), fmt.Sprint("name", n)) {
				done++
			}
		}
		if done != transport.AgentWorkBurst {
			t.Errorf("%d calls of one machine are taken, want %d", done, transport.AgentWorkBurst)
		}
	}
	if !call("192.0.2.8:1000", "name0") {
		t.Error("another machine is refused")
	}
}

// TestLargeRequests checks that large requests of one machine are decoded one after the other, those to the registry as calls, which keeps neither small ones nor
// those of another machine waiting.
func TestLargeRequests(t *testing.T) {
	w := newWorld(t)
	w.Join(ownCard("echo"), echo)
	w.serve()
	const one, other = "192.0.2.7:1000", "192.0.2.8:1000"
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct{ path, body, want string }{
		{"/agents/echo", `{"capability_id":"say","input":"hello","metadata":{"more":%q}}`, "again: hello"},
		{"/", `{"jsonrpc":"2.0","id":"1","method":"rtfs.registry.health","params":{"more":%q}}`, `"status":"ok"`},
	} {
		check := func(ctx context.Context, what, from string, n int, want string) {
			t.Helper()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, c.path, strings.NewReader(fmt.Sprintf(c.body, strings.Repeat("x", n))))
			r.RemoteAddr = from
			answered := httptest.NewRecorder()
			w.b.handler().ServeHTTP(answered, r)
			if said := answered.Body.String(); !strings.Contains(said, want) {
				t.Errorf("POST %s: %s is answered %.200s, want %s", c.path, what, said, want)
			}
		}
		if !w.b.turns.Take(t.Context(), "192.0.2.7", 1) {
			t.Fatal("nothing is decoded, and there is no turn")
		}
		check(t.Context(), "a small one", one, 0, c.want)
		check(t.Context(), "another machine's", other, 100_000, c.want)
		check(gone, "one that waits no longer", one, 100_000, "too many large requests")
		w.b.turns.Give("192.0.2.7", 1)
		check(t.Context(), "the next one", one, 100_000, c.want)
	}
}
