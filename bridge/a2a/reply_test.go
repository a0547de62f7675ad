package a2a_test

import (
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// TestStreamOfReply replies to questions by streams: each tells what comes after the reply, and nothing of before.
func TestStreamOfReply(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for _, agent := range []string{"", "/agents/worker"} {
			t.Run(string(binding)+agent, func(t *testing.T) {
				c := w.join(binding, url+agent)
				task := w.send(c, saying("paint"))
				for _, reply := range []struct {
					text string
					end  sdk.TaskState
				}{{"red", sdk.TaskStateInputRequired}, {"dark", sdk.TaskStateCompleted}} {
					events := collect(t, c.SendStreamingMessage(t.Context(), in(saying(reply.text), "", task.ID)))
					if first, ok := events[0].(*sdk.Task); !ok || first.ID != task.ID || first.Status.State != sdk.TaskStateWorking {
						t.Errorf("%s: first: %+v", reply.text, events[0])
					}
					if last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent); !ok || last.Status.State != reply.end {
						t.Errorf("%s: last: %+v", reply.text, events[len(events)-1])
					}
					for i, e := range events {
						u, ok := e.(*sdk.TaskStatusUpdateEvent)
						if last := i == len(events)-1; ok && (last && u.Status.State != reply.end || !last && u.Status.State != sdk.TaskStateWorking) {
							t.Errorf("%s: event %d of %d: %+v", reply.text, i, len(events), u.Status)
						}
					}
				}
			})
		}
		t.Run("no "+string(binding), func(t *testing.T) { // which is answered at once
			c := w.join(binding, url)
			task := w.send(c, saying("danger"))
			events := collect(t, c.SendStreamingMessage(t.Context(), in(saying("no"), "", task.ID)))
			if last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent); !ok || last.Status.State != sdk.TaskStateCompleted {
				t.Errorf("last: %+v", events[len(events)-1])
			}
		})
	}
}
