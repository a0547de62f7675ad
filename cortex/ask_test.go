package cortex_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestAgentAsksInTime checks that an agent's request ends by the deadline that it names, is answered on its control topic too, and is answered
// again when the agent repeats it under an id that the transport has not seen.
func TestAgentAsksInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		heard := 0
		w.listen(transport.Control("", "alpha"), func(e *transport.Event) {
			if _, ok := e.Payload.(*a2a.Message); ok {
				heard++
			}
		})
		until := time.Now().Add(20 * time.Second).UTC()
		e := userEvent("a1", "beta: go on")
		e.From = "alpha"
		message(e).Metadata = map[string]any{transport.MetaDeadline: until.Format(time.RFC3339Nano)}
		publish := func(e *transport.Event) {
			t.Helper()
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		publish(e)
		conv := w.load()
		for _, task := range conv.Tasks {
			if !task.Deadline.Equal(until) || !task.Latest.Equal(until) {
				t.Errorf("deadline %v, at the latest %v, want %v", task.Deadline, task.Latest, until)
			}
		}
		pass(time.Minute) // beta is silent
		if heard != 1 {
			t.Errorf("%d answers on the control topic, want 1", heard)
		}
		entries := w.load().Seq
		again := *e
		again.ID = transport.AgainID(e.ID, "1")
		publish(&again)
		if heard != 2 || w.load().Seq != entries {
			t.Errorf("asked again: %d answers, %d entries, want 2 and %d", heard, w.load().Seq, entries)
		}
	})
}
