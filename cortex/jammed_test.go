package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// jammed is a transport with an agent whose inbox is full.
type jammed struct {
	transport.Transport
	agent string
}

func (j *jammed) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t == transport.Inbox("", j.agent) {
		return fmt.Errorf("%w: 50000 events wait for %s, which gets more when it has fetched some", transport.ErrFull, j.agent)
	}
	return j.Transport.Publish(ctx, t, e)
}

// TestAgentThatDoesNotRead gives an agent with a full inbox a task, and has it ask, and ask too often: its task ends at once with the reason,
// its requests are answered in the log, and nothing waits for it.
func TestAgentThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case t.User == "go":
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "A"}, llm.Delegation{ID: "2", Agent: "beta", Task: "B"})
			}
			return respond("fine")
		})
		w := newWorld(t, d)
		w.restart(cortex.Config{Transport: &jammed{w.bus, "alpha"}, Decider: d})
		w.say("m1", "go")
		w.finish("beta", w.onlyTask("beta"), "done")
		const why = "alpha REJECTED it cannot be sent: 50000 events wait for alpha, which gets more when it has fetched some"
		if got := w.answers()["m1"]; !strings.Contains(got, why) || !strings.Contains(got, "beta COMPLETED done") {
			t.Errorf("answer %q, want %q in it, and what beta did", got, why)
		}
		w.sayAs("alpha", "m2", "hello")
		w.wantAnswer("m2", "fine")
		if got := w.liveAnswers(); !slices.Contains(got, "fine") {
			t.Errorf("people were shown %q, want the answer that alpha does not fetch", got)
		}
		w.publish(unreadable("m3", "alpha", "message", "")) // it is refused
		w.publish(unreadable("m4", "alpha", "message", ""))
		if got := w.deadLetters(); len(got) != 2 {
			t.Errorf("dead letters %q, want 2", got)
		}
		if waiting, err := w.bus.(transport.InboxDepth).Waiting(t.Context(), transport.Inbox("", transport.Cortex)); err != nil || waiting != 0 {
			t.Errorf("%d events wait for Cortex, %v, want none", waiting, err)
		}
		w.wantFold()
	})
}
