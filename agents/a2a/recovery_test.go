package a2a_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/transport"
)

// given is a task as Cortex delivers it.
type given struct {
	id, message, text string
	delivery, attempt int
	continued         bool
	deadline          time.Time
	meta              map[string]any
}

// outcome is what came of it.
type outcome struct {
	state a2a.TaskState
	text  string
}

// give gives an agent a task, as the kit does.
func give(ctx context.Context, a *peers.Agent, g given) outcome {
	m := &a2a.Message{ID: g.message, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(g.text)}, Metadata: map[string]any{}}
	maps.Copy(m.Metadata, g.meta)
	if g.attempt > 1 {
		m.Metadata[transport.MetaAttempt] = float64(g.attempt)
	}
	if g.continued {
		m.Metadata[transport.MetaContinued] = true
	}
	t := &agents.Task{ID: a2a.TaskID(g.id), ContextID: "conversation", Message: m, Delivery: max(g.delivery, 1), Deadline: g.deadline}
	for e, err := range a.Execute(ctx, t) {
		if err != nil {
			return outcome{a2a.TaskStateFailed, err.Error()}
		}
		if s, ok := e.(*a2a.TaskStatusUpdateEvent); ok {
			return outcome{s.Status.State, transport.Text(s.Status.Message.Parts)}
		}
	}
	return outcome{}
}

// eventually waits until cond is true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// waits waits until the peer has begun n tasks.
func (p *peer) waits(n int) {
	p.t.Helper()
	eventually(p.t, "the task begins", func() bool { return len(p.begins()) == n })
}

func done(text string) outcome { return outcome{a2a.TaskStateCompleted, text} }

// TestAgentIsStartedAnew stops an agent while its peer works. The next process follows the same task.
func TestAgentIsStartedAnew(t *testing.T) {
	for _, binding := range bindings {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %v", binding, streams), func(t *testing.T) {
				t.Parallel()
				p, dir := newPeer(t, binding, streams), t.TempDir()
				a := open(t, dir, &peers.Peer{URL: p.server.URL})
				ctx, stop := context.WithCancelCause(t.Context())
				ended := make(chan outcome, 1)
				go func() { ended <- give(ctx, a, given{id: "1", message: "m", text: "wait here"}) }()
				p.waits(1)
				eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
				stop(agents.ErrStopping)
				if got := <-ended; got.text != agents.ErrStopping.Error() {
					t.Errorf("stopped: %+v", got)
				}
				a.Close()
				a = open(t, dir, &peers.Peer{URL: p.server.URL})
				go func() { ended <- give(t.Context(), a, given{id: "1", message: "m", text: "wait here", delivery: 2}) }()
				close(p.release)
				if got := <-ended; got != done("waited for here") {
					t.Errorf("got %+v", got)
				}
				if got := p.begins(); len(got) != 1 || len(p.canceled) != 0 {
					t.Errorf("begun: %q, canceled: %q", got, p.canceled)
				}
			})
		}
	}
}

// TestPeerIsStartedAnew cuts all connections of a peer, which keeps its tasks.
func TestPeerIsStartedAnew(t *testing.T) {
	for _, binding := range bindings[:2] {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %v", binding, streams), func(t *testing.T) {
				t.Parallel()
				p, dir := newPeer(t, binding, streams), t.TempDir()
				a := open(t, dir, &peers.Peer{URL: p.server.URL})
				ended := make(chan outcome, 1)
				go func() { ended <- give(t.Context(), a, given{id: "1", message: "m", text: "wait here"}) }()
				p.waits(1)
				eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
				p.restart()
				p.server.CloseClientConnections()
				close(p.release)
				if got := <-ended; got != done("waited for here") {
					t.Errorf("got %+v", got)
				}
				if got := p.begins(); len(got) != 1 {
					t.Errorf("begun: %q", got)
				}
			})
		}
	}
}

