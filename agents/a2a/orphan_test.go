package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/transport"
)

// run runs an agent until the function is called, or the test ends.
func run(t *testing.T, a *peers.Agent) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = func() {
		if cancel(); ended == nil {
			return
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended = nil
	}
	t.Cleanup(stop)
	return stop
}

// cancels returns the tasks that the peer was told to cancel.
func (p *peer) cancels() []a2a.TaskID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.canceled)
}

// opened returns the number of tasks in a folder that the peer may be at work on.
func opened(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "open", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// begin gives an agent a task that lasts, and returns a function that ends it for a reason.
func begin(t *testing.T, p *peer, a *peers.Agent, dir string, g given) (end func(error)) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- give(ctx, a, g) }()
	p.waits(1)
	eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
	return func(why error) {
		t.Helper()
		stop(why)
		if got := <-ended; got.text != why.Error() {
			t.Errorf("got %+v, want %v", got, why)
		}
	}
}

// TestTaskIsCanceledWhileItsPeerIsAway cancels a task while its peer is away. The peer is told when it is back, also by the next process.
func TestTaskIsCanceledWhileItsPeerIsAway(t *testing.T) {
	for _, name := range []string{"the same process", "the next one"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
			a := open(t, dir, &peers.Peer{URL: p.server.URL})
			stop := run(t, a)
			end := begin(t, p, a, dir, given{id: "1", message: "m", text: "wait here"})
			var away atomic.Bool
			next := p.handler
			p.mu.Lock()
			p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if away.Load() {
					panic(http.ErrAbortHandler)
				}
				next.ServeHTTP(w, r)
			})
			p.mu.Unlock()
			away.Store(true)
			end(agents.ErrCanceled)
			if got := p.cancels(); len(got) != 0 || opened(t, dir) != 1 {
				t.Fatalf("canceled: %q, and %d tasks are open", got, opened(t, dir))
			}
			if name != "the same process" {
				stop()
				a.Close()
				run(t, open(t, dir, &peers.Peer{URL: p.server.URL}))
			}
			away.Store(false)
			eventually(t, "the task is canceled", func() bool { return len(p.cancels()) == 1 })
			eventually(t, "no task is open", func() bool { return opened(t, dir) == 0 })
		})
	}
}

// TestTaskIsCanceledBeforeItIsNamed cancels a task whose message is on its way to the peer, which names the task only then.
func TestTaskIsCanceledBeforeItIsNamed(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	run(t, a)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	next := p.handler
	p.mu.Lock()
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if err != nil || !bytes.Contains(b, []byte("SendStreamingMessage")) {
			next.ServeHTTP(w, r)
			return
		}
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(b))
		close(arrived)
		<-goOn
		next.ServeHTTP(&nowhere{header: http.Header{}}, again)
	})
	p.mu.Unlock()
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- give(ctx, a, given{id: "1", message: "m", text: "wait here"}) }()
	<-arrived
	stop(agents.ErrCanceled)
	<-ended
	close(goOn)
	p.waits(1)
	eventually(t, "the task is canceled", func() bool { return len(p.cancels()) == 1 })
	eventually(t, "no task is open", func() bool { return opened(t, dir) == 0 })
}

