package a2a_test

import (
	"encoding/json"
	"fmt"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
)

// TestReads checks how often the log is read for a message, and that the task that a client gets is the one that it gets when it asks for it again, whether
// the log was read or not.
func TestReads(t *testing.T) {
	for i, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			w := newWorld(t, false)
			store := &counted{Store: w.store}
			url := w.serve(w.doorWith(func(cfg *a2a.Config) { cfg.Store = store }), nil)
			c := w.join(binding, url)
			read := func(what string, want int64) {
				t.Helper()
				if got := store.loads.Swap(0); got != want {
					t.Errorf("%s: the log was read %d times, want %d", what, got, want)
				}
			}
			at := ""
			for n, test := range []struct {
				text  string
				reads int64
				state sdk.TaskState
			}{
				{"hello", 0, sdk.TaskStateCompleted},
				{"hello again", 1, sdk.TaskStateCompleted}, // in the same context, where it may be one that is sent again
				{"file", 1, sdk.TaskStateCompleted},
				{"fail", 2, sdk.TaskStateFailed},
				{"danger", 2, sdk.TaskStateInputRequired},
			} {
				r := in(said(test.text), at, "")
				r.Message.ID = fmt.Sprint(i, n)
				got := w.send(c, r)
				read(test.text, test.reads)
				if got.Status.State != test.state {
					t.Errorf("%s: it is %s, want %s", test.text, got.Status.State, test.state)
				}
				if diff := cmp.Diff(asJSON(t, w.get(c, got.ID)), asJSON(t, got)); diff != "" {
					t.Errorf("%s: (-asked for again +answered):\n%s", test.text, diff)
				}
				at = got.ContextID
				store.loads.Store(0)
			}
			// An agent's own outputs are in the log alone.
			agent := w.join(binding, url+"/agents/worker")
			got := w.send(agent, said("file"))
			read("of an agent", 1)
			if diff := cmp.Diff(asJSON(t, w.get(agent, got.ID)), asJSON(t, got)); diff != "" {
				t.Errorf("of an agent (-asked for again +answered):\n%s", diff)
			}
			store.loads.Store(0)
			var last *sdk.TaskStatusUpdateEvent
			for e, err := range c.SendStreamingMessage(t.Context(), said("streamed")) {
				must(t, err)
				if u, ok := e.(*sdk.TaskStatusUpdateEvent); ok {
					last = u
				}
			}
			read("a stream", 0)
			if diff := cmp.Diff(asJSON(t, w.get(c, last.TaskID).Status), asJSON(t, last.Status)); diff != "" || last.Status.State != sdk.TaskStateCompleted {
				t.Errorf("the last status of a stream (-asked for again +told):\n%s", diff)
			}
		})
	}
}

// asJSON returns v as JSON has it.
func asJSON(t *testing.T, v any) (out any) {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	must(t, json.Unmarshal(b, &out))
	return out
}
