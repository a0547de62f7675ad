package cortex_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/transport"
)

// killedPattern is a turn in which several agents take part, and what it has to come to wherever the orchestrator is killed.
type killedPattern struct {
	cfg    cortex.Config
	begin  func(w *world)
	answer string
	tasks  int   // of all agents
	steps  int64 // at least
	notes  bool  // whether the store has notes, and what is done to them are steps
}

// TestKilledInPattern kills the orchestrator before and after each of its steps in such a turn, one step after the other, and starts another one.
func TestKilledInPattern(t *testing.T) {
	for name, test := range map[string]killedPattern{
		"bids": {
			cortex.Config{Decider: sold, Agents: with(agentcard.MarketBidding)},
			func(w *world) { w.market(map[string]bidder{"alpha": bids(0.2), "beta": bids(0.7), "gamma": bids(0.5)}) },
			"beta COMPLETED did a; ", 1, 20, false,
		},
		"swarm": {
			cortex.Config{Decider: swarming, Agents: with(agentcard.SwarmPeer), Policy: rulesOf(t, `rules: [{agents: ["*"], swarm: {}}]`)},
			func(w *world) {
				w.heed = func(id string, e *transport.Event) { // each has its own result in the first round, and all the same in the second
					text := "done"
					if !strings.Contains(transport.Text(e.Payload.(*a2a.Message).Parts), "round 2") {
						text += " by " + id
					}
					if err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), resultEvent("r-"+string(e.TaskID), id, e.TaskID, a2a.TaskStateCompleted, text)); err != nil {
						w.t.Error(err)
					}
				}
			},
			"alpha COMPLETED done; beta COMPLETED done; gamma COMPLETED done; \n\n(3 agents worked on this for 2 rounds, and 3 of them agree.)", 6, 40, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				survived := false
				synctest.Test(t, func(t *testing.T) { survived = test.killedAt(t, at) })
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
				if survived {
					if at < test.steps {
						t.Errorf("the turn had only %d steps: the fatal step is not everywhere", at)
					}
					return
				}
			}
		})
	}
}

func (p *killedPattern) killedAt(t *testing.T, at int64) (survived bool) {
	w := newWorld(t, p.cfg.Decider)
	w.stop()
	p.begin(w)
	if w.heed == nil {
		w.serveAgents()
	}
	died := make(chan struct{})
	dead := errors.New("killed")
	m := &mortal{dieAt: at, die: func() error {
		select {
		case <-died:
		default:
			close(died)
		}
		return dead
	}}
	cfg := p.cfg
	cfg.Transport, cfg.Store = w.bus, w.store
	cfg = mortalConfig(cfg, m)
	if p.notes {
		cfg.Store = mortalNotes{cfg.Store.(mortalStore)}
	}
	w.start(cfg)
	w.say("m1", "go")
	pass(time.Second)
	select {
	case <-died:
	default:
		survived = true
	}
	w.stop()
	w.start(p.cfg)
	pass(2 * time.Second)
	w.wantAnswer("m1", p.answer)
	w.wantAllTasks(p.tasks)
	if live, err := w.orch.Fold(theContext); err == nil && live != nil {
		w.wantFold()
	}
	if len(w.liveAnswers()) == 0 {
		t.Error("the answer was not shown")
	}
	return survived
}

// wantAllTasks checks how many different tasks the agents got.
func (w *world) wantAllTasks(want int) {
	w.t.Helper()
	ids := map[a2a.TaskID]bool{}
	for _, id := range agentIDs {
		for _, e := range w.tasksOf(id) {
			ids[e.TaskID] = true
		}
	}
	if len(ids) != want {
		w.t.Errorf("the agents got %d different tasks, want %d", len(ids), want)
	}
}
