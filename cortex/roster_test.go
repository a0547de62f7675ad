package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// cast is a variable list of agents.
type cast struct {
	now atomic.Pointer[[]prompt.Agent]
}

func (c *cast) are(agents ...prompt.Agent) { c.now.Store(&agents) }

func (c *cast) agents(string) []prompt.Agent { return slices.Clone(*c.now.Load()) }

func actor(id, does string) prompt.Agent {
	return prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Description: does, Version: "1"}}
}

func actors(n int) []prompt.Agent {
	var list []prompt.Agent
	for i := range n {
		list = append(list, actor(fmt.Sprintf("agent-%03d", i), "one of many"))
	}
	return list
}

// newCast makes a world with the agents of the returned cast.
func newCast(t *testing.T, d llm.Decider, agents ...prompt.Agent) (*world, *cast) {
	w := newWorld(t, d)
	w.stop()
	c := &cast{}
	c.are(agents...)
	w.start(cortex.Config{Decider: d, Agents: c.agents})
	return w, c
}

// told returns what a decider sees of the agents: the list, then the changes in the order of the prompt.
func told(t *llm.Turn) string {
	var b strings.Builder
	if t.Listed == nil {
		return "those there"
	}
	for _, a := range t.Listed {
		fmt.Fprintf(&b, "%s ", a.ID)
	}
	update := func(where string, u *prompt.Update) {
		for _, a := range u.Joined {
			fmt.Fprintf(&b, "%s+%s ", where, a.ID)
		}
		for _, id := range u.Left {
			fmt.Fprintf(&b, "%s-%s ", where, id)
		}
	}
	turn := func(user string, u *prompt.Update, steps []prompt.Step) {
		update(user, u)
		for i := range steps {
			update(fmt.Sprintf("%s/%d", user, i+1), &steps[i].Update)
		}
	}
	for _, h := range t.History {
		turn(h.User, &h.Update, h.Steps)
	}
	turn(t.User, &t.Update, t.Steps)
	return strings.TrimSpace(b.String())
}

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	var got []string
	for _, t := range w.decisions() {
		got = append(got, told(t))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("told of the agents (-want +got):\n%s", diff)
	}
}

// rosters returns how many entries of the log have a Roster.
func (w *world) rosters() (n int) {
	w.t.Helper()
	for _, e := range entries(w.t, w.store) {
		if e.Roster != nil {
			n++
		}
	}
	return n
}

// answering delegates to alpha when the user says "work", and answers everything else.
var answering = simple(func(t *llm.Turn) *llm.Decision {
	if strings.HasPrefix(t.User, "work") && len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
	}
	return respond("heard " + t.User)
})

// play runs a conversation in which agents come, change and leave, and returns the prompts. With restart, another process handles each event.
func play(t *testing.T, restart, changes bool) (prompts []*prompt.Prompt, w *world) {
	alpha, beta := actor("alpha", "works"), actor("beta", "helps")
	w, c := newCast(t, answering, alpha, beta)
	next := func() {
		if restart {
			w.stop()
			w.start(cortex.Config{Decider: answering, Agents: c.agents})
		}
	}
	enter := func(agents ...prompt.Agent) {
		if changes {
			c.are(agents...)
		}
		next()
	}
	w.say("m1", "hello")
	next()
	w.say("m2", "work")
	enter(alpha, beta, actor("gamma", "new here"))
	w.finish("alpha", w.onlyTask("alpha"), "done")
	next()
	w.say("m3", "and now")
	enter(alpha, actor("beta", "helps more"), actor("gamma", "new here"))
	w.say("m4", "again")
	enter(alpha, actor("gamma", "new here"))
	w.say("m5", "and again")
	next()
	w.say("m6", "thanks")

	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range w.decisions() {
		p, err := templates.Render(&turn.Input)
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, p)
	}
	return prompts, w
}