// TestPeerForgets has a peer forget its tasks. The task fails, and nothing is begun again.
func TestPeerForgets(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %v", streams), func(t *testing.T) {
			t.Parallel()
			p, dir := newPeer(t, "JSONRPC 1.0", streams), t.TempDir()
			a := open(t, dir, &peers.Peer{URL: p.server.URL})
			ended := make(chan outcome, 1)
			go func() { ended <- give(t.Context(), a, given{id: "1", message: "m", text: "wait here"}) }()
			p.waits(1)
			eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
			p.store = taskstore.NewInMemory(nil)
			p.restart()
			p.server.CloseClientConnections()
			for n, got := range []outcome{<-ended, give(t.Context(), a, given{id: "1", message: "m", text: "wait here", delivery: 2})} {
				if got.state != a2a.TaskStateFailed || !strings.Contains(got.text, "does not know its task any more") {
					t.Errorf("%d: %+v", n, got)
				}
			}
			if got := p.begins(); len(got) != 1 {
				t.Errorf("begun: %q", got)
			}
		})
	}
}

// cut makes the peer take the first messages, and end their connections without an answer.
func (p *peer) cut(first int32) {
	var left atomic.Int32
	left.Store(first)
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.handler
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if err != nil || !bytes.Contains(b, []byte("essage")) || left.Add(-1) < 0 {
			next.ServeHTTP(w, r)
			return
		}
		n := len(p.begins())
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(b))
		go next.ServeHTTP(&nowhere{header: http.Header{}}, again)
		eventually(p.t, "the cut request is done", func() bool { return len(p.begins()) > n || len(p.all()) > n })
		panic(http.ErrAbortHandler)
	})
}

func (p *peer) all() []*a2a.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

// nowhere is an answer that nobody gets.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Flush()                      {}

// TestSendIsCutOff cuts the answer to what is sent, before it names a task: the task is found by the message in its history, or, with peers that
// cannot list their tasks, the same message is sent again.
func TestSendIsCutOff(t *testing.T) {
	for _, test := range []struct {
		binding string
		begun   int
	}{{"JSONRPC 1.0", 1}, {"HTTP+JSON 1.0", 1}, {"JSONRPC 0.3", 2}} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %v", test.binding, streams), func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, test.binding, streams)
				a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
				p.cut(1)
				if got := give(t.Context(), a, given{id: "1", message: "m", text: "say sun"}); got != done("sun") {
					t.Errorf("got %+v", got)
				}
				ids := map[string]bool{}
				for _, m := range p.all() {
					ids[m.ID] = true
				}
				if got := p.begins(); len(got) != test.begun || len(ids) != 1 {
					t.Errorf("begun: %q, as %v, want %d times as one message", got, ids, test.begun)
				}
			})
		}
	}
}

// TestReplyIsCutOff cuts the answer to a reply. The reply is not given twice.
func TestReplyIsCutOff(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", false)
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
	question := outcome{a2a.TaskStateInputRequired, "Where?"}
	for n := range 2 { // the second time, since the question was not acknowledged
		if got := give(t.Context(), a, given{id: "1", message: "m", text: "ask me", delivery: n + 1}); got != question {
			t.Fatalf("got %+v", got)
		}
	}
	p.cut(1)
	reply := given{id: "1", message: "n", text: "here", continued: true}
	for n := range 2 {
		if reply.delivery = n + 1; give(t.Context(), a, reply) != done("so it is here") {
			t.Errorf("the reply was given in vain, %d", n)
		}
	}
	if got := p.all(); len(got) != 2 {
		t.Errorf("%d messages were sent, want 2", len(got))
	}
}

// TestReplyIsRefusedSinceItHasArrived cuts the answer to a reply, of which the task shows nothing until it has ended. The reply, given again, is
// refused, since the task has ended: that is no failure.
func TestReplyIsRefusedSinceItHasArrived(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", false)
	p.hold = make(chan struct{})
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
	if got := give(t.Context(), a, given{id: "1", message: "m", text: "ask me"}); got.text != "Where?" {
		t.Fatalf("got %+v", got)
	}
	p.cut(1)
	p.mu.Lock()
	next, looked := p.handler, false
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		next.ServeHTTP(w, r)
		if err == nil && !looked && bytes.Contains(b, []byte("GetTask")) && len(p.all()) == 2 {
			looked = true
			close(p.hold)
		}
	})
	p.mu.Unlock()
	if got := give(t.Context(), a, given{id: "1", message: "n", text: "here", continued: true}); got != done("so it is here") {
		t.Errorf("got %+v", got)
	}
	if !looked || len(p.all()) != 2 {
		t.Errorf("looked: %v, %d messages were taken, want 2", looked, len(p.all()))
	}
}

