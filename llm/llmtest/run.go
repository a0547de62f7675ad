package llmtest

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// patience bounds each wait for something that must happen. Only failing clients wait that long.
	patience = 10 * time.Second
	// key is the API key of the clients under test.
	key = "sk-suite-0123456789abcdefghijklmnop"
)

// testCase checks one promise, with its own server and client.
type testCase struct {
	name string
	// needs are the features that the case requires.
	needs []Feature
	run   func(*env)
}

// Run checks that the client of w fulfils the contract of [llm.Client], each promise in a subtest of its own:
//
//   - A complete answer ends with one Done chunk, with the model's name and the usage; text is yielded as it is written. Thoughts and unknown
//     parts are no text; while the model thinks, chunks without text are yielded.
//   - The content of the request arrives, in order and unchanged, and so does the schema, in each of w.Modes. Images arrive byte for byte, or
//     are replaced by a line of text if the model does not accept them.
//   - A call that fails ends with one error, which is an [llm.Error] with Provider, Model, Status, the endpoint's message and its RetryAfter,
//     and wraps exactly one of package llm's kinds. The client does not retry.
//   - An answer that breaks off is [llm.ErrTruncated], or [llm.ErrUnavailable] before its first piece; a response that is no answer is one of
//     these or [llm.ErrEmpty]; an answer without text, or with an unreadable function call, is [llm.ErrEmpty]. Text before that was yielded.
//   - The end of the context, and leaving the loop, end the request and leave no goroutine behind.
//   - No error and no log shows the key, in any form, and no other server receives it. Nothing that a server sends makes the client panic, hang
//     or grow without bound.
//
// Cases that need one of w.Lacks are left out.
func Run(t *testing.T, w Wire) {
	if len(w.Lacks) > 0 {
		t.Logf("the wire lacks %q", w.Lacks)
	}
	w.patience = cmp.Or(w.patience, patience)
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

// env is the environment of a case.
type env struct {
	*testing.T
	wire Wire
	over chan struct{} // closed when the case has ended: for a Hold that lasts
}

func (e *env) lacks(f Feature) bool { return slices.Contains(e.wire.Lacks, f) }

// serve starts a server with these replies in this order, the last one repeated, and returns a client of it.
func (e *env) serve(replies ...*Reply) (llm.Client, *server) {
	e.Helper()
	return e.serveMode("", replies...)
}

// serveMode is serve for a client with a mode of structured output.
func (e *env) serveMode(mode llm.Structured, replies ...*Reply) (llm.Client, *server) {
	e.Helper()
	s := &server{e: e, arrived: make(chan *Call, 1000)}
	s.say(replies...)
	return e.wire.Dial(e.T, s.handle, Options{Mode: mode, Key: key}), s
}

// serveImages is serve for a client whose model accepts images.
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
	default: // a client that retries forever
	}
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	return reply
}

// count returns the number of calls received.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// call returns the next call received.
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

// gone checks that the client abandons the next call.
func (s *server) gone() {
	s.e.Helper()
	s.e.wantGone(s.call())
}

// wantGone checks that the client abandons c.
func (e *env) wantGone(c *Call) {
	e.Helper()
	select {
	case <-c.Gone:
	case <-time.After(e.wire.patience):
		e.Error("the request goes on: the server does not see that the client has gone")
	}
}

// each returns one case for each mode of structured output.
func each(modes []llm.Structured, name string, run func(*env, llm.Structured), needs ...Feature) []testCase {
	var cases []testCase
	for _, mode := range modes {
		cases = append(cases, testCase{name: name + " " + string(mode), needs: needs, run: func(e *env) { run(e, mode) }})
	}
	return cases
}

// brief shortens s for an error message.
func brief(s string) string { return shorten.Marked(s, 200, "…") }
