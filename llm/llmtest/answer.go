package llmtest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// request returns a request with one user message.
func request(text string) *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User(text)}}
}

// answer is the result of a call.
type answer struct {
	pieces []string    // the non-empty texts
	signs  int         // chunks without text before the first text
	done   []llm.Chunk // the chunks with Done
	err    error
	late   int    // chunks and errors after the end
	panics string // what the client panicked with
}

func (a *answer) text() string { return strings.Join(a.pieces, "") }

func (a *answer) add(chunk llm.Chunk, err error) {
	if len(a.done) > 0 || a.err != nil {
		a.late++
	}
	if err != nil {
		a.err = err
		return
	}
	switch {
	case chunk.Text != "":
		a.pieces = append(a.pieces, chunk.Text)
	case len(a.pieces) == 0 && !chunk.Done:
		a.signs++
	}
	if chunk.Done {
		a.done = append(a.done, chunk)
	}
}

// calling is a call under way.
type calling struct {
	first chan struct{} // closed after the first text
	ended chan struct{} // closed when the iteration has ended
	alive chan int      // the number of signs, as they arrive
	answer
}

// label marks the goroutines that a case's calls start, which inherit it.
const label = "llmtest"

// start begins a call. It leaves the loop after this many pieces of text; 0 reads to the end.
func (e *env) start(ctx context.Context, c llm.Client, r *llm.Request, leaveAfter int) *calling {
	k := &calling{first: make(chan struct{}), ended: make(chan struct{}), alive: make(chan int, 1000)}
	go func() {
		defer close(k.ended)
		defer func() {
			if p := recover(); p != nil {
				k.panics = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		pprof.Do(ctx, pprof.Labels(label, e.Name()), func(ctx context.Context) {
			for chunk, err := range c.Generate(ctx, r) {
				before := k.signs
				if k.add(chunk, err); k.signs > before {
					select {
					case k.alive <- k.signs:
					default: // nobody waits for so many
					}
				}
				if len(k.pieces) == 1 && chunk.Text != "" {
					close(k.first)
				}
				if leaveAfter > 0 && len(k.pieces) >= leaveAfter {
					return
				}
			}
		})
	}()
	return k
}

// awaitFirst waits for the first text of k.
func (e *env) awaitFirst(k *calling) {
	e.Helper()
	select {
	case <-k.first:
	case <-k.ended:
		e.Fatalf("the call ended with %q, %v, before the first piece", k.text(), k.err)
	case <-time.After(e.wire.patience):
		e.Fatal("the first piece does not come while the reply goes on")
	}
}

// awaitSigns waits until n chunks without text have arrived.
func (e *env) awaitSigns(k *calling, n int) {
	e.Helper()
	until := time.After(e.wire.patience)
	for {
		select {
		case got := <-k.alive:
			if got >= n {
				return
			}
		case <-until:
			e.Fatal("the model thinks, and no chunk says that it is alive")
		}
	}
}

// await waits for the end of k, and checks what holds for every call.
func (e *env) await(k *calling) *answer {
	e.Helper()
	select {
	case <-k.ended:
	case <-time.After(e.wire.patience):
		e.Fatal("the iteration does not end")
	}
	if k.panics != "" {
		e.Fatalf("the client panics: %s", k.panics)
	}
	if k.late > 0 {
		e.Errorf("%d chunks behind the end", k.late)
	}
	return &k.answer
}

// ask makes a call and waits for its end.
func (e *env) ask(c llm.Client, r *llm.Request) *answer {
	e.Helper()
	return e.await(e.start(e.Context(), c, r, 0))
}

// wantText checks for a complete answer, and returns its last chunk.
func (e *env) wantText(a *answer, want string) llm.Chunk {
	e.Helper()
	if a.err != nil {
		e.Fatalf("Generate = %q, error %v, want %q", brief(a.text()), a.err, brief(want))
	}
	if got := a.text(); got != want {
		e.Errorf("Generate = %q (%d bytes), want %q (%d bytes)", brief(got), len(got), brief(want), len(want))
	}
	if len(a.done) != 1 {
		e.Fatalf("%d chunks with Done, want 1", len(a.done))
	}
	return a.done[0]
}

// kinds are all kinds of errors of a model.
var kinds = []error{
	llm.ErrUnavailable, llm.ErrRateLimited, llm.ErrTruncated, llm.ErrEmpty, llm.ErrQuota, llm.ErrAuth, llm.ErrNoModel, llm.ErrBadRequest,
	llm.ErrTooLong, llm.ErrLength, llm.ErrRefused, llm.ErrBudget, llm.ErrInvalidDecision,
}

// wantError checks for a call that failed with one of these kinds and no other, and returns its error. A call that ends without an error and without
// Done counts as cut off; then the returned [llm.Error] is empty.
func (e *env) wantError(a *answer, want ...error) *llm.Error {
	e.Helper()
	if len(a.done) > 0 {
		e.Fatalf("Generate = %q, Done, error %v, want the error %q", brief(a.text()), a.err, want)
	}
	err := a.err
	if err == nil {
		err = llm.ErrTruncated
	}
	fits := false
	for _, kind := range want {
		fits = fits || errors.Is(err, kind)
	}
	if !fits {
		e.Fatalf("Generate = %q, error %q, want the error %q", brief(a.text()), brief(err.Error()), want)
	}
	var is []error
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			is = append(is, kind)
		}
	}
	if len(is) != 1 {
		e.Errorf("the error %q is of the kinds %q, want one", err, is)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("the error %q is that of a context, but the call's has not ended", err)
	}
	if a.err == nil {
		return &llm.Error{Kind: llm.ErrTruncated}
	}
	if s := err.Error(); len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		e.Errorf("the error is no clean line of at most 2000 bytes: %q", brief(s))
	}
	var failed *llm.Error
	if !errors.As(err, &failed) {
		e.Fatalf("the error %q is a %T, want an *llm.Error", err, err)
	}
	if failed.Provider == "" || failed.Model != Model {
		e.Errorf("the error has Provider %q and Model %q, want a name and %q", failed.Provider, failed.Model, Model)
	}
	return failed
}

// wantEnd checks for a call that ended with ctx.
func (e *env) wantEnd(a *answer, want error) {
	e.Helper()
	if len(a.done) > 0 || !errors.Is(a.err, want) {
		e.Errorf("Generate = %q, %d Done, error %v, want the error %q", brief(a.text()), len(a.done), a.err, want)
	}
}
