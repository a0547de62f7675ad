package cortex

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// counter is an Observer that is no Tracer.
type counter struct{ entries int }

func (c *counter) Appended(*conversation.Conversation, *conversation.Entry) { c.entries++ }

// TestWithoutTracer checks that traces cost an orchestrator without a Tracer no allocation.
func TestWithoutTracer(t *testing.T) {
	conv := conversation.NewConversation("", "c")
	conv.Turns = append(conv.Turns, &conversation.Turn{ID: "t"})
	entry, effect := &conversation.Entry{Turn: "t"}, conversation.Effect{Event: &transport.Event{}}
	for name, observers := range map[string][]Observer{"nothing": nil, "a counter": {&counter{}}} {
		o := &Orchestrator{cfg: Config{Observers: observers}}
		allocations := testing.AllocsPerRun(1000, func() {
			o.within(t.Context(), conv, "t", "")
			o.observe(conv, entry)
			o.trace(conv, effect)
		})
		if allocations != 0 {
			t.Errorf("%v allocations for each entry and event with %s, want none", allocations, name)
		}
	}
}
