package cortex_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// askingBack is a decider that asks alpha once, passes an agent's question on to the user, and gives the agent the reply.
var askingBack = simple(func(t *llm.Turn) *llm.Decision {
	switch {
	case len(t.Steps) > 0 && t.Steps[0].Tasks[0].State == a2a.TaskStateInputRequired:
		return &llm.Decision{Kind: llm.KindClarify, Say: t.Steps[0].Tasks[0].Result}
	case len(t.Steps) > 0:
		return respond(results(t))
	case len(t.Waiting) > 0:
		w := t.Waiting[0]
		return delegate(llm.Delegation{ID: string(w.ID), Agent: w.Agent, Skill: "skill", Task: t.User})
	}
	return delegate(toAlpha)
})

// killedScenario is a sequence of events for a task, between any of which the orchestrator may be killed.
type killedScenario struct {
	steps   []func(w *world)
	answers map[string]string
	tasks   map[string]int // different events of each agent
	entries int            // 0: any number
	atLeast int64          // minimum number of fatal steps
	stopped string         // the agent whose task was withdrawn
}

// pause lets time pass.
func pause(d time.Duration) func(w *world) { return func(*world) { pass(d) } }

// reports has an agent report on the first task that it got.
func reports(id, agent string, state a2a.TaskState, text string) func(w *world) {
	return func(w *world) {
		if tasks := w.tasksOf(agent); len(tasks) > 0 {
			w.publish(resultEvent(id, agent, tasks[0].TaskID, state, text))
		}
	}
}

func says(id, text string) func(w *world) { return func(w *world) { w.say(id, text) } }

var killedScenarios = map[string]killedScenario{
	"progress": {
		steps: []func(w *world){
			says("m1", "go"), pause(100 * time.Second), reports("p", "alpha", a2a.TaskStateWorking, ""),
			pause(290 * time.Second), reports("r", "alpha", a2a.TaskStateCompleted, "A"),
		},
		answers: map[string]string{"m1": "alpha COMPLETED A; "}, tasks: map[string]int{"alpha": 1}, entries: 3, atLeast: 20,
	},
	"another agent, and a late result": {
		steps: []func(w *world){
			says("m1", "go"), pause(5 * time.Minute), reports("late", "alpha", a2a.TaskStateCompleted, "late"),
			reports("r", "beta", a2a.TaskStateCompleted, "B"),
		},
		answers: map[string]string{"m1": "beta COMPLETED B; "}, tasks: map[string]int{"alpha": 1, "beta": 1}, entries: 3, atLeast: 25,
		stopped: "alpha",
	},
	"agent gone": {
		steps: []func(w *world){
			says("m1", "go"), func(w *world) { w.orch.AgentGone("alpha") }, pause(11 * time.Second),
			func(w *world) {
				if len(w.tasksOf("beta")) == 0 { // no event was published: the deadline decides
					pass(5 * time.Minute)
				}
			},
			reports("r", "beta", a2a.TaskStateCompleted, "B"),
		},
		answers: map[string]string{"m1": "beta COMPLETED B; "}, tasks: map[string]int{"alpha": 1, "beta": 1}, atLeast: 25, stopped: "alpha",
	},
	"told that it has gone": {
		steps: []func(w *world){
			says("m1", "go"), func(w *world) { w.publish(goneEvent("g", transport.Cortex, "alpha")) }, pause(time.Second),
			reports("r", "beta", a2a.TaskStateCompleted, "B"),
		},
		answers: map[string]string{"m1": "beta COMPLETED B; "}, tasks: map[string]int{"alpha": 1, "beta": 1}, entries: 4, atLeast: 25,
		stopped: "alpha",
	},
	"cancel": {
		steps:   []func(w *world){says("m1", "go"), func(w *world) { w.publish(cancelEvent("x", &transport.Cancel{Turn: turnOf("m1")})) }},
		answers: map[string]string{"m1": conversation.AnswerCanceled}, tasks: map[string]int{"alpha": 1}, entries: 2, atLeast: 15, stopped: "alpha",
	},
	"question of the second agent": {
		steps: []func(w *world){
			says("m1", "go"), pause(5 * time.Minute), reports("q", "beta", a2a.TaskStateInputRequired, "how many?"),
			pause(time.Hour), says("m2", "four"), reports("r", "beta", a2a.TaskStateCompleted, "B"),
		},
		answers: map[string]string{"m1": "how many?", "m2": "beta COMPLETED B; "},
		tasks:   map[string]int{"alpha": 1, "beta": 2}, entries: 5, atLeast: 40, stopped: "alpha",
	},
	"the third agent": {
		steps: []func(w *world){
			says("m1", "go"), pause(5 * time.Minute), pause(5 * time.Minute), reports("late", "beta", a2a.TaskStateFailed, "late"),
			reports("r", "gamma", a2a.TaskStateCompleted, "C"),
		},
		answers: map[string]string{"m1": "gamma COMPLETED C; "}, tasks: map[string]int{"alpha": 1, "beta": 1, "gamma": 1}, entries: 4,
		atLeast: 30, stopped: "beta",
	},
}

// TestTriedAgainKilledAtEveryStep kills the orchestrator before and after each of its steps while tasks are tried again, get
// more time, are canceled or ask back: each message has one answer, and each attempt was sent once.
func TestTriedAgainKilledAtEveryStep(t *testing.T) {
	for name, scenario := range killedScenarios {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				survived := false
				synctest.Test(t, func(t *testing.T) { survived = scenario.killedAt(t, at) })
				if survived {
					if at < scenario.atLeast {
						t.Errorf("there were only %d steps: the fatal step is not everywhere", at)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
			}
		})
	}
}

func (s killedScenario) killedAt(t *testing.T, at int64) (survived bool) {
	w := newWorld(t, askingBack)
	w.stop()
	bus := &withdrawing{Transport: w.bus}
	died, dead := make(chan struct{}), errors.New("killed")
	m := &mortal{dieAt: at, die: func() error {
		select {
		case <-died:
		default:
			close(died)
		}
		return dead
	}}
	cfg := cortex.Config{Transport: bus, Store: w.store, Decider: askingBack, Agents: func(string) []prompt.Agent { return offered("") }}
	if s.entries == 0 { // alpha is gone
		cfg.Agents = func(string) []prompt.Agent {
			if len(w.tasksOf("alpha")) > 0 {
				return offered("")[1:]
			}
			return offered("")
		}
	}
	w.start(mortalConfig(cfg, m))
	survived = true
	for _, step := range s.steps {
		step(w)
		select {
		case <-died:
			if survived {
				survived = false
				w.stop()
				w.start(cfg)
				pass(2 * time.Second)
			}
		default:
		}
	}
	for id, want := range s.answers {
		w.wantAnswer(id, want)
	}
	if n := len(entries(t, w.store)); s.entries > 0 && n != s.entries {
		t.Errorf("%d entries, want %d", n, s.entries)
	}
	for _, id := range agentIDs {
		ids := map[string]bool{}
		for _, e := range w.tasksOf(id) {
			ids[e.ID] = true
		}
		if len(ids) != s.tasks[id] {
			t.Errorf("%s got %d different tasks, want %d", id, len(ids), s.tasks[id])
		}
	}
	if s.stopped != "" {
		want := s.stopped + " " + w.tasksOf(s.stopped)[0].ID
		if !slices.Contains(bus.list(), want) {
			t.Errorf("taken back: %q, want %q", bus.list(), want)
		}
	}
	if live, err := w.orch.Fold(theContext); err == nil && live != nil {
		w.wantFold()
	}
	return survived
}
