package client_test

import (
	"fmt"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEarlyProgressOfOthers checks that an agent whose progress arrives before its task is shown, whatever others say of tasks of other turns.
func TestEarlyProgressOfOthers(t *testing.T) {
	flood := func(s *clienttest.Script, e *transport.Event, agents, each int) {
		for i := range each {
			for a := range agents {
				s.Progress(e, a2a.TaskID(fmt.Sprintf("x%d", i)), fmt.Sprintf("loud%d", a), "noise")
			}
		}
	}
	early := func(s *clienttest.Script, e *transport.Event) { s.Progress(e, "t1", "clock", "looking") }
	for name, play := range map[string]func(*clienttest.Script, *transport.Event){
		"one agent before":             func(s *clienttest.Script, e *transport.Event) { flood(s, e, 1, 40); early(s, e) },
		"one agent after":              func(s *clienttest.Script, e *transport.Event) { early(s, e); flood(s, e, 1, 40) },
		"many agents before and after": func(s *clienttest.Script, e *transport.Event) { flood(s, e, 8, 20); early(s, e); flood(s, e, 8, 20) },
		"its own of other turns": func(s *clienttest.Script, e *transport.Event) {
			for i := range 40 {
				s.Progress(e, a2a.TaskID(fmt.Sprintf("x%d", i)), "clock", "another turn's")
			}
			early(s, e)
		},
		"tasks of another turn": func(s *clienttest.Script, e *transport.Event) {
			other := *e
			other.ID = "other"
			early(s, e)
			for i := range 40 {
				id := a2a.TaskID(fmt.Sprintf("x%d", i))
				s.Progress(e, id, "clock", "another turn's")
				s.Task(&other, id, "clock", "another turn's")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
				play(s, e)
				s.Task(e, "t1", "clock", "time?")
				s.Answer(e, "done")
			})
			got, err := turn(t.Context(), c, "ctx", "hi")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"task t1 for clock", "progress t1 looking", "answer done"}, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