// TestPromptsGrowAtTheirEnd checks that neither an agent that joins, changes or leaves nor a restart changes the beginning of the
// conversation's earlier prompts, which provider caches rely on.
func TestPromptsGrowAtTheirEnd(t *testing.T) {
	for _, changes := range []bool{false, true} {
		t.Run(fmt.Sprintf("agents change %v", changes), func(t *testing.T) {
			var runs [3][]*prompt.Prompt
			for i := range runs {
				synctest.Test(t, func(t *testing.T) {
					var w *world
					runs[i], w = play(t, i == 2, changes)
					want := 1
					if changes {
						want = 4
						w.wantTold("alpha beta", "alpha beta", "alpha beta work/1+gamma", "alpha beta work/1+gamma",
							"alpha beta work/1+gamma again+beta", "alpha beta work/1+gamma again+beta and again-beta",
							"alpha beta work/1+gamma again+beta and again-beta")
					}
					if got := w.rosters(); got != want {
						t.Errorf("%d entries with a roster, want %d: the list, and each change once", got, want)
					}
					w.wantFold()
				})
			}
			if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
				t.Errorf("prompts of the same conversation (-first +second):\n%s", diff)
			}
			if diff := cmp.Diff(runs[0], runs[2]); diff != "" {
				t.Errorf("prompts of one process (-), of one for each event (+):\n%s", diff)
			}
			for i, p := range runs[0][1:] {
				before := runs[0][i]
				if p.System != before.System {
					t.Errorf("decision %d has other instructions than the one before", i+2)
				}
				// The last message ends with what is valid for one call only.
				n := len(before.Messages) - 1
				if len(p.Messages) <= n || !sameMessages(p.Messages[:n], before.Messages[:n]) ||
					p.Messages[n].Text == "" || !strings.HasPrefix(before.Messages[n].Text, p.Messages[n].Text) {
					t.Errorf("decision %d: the messages of the one before are not its first (-want +got):\n%s", i+2, cmp.Diff(before.Messages, p.Messages))
				}
			}
			if changes && !strings.Contains(runs[0][2].Messages[len(runs[0][2].Messages)-1].Text, "new here") {
				t.Error("the prompt does not tell of gamma")
			}
		})
	}
}

// TestOpenTurnsAreToldOnTheirOwn has an agent join while two turns are open. The prompt of one does not have the changes in the other's.
func TestOpenTurnsAreToldOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alpha, beta := actor("alpha", "works"), actor("beta", "helps")
		w, c := newCast(t, answering, alpha)
		w.say("m1", "work 1")
		c.are(alpha, beta)
		w.say("m2", "work 2")
		tasks := w.tasksOf("alpha")
		w.finish("alpha", tasks[0].TaskID, "one") // the prompt of m1 has no m2
		w.say("m3", "x")
		c.are(alpha)
		w.finish("alpha", tasks[1].TaskID, "two")
		w.say("m4", "y")
		w.wantTold("alpha", "alpha work 2+beta", "alpha work 1/1+beta",
			"alpha work 1/1+beta", // m2 is open
			"alpha work 1/1+beta work 2+beta work 2/1-beta",
			"alpha work 1/1+beta work 2+beta work 2/1-beta")
		w.wantFold()
	})
}

