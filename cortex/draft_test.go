package cortex_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestDraftIsNotHeldBack checks that text of a model is shown even if the model then stops writing.
func TestDraftIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, stream func(string)) (*llm.Decision, error) {
			stream("Once ")
			stream("upon ")
			stream("a time")
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.say("m1", "go")
		pass(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		var shown strings.Builder
		for _, e := range w.live {
			if d, ok := e.Payload.(*transport.Delta); ok {
				shown.WriteString(d.Text)
			}
		}
		if got, want := shown.String(), "Once upon a time"; got != want {
			t.Errorf("shown while the model is silent: %q, want %q", got, want)
		}
	})
}

// TestDraftsAreSoon checks how late text is shown: the first words of an answer within 1 ms, those of a slow model at once, and those of a fast one
// gathered, at most 10 ms later.
func TestDraftsAreSoon(t *testing.T) {
	for name, every := range map[string]time.Duration{"slow": 20 * time.Millisecond, "fast": 500 * time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pieces = 100
				var written []time.Time
				w := newWorld(t, decideFunc(func(_ context.Context, _ *llm.Turn, stream func(string)) (*llm.Decision, error) {
					for range pieces {
						written = append(written, time.Now())
						stream("x")
						<-time.After(every)
					}
					return respond(strings.Repeat("x", pieces)), nil
				}))
				w.say("m1", "go")
				pass(10 * time.Second)
				n, drafts := 0, 0
				var latest time.Duration
				for _, e := range w.watched() {
					if d, ok := e.Payload.(*transport.Delta); ok {
						if late := e.Time.Sub(written[n]); n == 0 && late > time.Millisecond {
							t.Errorf("the first word is shown after %v", late)
						} else if n > 0 {
							latest = max(latest, late)
						}
						n, drafts = n+len(d.Text), drafts+1
					}
				}
				if n != pieces {
					t.Errorf("%d of %d words are shown", n, pieces)
				}
				switch {
				case name == "slow" && (latest != 0 || drafts != pieces):
					t.Errorf("a word of a slow model is shown up to %v late, in %d drafts", latest, drafts)
				case name == "fast" && (latest > 10*time.Millisecond || drafts > 8):
					t.Errorf("a word of a fast model is shown up to %v late, in %d drafts", latest, drafts)
				}
			})
		})
	}
}

// TestWhatIsDoneAtOnce checks that nothing is shown twice: no draft of an answer that follows at once, and the end of a task not
// again after the decision.
func TestWhatIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(_ context.Context, turn *llm.Turn, stream func(string)) (*llm.Decision, error) {
			if len(turn.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "x"}), nil
			}
			for range 10 {
				stream("done, ")
			}
			return respond("done"), nil
		}))
		w.say("m1", "go")
		pass(time.Second)
		w.finish("alpha", w.onlyTask("alpha"), "A")
		pass(time.Second)
		w.wantAnswer("m1", "done")
		ended := 0
		for _, e := range w.watched() {
			switch e.Payload.(type) {
			case *transport.Delta:
				t.Errorf("a draft was shown: %+v", e.Payload)
			case *a2a.TaskStatusUpdateEvent:
				ended++
			}
		}
		if ended != 1 {
			t.Errorf("that the task ended was shown %d times, want once", ended)
		}
	})
}

// slow is a transport that blocks live events until it is released.
type slow struct {
	transport.Transport
	let chan struct{}
}

func (s slow) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if _, ok := e.Payload.(*transport.Delta); ok {
		<-s.let
	}
	return s.Transport.Publish(ctx, t, e)
}

// TestModelDoesNotWaitForTheScreen has the transport block a model's text: the model goes on, and all of its text is shown in order
// afterwards.
func TestModelDoesNotWaitForTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan struct{})
		var want strings.Builder
		d := decideFunc(func(_ context.Context, _ *llm.Turn, stream func(string)) (*llm.Decision, error) {
			for i := range 100 {
				piece := strings.Repeat(string(rune('a'+i%26)), 700)
				want.WriteString(piece)
				stream(piece)
				<-time.After(time.Millisecond)
			}
			close(written)
			return respond(want.String()), nil
		})
		w := newWorld(t, d)
		s := slow{w.bus, make(chan struct{})}
		w.restart(cortex.Config{Decider: d, Transport: s})
		w.say("m1", "go")
		pass(time.Second)
		select {
		case <-written:
		default:
			t.Error("the model waits for what it wrote to be shown")
		}
		close(s.let)
		pass(time.Second)
		var shown strings.Builder
		for _, e := range w.watched() {
			if d, ok := e.Payload.(*transport.Delta); ok {
				shown.WriteString(d.Text)
			}
		}
		if shown.String() != want.String() {
			t.Errorf("%d bytes were shown, want %d in their order", shown.Len(), want.Len())
		}
		w.wantAnswer("m1", want.String())
	})
}
