package llmtest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// patience bounds every wait for something that must come. Only a client that fails waits for so long.
	patience = 10 * time.Second
	// key is the API key of the clients under test.
	key = "sk-suite-0123456789abcdefghijklmnop"
)

// testCase is one promise. It has a server and a client of its own.
type testCase struct {
	name string
	// needs are features without which the case has no meaning.
	needs []Feature
	run   func(*env)
}

// Run checks that the client behind w keeps what [llm.Client] promises, each promise in a subtest of its own:
//
//   - One Done chunk ends a complete answer, with the model's name and the usage; text comes as it is written. What the
//     model thought, and what the client does not know, is no text; while it thinks, chunks without text come.
//   - What the request says arrives, in order and unchanged, and so does the schema, in each of w.Modes. Images arrive, byte by byte, or a
//     line of text names them: those that the model does not take.
//   - A call that fails ends with one error, which is an [llm.Error] with Provider, Model, Status, the endpoint's words
//     and its RetryAfter, and wraps exactly one of package llm's kinds. It is tried once.
//   - An answer that breaks off is [llm.ErrTruncated], or [llm.ErrUnavailable] before its first piece; what is no answer at
//     all is one of the two or [llm.ErrEmpty]; one without text, and a function call that cannot be read, is [llm.ErrEmpty].
//     What came before was yielded.
//   - The end of the context, and leaving the loop, end the request and leave no goroutine behind.
//   - No error and no log shows the key, in any form, and no other server gets it. Nothing that a server sends makes the client panic, wait or grow without end.
//
// Cases that need one of w.Lacks are left out.
func Run(t *testing.T, w Wire) {
	if len(w.Lacks) > 0 {
		t.Logf("the wire lacks %q", w.Lacks)
	}
	if w.patience == 0 {
		w.patience = patience
	}
	if w.Down == nil {
		t.Log("the wire has no server that is down")
	}
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"text", textCases},
		{"request", requestCases},
		{"structured", structuredCases(w)},
		{"finish", finishCases},
		{"cut", cutCases},
		{"errors", errorCases(w)},
		{"retry after", retryCases},
		{"garbage", garbageCases},
		{"end", endCases},
		{"goroutines", goroutineCases},
		{"concurrent", concurrentCases},
		{"secret", secretCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				if slices.ContainsFunc(c.needs, func(f Feature) bool { return slices.Contains(w.Lacks, f) }) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					e := &env{T: t, wire: w, over: make(chan struct{})}
					defer close(e.over) // before the servers are closed, which wait for their calls
					c.run(e)
				})
			}
		})
	}
}

// env is what a case works with.
type env struct {
	*testing.T
	wire Wire
	over chan struct{} // closed when the case has ended: for a Hold that lasts
}

func (e *env) lacks(f Feature) bool { return slices.Contains(e.wire.Lacks, f) }

// serve starts a server that gives these replies in this order, and the last one again and again, and dials it.
func (e *env) serve(replies ...*Reply) (llm.Client, *server) {
	e.Helper()
	return e.serveMode("", replies...)
}

// serveMode is serve for a client with a way to structured output.
func (e *env) serveMode(mode llm.Structured, replies ...*Reply) (llm.Client, *server) {
	e.Helper()
	s := &server{e: e, arrived: make(chan *Call, 1000)}
	s.say(replies...)
	return e.wire.Dial(e.T, s.handle, Options{Mode: mode, Key: key}), s
}

// serveImages is serve for a client whose model takes images.
func (e *env) serveImages(replies ...*Reply) (llm.Client, *server) {
	e.Helper()
	s := &server{e: e, arrived: make(chan *Call, 1000)}
	s.say(replies...)
	return e.wire.Dial(e.T, s.handle, Options{Key: key, Images: true}), s
}

// server is a scripted endpoint.
type server struct {
	e       *env
	arrived chan *Call

	mu      sync.Mutex
	replies []*Reply
	calls   int
}

// say replaces the script.
func (s *server) say(replies ...*Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = replies
}

func (s *server) handle(c *Call) *Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	select {
	case s.arrived <- c:
	default: // a client that never stops trying
	}
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	return reply
}

// count returns how many calls came.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// call returns the next call that came.
func (s *server) call() *Call {
	s.e.Helper()
	select {
	case c := <-s.arrived:
		return c
	case <-time.After(s.e.wire.patience):
		s.e.Fatal("the server got no call")
		return nil
	}
}

// gone wants the next call that came to be given up by the client.
func (s *server) gone() {
	s.e.Helper()
	s.e.wantGone(s.call())
}

// wantGone wants the client to give up c.
func (e *env) wantGone(c *Call) {
	e.Helper()
	select {
	case <-c.Gone:
	case <-time.After(e.wire.patience):
		e.Error("the request goes on: the server does not see that the client has gone")
	}
}

// each is one case for each of some ways to structured output.
func each(modes []llm.Structured, name string, run func(*env, llm.Structured), needs ...Feature) []testCase {
	var cases []testCase
	for _, mode := range modes {
		cases = append(cases, testCase{name: name + " " + string(mode), needs: needs, run: func(e *env) { run(e, mode) }})
	}
	return cases
}

// brief returns s for an error message.
func brief(s string) string { return shorten.Marked(s, 200, "…") }