// TestWhatCountsAsAChange checks that only changes of what prompts show count.
func TestWhatCountsAsAChange(t *testing.T) {
	base := func() prompt.Agent {
		return prompt.Agent{ID: "alpha", Seen: true, Card: &a2a.AgentCard{
			Name: "alpha", Description: strings.Repeat("x", 600), Version: "1",
			Skills: []a2a.AgentSkill{{ID: "s", Name: "S", Description: "d", Tags: []string{"t"}, Examples: []string{"e"}}},
		}}
	}
	for name, test := range map[string]struct {
		change func(a *prompt.Agent)
		want   bool
	}{
		"nothing":              {func(*prompt.Agent) {}, false},
		"version":              {func(a *prompt.Agent) { a.Card.Version = "2" }, false},
		"icon":                 {func(a *prompt.Agent) { a.Card.IconURL = "https://example.com/i" }, false},
		"modes of a skill":     {func(a *prompt.Agent) { a.Card.Skills[0].InputModes = []string{"text/plain"} }, false},
		"what is cut off":      {func(a *prompt.Agent) { a.Card.Description += "y" }, false},
		"what is not visible":  {func(a *prompt.Agent) { a.Card.Name = "al\u200bpha" }, false},
		"seen":                 {func(a *prompt.Agent) { a.Seen = false }, true},
		"name":                 {func(a *prompt.Agent) { a.Card.Name = "Alpha" }, true},
		"description":          {func(a *prompt.Agent) { a.Card.Description = "y" }, true},
		"another skill":        {func(a *prompt.Agent) { a.Card.Skills = append(a.Card.Skills, a2a.AgentSkill{ID: "t"}) }, true},
		"id of a skill":        {func(a *prompt.Agent) { a.Card.Skills[0].ID = "u" }, true},
		"name of a skill":      {func(a *prompt.Agent) { a.Card.Skills[0].Name = "U" }, true},
		"description of skill": {func(a *prompt.Agent) { a.Card.Skills[0].Description = "u" }, true},
		"tag":                  {func(a *prompt.Agent) { a.Card.Skills[0].Tags[0] = "u" }, true},
		"input of a skill": {func(a *prompt.Agent) {
			a.Card = agentcard.Attach(a.Card, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"s": {InputSchema: []byte(`{"type":"object"}`)}}})
		}, true},
		"output of a skill": {func(a *prompt.Agent) {
			a.Card = agentcard.Attach(a.Card, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"s": {OutputSchema: []byte(`{"type":"object"}`)}}})
		}, false},
		"example": {func(a *prompt.Agent) { a.Card.Skills[0].Examples[0] = "u" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newCast(t, answering, base())
				w.say("m1", "a")
				other := base()
				test.change(&other)
				c.are(other)
				w.say("m2", "b")
				want := []string{"alpha", "alpha"}
				if test.want {
					want[1] = "alpha b+alpha"
				}
				w.wantTold(want...)
			})
		})
	}
}

func TestRosterIsBounded(t *testing.T) {
	t.Run("many agents", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := newCast(t, answering, actors(2)...)
			w.say("m1", "a")
			c.are(actors(65)...)
			w.say("m2", "b")
			if n := w.rosters(); n != 1 {
				t.Errorf("%d entries with a roster, want none of the decision that saw 65 agents", n)
			}
			c.are(actors(3)...)
			w.say("m3", "c")
			c.are(actors(65)...)
			w.say("m4", "d") // shows no change, since the list is a new one
			w.wantTold("agent-000 agent-001", "those there", "agent-000 agent-001 c+agent-002", "those there")
			w.wantFold()
		})
	})
	t.Run("long cards", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			long := actors(60)
			for i := range long {
				long[i].Card.Description = strings.Repeat("d", 500)
				for range 20 {
					long[i].Card.Skills = append(long[i].Card.Skills, a2a.AgentSkill{ID: "s", Description: strings.Repeat("s", 150)})
				}
			}
			w, _ := newCast(t, answering, long...)
			w.say("m1", "a")
			w.wantTold("those there")
		})
	})
	t.Run("many changes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := newCast(t, answering, actors(40)...)
			w.say("m1", "a")
			c.are(actors(60)...) // 20
			w.say("m2", "b")
			c.are(actors(20)...) // and 40
			w.say("m3", "c")
			if left := w.decisions()[2].Update.Left; len(left) != 40 || !slices.IsSorted(left) {
				t.Errorf("told that %d left, %v; want 40 in order", len(left), left)
			}
			c.are(actors(26)...) // and 6
			w.say("m4", "d")
			last := w.decisions()[3]
			if got := told(last); len(last.Listed) != 26 || strings.Contains(got, "+") {
				t.Errorf("told %q, want the list of 26 and no change", got)
			}
			c.are(actors(25)...)
			w.say("m5", "e")
			if got := told(w.decisions()[4]); !strings.HasSuffix(got, "agent-025 e-agent-025") {
				t.Errorf("told %q, want the list with one change", got)
			}
			w.wantFold()
			conv := w.load()
			if err := storage.PutSnapshot(t.Context(), w.store.(storage.Snapshots), conv); err != nil {
				t.Fatal(err)
			}
			if got, want := w.load().Weight(), conv.Weight(); got != want || want < 25*512 {
				t.Errorf("weight %d from a snapshot, %d from the log; want the agents in both", got, want)
			}
		})
	})
	t.Run("nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, c := newCast(t, answering)
			w.say("m1", "a")
			w.stop()
			w.start(cortex.Config{Decider: answering, Agents: c.agents})
			c.are(actors(1)...)
			w.say("m2", "b")
			w.wantTold("", "b+agent-000")
			if in := w.decisions()[0]; in.Listed == nil {
				t.Error("nobody is listed as nil")
			}
			w.wantFold()
		})
	})
}