// TestTaskIsLeft stops an agent while its peer works, and the task does not come back, since it was canceled meanwhile: a cancellation is live, and nobody
// tells an agent that is away. Its peer is told at the task's deadline, and not before: until then the task may be delivered again.
func TestTaskIsLeft(t *testing.T) {
	now := time.Now()
	extended := map[string]any{transport.MetaDeadline: now.Add(-2 * time.Hour).UTC().Format(time.RFC3339Nano), transport.MetaLatest: now.Add(2 * time.Hour).UTC().Format(time.RFC3339Nano)}
	for _, test := range []struct {
		name string
		due  time.Time
		meta map[string]any
		want int
	}{
		{"after its deadline", now.Add(-2 * time.Hour), nil, 1},
		{"before its deadline", now.Add(2 * time.Hour), nil, 0},
		{"before the latest deadline that progress can give it", now.Add(-2 * time.Hour), extended, 0},
		{"without a deadline", time.Time{}, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
			a := open(t, dir, &peers.Peer{URL: p.server.URL})
			end := begin(t, p, a, dir, given{id: "1", message: "m", text: "wait here", deadline: test.due, meta: test.meta})
			if left := a.CancelDue(t.Context()); left || len(p.cancels()) != 0 {
				t.Errorf("while it is worked on: canceled: %q", p.cancels())
			}
			end(agents.ErrStopping)
			a.Close()
			a = open(t, dir, &peers.Peer{URL: p.server.URL})
			if left := a.CancelDue(t.Context()); left || len(p.cancels()) != test.want || opened(t, dir) != 1-test.want {
				t.Errorf("canceled: %q, and %d tasks are open", p.cancels(), opened(t, dir))
			}
		})
	}
}

// TestTaskIsNotLeft ends tasks, of which none is open then.
func TestTaskIsNotLeft(t *testing.T) {
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	for _, text := range []string{"say sun", "ask me", "fail at it", "reject it", "message rain"} {
		give(t.Context(), a, given{id: text, message: text, text: text})
	}
	if opened(t, dir) != 1 || len(p.begins()) != 5 {
		t.Errorf("%d tasks are open, want the one that asks; begun: %q", opened(t, dir), p.begins())
	}
	if left := a.CancelDue(t.Context()); left || len(p.cancels()) != 0 || opened(t, dir) != 1 {
		t.Errorf("while its question waits: canceled: %q, and %d tasks are open", p.cancels(), opened(t, dir))
	}
	if got := give(t.Context(), a, given{id: "ask me", message: "reply", text: "here", continued: true}); got != done("so it is here") || opened(t, dir) != 0 {
		t.Errorf("after the reply: %+v, and %d tasks are open", got, opened(t, dir))
	}
}

// TestCanceledQuestion cancels a task whose question waits for the user: the peer's task is canceled at once, and another one's question stays.
func TestCanceledQuestion(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	for _, id := range []string{"1", "2"} {
		give(t.Context(), a, given{id: id, message: id, text: "ask me"})
	}
	a.Canceled("", "conversation", "1")
	a.Canceled("", "conversation", "unknown")
	if left := a.CancelDue(t.Context()); left || len(p.cancels()) != 1 || opened(t, dir) != 1 {
		t.Errorf("left: %v; canceled: %q, and %d tasks are open; want one of each", left, p.cancels(), opened(t, dir))
	}
}