// TestReplyIsRefusedAtFirst answers a question of peers that are busy with it still, as the SDK's server is for a moment after it has asked. The reply is
// given again.
func TestReplyIsRefusedAtFirst(t *testing.T) {
	for _, binding := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "HTTP+JSON 0.3"} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, binding, true)
			a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
			if got := give(t.Context(), a, given{id: "1", message: "m", text: "ask me"}); got.text != "Where?" {
				t.Fatalf("got %+v", got)
			}
			var refused atomic.Int32
			next := p.handler
			p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(b))
				if !bytes.Contains(b, []byte(`"here"`)) || refused.Add(1) > 1 {
					next.ServeHTTP(w, r)
					return
				}
				if strings.HasPrefix(binding, "JSONRPC") {
					asJSON(`{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"in progress"}}`)(w, r)
					return
				}
				http.Error(w, "in progress", http.StatusInternalServerError)
			})
			if got := give(t.Context(), a, given{id: "1", message: "n", text: "here", continued: true}); got != done("so it is here") {
				t.Errorf("got %+v", got)
			}
			if got := p.all(); len(got) != 2 || refused.Load() != 2 {
				t.Errorf("%d messages have arrived, and %d replies", len(got), refused.Load())
			}
		})
	}
}

// TestAttempts gives a task again: one that goes on is followed, one that has failed is begun anew, and one that is done has its result.
func TestAttempts(t *testing.T) {
	p, dir := newPeer(t, "JSONRPC 1.0", true), t.TempDir()
	a := open(t, dir, &peers.Peer{URL: p.server.URL})
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- give(ctx, a, given{id: "1", message: "m1", text: "wait here"}) }()
	eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
	stop(agents.ErrStopping)
	<-ended
	go func() { ended <- give(t.Context(), a, given{id: "1", message: "m2", text: "wait here", attempt: 2}) }()
	close(p.release)
	if got := <-ended; got != done("waited for here") || len(p.begins()) != 1 {
		t.Errorf("followed: %+v, begun %q", got, p.begins())
	}
	if got := give(t.Context(), a, given{id: "1", message: "m3", text: "wait here", attempt: 3}); got != done("waited for here") || len(p.begins()) != 1 {
		t.Errorf("done: %+v, begun %q", got, p.begins())
	}
	for attempt := range 2 {
		give(t.Context(), a, given{id: "2", message: fmt.Sprint("f", attempt), text: "fail at it", attempt: attempt + 1})
	}
	m := p.all()
	if got := p.begins(); len(got) != 3 || m[1].ID == m[2].ID {
		t.Errorf("failed: begun %q", got)
	}
	for n := range 2 { // an answer without a task, which was not acknowledged
		if got := give(t.Context(), a, given{id: "3", message: "x", text: "message rain", delivery: n + 1}); got != done("no task for rain") {
			t.Errorf("message: %+v", got)
		}
	}
	if got := p.begins(); len(got) != 4 {
		t.Errorf("message: begun %q", got)
	}
}

// TestCancel cancels a task, which its peer is told.
func TestCancel(t *testing.T) {
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			p, dir := newPeer(t, binding, true), t.TempDir()
			a := open(t, dir, &peers.Peer{URL: p.server.URL})
			ctx, stop := context.WithCancelCause(t.Context())
			ended := make(chan outcome, 1)
			go func() { ended <- give(ctx, a, given{id: "1", message: "m", text: "wait here"}) }()
			eventually(t, "the task is named", func() bool { return named(t, dir) == 1 })
			stop(agents.ErrCanceled)
			if got := <-ended; got.text != agents.ErrCanceled.Error() {
				t.Errorf("got %+v", got)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.canceled) != 1 {
				t.Errorf("canceled: %q", p.canceled)
			}
		})
	}
}

// named returns the number of records in a folder that have the peer's id of a task.
func named(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "tasks", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), `"task":`) {
			n++
		}
	}
	return n
}