// TestFailedDecisionIsToldNothing checks that changes seen only by a failed decision are shown again.
func TestFailedDecisionIsToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCast(t, decideFunc(func(_ context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			if strings.HasPrefix(turn.User, "fail") {
				return nil, errors.New("no")
			}
			return respond("ok"), nil
		}), actors(1)...)
		w.say("m1", "fail 1")
		w.say("m2", "a")
		c.are(actors(2)...)
		w.say("m3", "fail 2")
		w.say("m4", "b")
		w.say("m5", "c")
		w.wantTold("agent-000", "agent-000", "agent-000 fail 2+agent-001", "agent-000 b+agent-001", "agent-000 b+agent-001")
		if n := w.rosters(); n != 2 {
			t.Errorf("%d entries with a roster, want 2", n)
		}
		w.wantFold()
	})
}

// TestAgentThatAsksIsListed checks that an agent that may not be given work in one turn does not count as gone.
func TestAgentThatAsksIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alpha, beta := actor("alpha", "works"), actor("beta", "helps")
		w, _ := newCast(t, answering, alpha, beta)
		w.say("m1", "a")
		e := userEvent("m2", "b")
		e.From = "alpha"
		w.publish(e)
		w.say("m3", "c")
		w.wantTold("alpha beta", "alpha beta", "alpha beta")
		if got := w.decisions()[1].Agents; len(got) != 1 || got[0].ID != "beta" {
			t.Errorf("alpha's turn may give work to %v, want only beta", got)
		}
	})
}

// TestListBeginsAnew checks that the list is renewed when the beginning of the prompt changes anyhow.
func TestListBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newCast(t, answering, actors(1)...)
		w.say("m0", "a")
		c.are(actors(2)...)
		for i := range 70 {
			w.say(fmt.Sprint("n", i), fmt.Sprint("x", i))
		}
		last := ""
		for _, turn := range w.decisions() {
			got, want := told(turn), "agent-000 x0+agent-001"
			switch {
			case turn.User == "a":
				want = "agent-000"
			case turn.Omitted > 0:
				want = "agent-000 agent-001"
			}
			if got != want {
				t.Errorf("with %d turns omitted, told %q, want %q", turn.Omitted, got, want)
			}
			last = got
		}
		if last != "agent-000 agent-001" || w.rosters() != 3 {
			t.Errorf("told %q in the end, %d entries with a roster, want the whole list and 3", last, w.rosters())
		}
		w.wantFold()
	})
}

// TestPreviewListsWhatWouldBeSent checks that a preview is the prompt of the next message: with the frozen list, and
// with the changes since then.
func TestPreviewListsWhatWouldBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		d := simple(func(t *llm.Turn) *llm.Decision {
			sent = append(sent, told(t))
			return respond("fine")
		})
		w, c := newCast(t, d, actor("a", "one"), actor("b", "two"))
		w.say("m1", "first")
		pass(0)
		now := []prompt.Agent{actor("b", "two"), actor("c", "three")}
		c.are(now...)
		conv, err := storage.Load(t.Context(), w.store, "", theContext)
		if err != nil {
			t.Fatal(err)
		}
		in, _ := catalog.Preview(conv, "second", now, nil, t0)
		previewed := told(&llm.Turn{Input: *in})
		w.say("m2", "second")
		pass(0)
		if want := "a b second+c second-a"; previewed != want || sent[1] != want {
			t.Errorf("previewed %q and sent %q, want %q", previewed, sent[1], want)
		}
	})
}

// preview returns what a prompt would show of the conversation, without agents.
func preview(c *conversation.Conversation, text string) *prompt.Input {
	in, _ := catalog.Preview(c, text, nil, nil, t0)
	return in
}

func sameMessages(a, b []prompt.Message) bool {
	return slices.EqualFunc(a, b, func(x, y prompt.Message) bool {
		return x.Role == y.Role && x.Text == y.Text && slices.Equal(x.Files, y.Files)
	})
}