// troubled has the peer answer calls of a method with an internal error, while the function returns true.
func (p *peer) troubled(method string, is func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.handler
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if err == nil && bytes.Contains(b, []byte(`"`+method+`"`)) && is() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"out of order"}}`))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestTaskOfTroubledPeer follows a task whose peer cannot say how it is. The next attempt goes on with the same task.
func TestTaskOfTroubledPeer(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", false), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	var trouble atomic.Bool
	p.troubled("GetTask", trouble.Load)
	trouble.Store(true)
	if got := give(t.Context(), a, given{id: "1", message: "m", text: "wait here"}); got.state != a2a.TaskStateFailed {
		t.Fatalf("the first attempt: %+v, want that it fails", got)
	}
	if opened(t, dir) != 1 || len(p.cancels()) != 0 {
		t.Errorf("%d tasks are open, want 1; canceled: %q", opened(t, dir), p.cancels())
	}
	trouble.Store(false)
	close(p.release)
	if got := give(t.Context(), a, given{id: "1", message: "m2", text: "wait here", attempt: 2}); got != done("waited for here") {
		t.Errorf("the second attempt: %+v", got)
	}
	if opened(t, dir) != 0 || len(p.begins()) != 1 {
		t.Errorf("%d tasks are open; begun: %q", opened(t, dir), p.begins())
	}
}

// TestCancelOfTroubledPeer cancels tasks while the peer cannot do so for the first of them. That one is canceled later, and holds up no other.
func TestCancelOfTroubledPeer(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	past := time.Now().Add(-2 * time.Hour)
	for i, id := range []string{"1", "2"} {
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan outcome, 1)
		go func() { ended <- give(ctx, a, given{id: id, message: id, text: "wait here", deadline: past}) }()
		eventually(t, "the task is named", func() bool { return named(t, dir) == i+1 })
		stop(agents.ErrStopping)
		<-ended
	}
	var calls atomic.Int32
	p.troubled("CancelTask", func() bool { return calls.Add(1) == 1 })
	if left := a.CancelDue(t.Context()); !left || len(p.cancels()) != 1 || opened(t, dir) != 1 {
		t.Errorf("left: %v; canceled: %q, and %d tasks are open; want one of each", left, p.cancels(), opened(t, dir))
	}
	if left := a.CancelDue(t.Context()); left || len(p.cancels()) != 2 || opened(t, dir) != 0 {
		t.Errorf("again: left: %v; canceled: %q, and %d tasks are open", left, p.cancels(), opened(t, dir))
	}
}

// TestCancelsThatAreNotAnswered cancels tasks of a peer that answers for some of them only, or drops the connection instead: those hold up no others for ever, and none
// that is canceled at the same time.
func TestCancelsThatAreNotAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		bad    int
		hangs  bool
		rounds int
	}{
		"one hangs":             {1, true, 1},
		"many drop connections": {6, false, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const tasks = 8
			p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
			a := open(t, dir, &peers.Peer{URL: p.server.URL})
			for i := range tasks {
				ctx, stop := context.WithCancelCause(t.Context())
				ended := make(chan outcome, 1)
				go func() {
					ended <- give(ctx, a, given{id: fmt.Sprint(i), message: fmt.Sprint(i), text: "wait here", deadline: time.Now().Add(-2 * time.Hour)})
				}()
				eventually(t, "the task is named", func() bool { return named(t, dir) == i+1 })
				stop(agents.ErrStopping)
				<-ended
			}
			var mu sync.Mutex
			bad := map[string]bool{} // the tasks that were asked for first
			next := p.handler
			p.mu.Lock()
			p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(b))
				var call struct {
					Method string
					Params struct{ ID string }
				}
				if err == nil && json.Unmarshal(b, &call) == nil && call.Method == "CancelTask" {
					mu.Lock()
					if len(bad) < test.bad {
						bad[call.Params.ID] = true
					}
					is := bad[call.Params.ID]
					mu.Unlock()
					if is && test.hangs {
						<-r.Context().Done()
					}
					if is {
						panic(http.ErrAbortHandler)
					}
				}
				next.ServeHTTP(w, r)
			})
			p.mu.Unlock()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range test.rounds {
					a.CancelDue(ctx)
				}
			}()
			eventually(t, "all others are canceled", func() bool { return len(p.cancels()) == tasks-test.bad })
			stop()
			<-ended
		})
	}
}

// TestTakenUpWhileItWaits takes tasks up again while the peer does not answer the cancellations of others: the one that waited for them is not canceled.
func TestTakenUpWhileItWaits(t *testing.T) {
	t.Parallel()
	const tasks, atOnce = 5, 4
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	work := func(n, attempt int, deadline time.Time) (end func()) {
		ctx, stop := context.WithCancelCause(t.Context())
		ended := make(chan outcome, 1)
		go func() {
			ended <- give(ctx, a, given{id: fmt.Sprint(n), message: fmt.Sprint(n), text: "wait here", attempt: attempt, deadline: deadline})
		}()
		return func() { stop(agents.ErrStopping); <-ended }
	}
	for n := range tasks {
		end := work(n, 1, time.Now().Add(-2*time.Hour))
		eventually(t, "the task is named", func() bool { return named(t, dir) == n+1 })
		end()
	}
	gate := make(chan struct{})
	answer := sync.OnceFunc(func() { close(gate) })
	defer answer()
	var mu sync.Mutex
	canceled, others := map[string]bool{}, map[string]bool{} // the tasks of calls
	count := func(of map[string]bool) int {
		mu.Lock()
		defer mu.Unlock()
		return len(of)
	}
	next := p.handler
	p.mu.Lock()
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		var call struct {
			Method string
			Params struct{ ID string }
		}
		if err != nil || json.Unmarshal(b, &call) != nil {
			return
		}
		of := others
		if call.Method == "CancelTask" {
			of = canceled
		}
		mu.Lock()
		of[call.Params.ID] = true
		mu.Unlock()
		if call.Method == "CancelTask" {
			<-gate
		}
		next.ServeHTTP(w, r)
	})
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.CancelDue(t.Context())
	}()
	eventually(t, "some are canceled", func() bool { return count(canceled) == atOnce })
	for n := range tasks {
		defer work(n, 2, time.Now().Add(2*time.Hour))()
	}
	eventually(t, "all are taken up again", func() bool { return count(others) == tasks })
	answer()
	<-ended
	if n := count(canceled); n != atOnce {
		t.Errorf("%d tasks are canceled, want the %d for which nobody waited then", n, atOnce)
	}
}

// TestSearchOfTroubledPeer gives a task to a peer that is lost while it is asked, and cannot list its tasks then: it is not asked a second time.
func TestSearchOfTroubledPeer(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", false), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	p.troubled("ListTasks", func() bool { return true })
	var sent atomic.Int32
	p.mu.Lock()
	next := p.handler
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if err == nil && bytes.Contains(b, []byte(`"SendMessage"`)) {
			sent.Add(1)
			next.ServeHTTP(&nowhere{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	p.mu.Unlock()
	got := give(t.Context(), a, given{id: "1", message: "m", text: "say sun"})
	if got.state != a2a.TaskStateFailed || !strings.Contains(got.text, "unknown whether it has begun") || sent.Load() != 1 {
		t.Errorf("%+v, after it was sent %d times", got, sent.Load())
	}
}

// TestLeftTaskIsForgotten erases a conversation. Nothing says any more that a task of it was open.
func TestLeftTaskIsForgotten(t *testing.T) {
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	begin(t, p, a, dir, given{id: "1", message: "m", text: "wait here"})(agents.ErrStopping)
	if opened(t, dir) != 1 {
		t.Fatal("no task is open")
	}
	if err := peers.Forget(dir, "", "conversation"); err != nil || opened(t, dir) != 0 {
		t.Errorf("%d tasks are open (%v)", opened(t, dir), err)
	}
}

// TestKept has tasks that wait for a reply, or are done, or are worked on, or were left: only of those that nobody works on, and which are not over, Cortex is
// asked whether they are still wanted, also by the next process.
func TestKept(t *testing.T) {
	t.Parallel()
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	kept := func() string {
		var ids []string
		for _, k := range a.Kept() {
			if ids = append(ids, string(k.ID)); k.ContextID != "conversation" {
				t.Errorf("%s is in the conversation %q", k.ID, k.ContextID)
			}
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	for _, id := range []string{"asks1", "asks2"} {
		give(t.Context(), a, given{id: id, message: id, text: "ask me"})
	}
	give(t.Context(), a, given{id: "done", message: "done", text: "say sun"})
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- give(ctx, a, given{id: "left", message: "left", text: "wait here"}) }()
	eventually(t, "the task is named", func() bool { return named(t, dir) == 4 })
	if got := kept(); got != "asks1 asks2" {
		t.Errorf("while one is worked on: %q", got)
	}
	stop(agents.ErrStopping)
	<-ended
	a.Close()
	a = open(t, dir, &peers.Peer{URL: p.server.URL})
	if got := kept(); got != "asks1 asks2 left" {
		t.Errorf("the next process: %q", got)
	}
	a.Canceled("", "conversation", "asks1")
	a.Canceled("", "conversation", "left")
	if left := a.CancelDue(t.Context()); left || len(p.cancels()) != 2 || kept() != "asks2" {
		t.Errorf("left: %v; canceled: %q; kept: %q", left, p.cancels(), kept())
	}
}
