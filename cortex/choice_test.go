package cortex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// talk is a conversation of 30 turns, of which every third changes the subject and every fifth gives work.
var talk = simple(func(t *llm.Turn) *llm.Decision {
	if _, id, ok := strings.Cut(t.User, "let "); ok && len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: id, Task: t.User})
	}
	return respond("heard " + t.User)
})

// speak plays talk and returns the prompts that a model would get. With restart, another process handles each event.
func speak(t *testing.T, restart bool) (prompts []*prompt.Prompt, n *town) {
	n = newTown(t, talk, crowd(1000)...)
	for i := range 30 {
		text := fmt.Sprintf("I need someone who %s %s", jobs[i%len(jobs)], things[i/3%len(things)])
		if i%5 == 4 {
			text = "now let " + things[i%len(things)] + "-" + jobs[i%7]
		}
		pass(time.Second) // so that what was learned takes effect
		n.say(fmt.Sprint("m", i), text)
		if restart {
			n.restart(talk)
		}
		for _, task := range n.load().Running() {
			n.finish(task.Agent, task.ID, "done by "+task.Agent)
		}
		if restart {
			n.restart(talk)
		}
	}
	return rendered(t, n.decisions()), n
}

func rendered(t testing.TB, turns []*llm.Turn) (prompts []*prompt.Prompt) {
	t.Helper()
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range turns {
		p, err := templates.Render(&turn.Input)
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, p)
	}
	return prompts
}

// agentText returns the size of what depends on the agents in a prompt: the instructions with the list, and the changes.
func agentText(p *prompt.Prompt) int {
	n := len(p.System)
	for _, m := range p.Messages {
		rest := m.Text
		for {
			_, block, ok := strings.Cut(rest, "<cortex:agents-update>")
			if !ok {
				break
			}
			block, rest, _ = strings.Cut(block, "</cortex:agents-update>")
			n += len(block)
		}
	}
	return n
}

// most bounds what a prompt says about agents, however many there are; the results of searches come on top.
const most = 24_000 - 5<<10

// TestPromptStaysSmallAndStable checks, over a long conversation with many subjects, that the prompt is bounded, that each begins like the
// one before unless the list began anew, and that a restart changes nothing.
func TestPromptStaysSmallAndStable(t *testing.T) {
	var runs [2][]*prompt.Prompt
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			var n *town
			runs[i], n = speak(t, i == 1)
			anew := map[int]bool{}
			decided := 0
			for _, e := range entries(t, n.store) {
				if e.Decision == nil {
					continue
				}
				anew[decided] = e.Roster != nil && e.Roster.All
				decided++
				if e.Failure != "" || len(e.Shortlist) == 0 {
					t.Errorf("entry %d: failure %q, shortlist of %d", e.Seq, e.Failure, len(e.Shortlist))
				}
			}
			if decided != len(runs[i]) || decided != 36 {
				t.Fatalf("%d decisions are logged and %d prompts seen, want 36", decided, len(runs[i]))
			}
			lists, largest := 0, 0
			for j, p := range runs[i] {
				largest = max(largest, agentText(p))
				if anew[j] {
					lists++
					continue
				}
				before := runs[i][j-1]
				last := len(before.Messages) - 1
				if p.System != before.System || len(p.Messages) <= last || !sameMessages(p.Messages[:last], before.Messages[:last]) ||
					!strings.HasPrefix(before.Messages[last].Text, p.Messages[last].Text) {
					t.Errorf("decision %d does not begin as the one before", j+1)
				}
			}
			if largest > most {
				t.Errorf("%d bytes of a prompt are about agents, want at most %d", largest, most)
			}
			if lists < 2 || lists > 15 {
				t.Errorf("the list began %d times in 36 decisions", lists)
			}
			t.Logf("the list began %d times, at most %d bytes are about agents", lists, largest)
			if i == 0 {
				n.wantFold()
			}
			conv := n.load()
			if err := storage.PutSnapshot(t.Context(), n.store.(storage.Snapshots), conv); err != nil {
				t.Fatal(err)
			}
			if told := n.load().ListedSize; told != conv.ListedSize || told == 0 {
				t.Errorf("%d bytes were told by a snapshot, %d by the log", told, conv.ListedSize)
			}
			in, _ := catalog.Preview(conv, "who sells wine?", *n.cast.now.Load(), n.index, t0)
			snap, _ := catalog.Preview(n.load(), "who sells wine?", *n.cast.now.Load(), n.index, t0)
			if diff := cmp.Diff(in, snap); diff != "" {
				t.Errorf("preview from the log (-), from a snapshot (+):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
		t.Errorf("prompts of one process (-), of one for each event (+):\n%s", diff)
	}
}

// TestHostileCardsDoNotFillThePrompt checks the bound with cards made to exceed it.
func TestHostileCardsDoNotFillThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := crowd(60)
		for i := range agents {
			c := agents[i].Card
			agents[i].ID = fmt.Sprintf("%03d%s", i, strings.Repeat(`"`, 240))
			c.Description = strings.Repeat(`"wine\" `, 2000)
			for j := range 30 {
				id := fmt.Sprint("wine", j, strings.Repeat(`"`, 200))
				c.Skills = append(c.Skills, a2a.AgentSkill{ID: id, Description: strings.Repeat(`wine \"`, 300)})
			}
		}
		text := "wine"
		for i := range 15 {
			text += " " + agents[i].ID
		}
		n := newTown(t, greet, agents...)
		n.stop()
		n.start(cortex.Config{Decider: greet, Agents: n.cast.agents, Router: n.index, Shortlist: 1000})
		n.say("m1", text)
		n.say("m2", strings.ReplaceAll(text, "00", "01"))
		n.say("m3", "wine")
		if got, want := len(n.lastEntry().Shortlist), len(n.last().Agents); got == 0 || got > want {
			t.Errorf("%d candidates are logged, %d are shown", got, want)
		}
		for i, p := range rendered(t, n.decisions()) {
			if got := agentText(p); got > most {
				t.Errorf("decision %d: %d bytes are about agents, want at most %d", i+1, got, most)
			}
		}
	})
}

// TestBackAndForth checks that a conversation keeps a choice, and its cached beginning, when the number of agents varies
// around the maximum that can all be shown; and that it lists all again when they are few.
func TestBackAndForth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := crowd(60)
		n := newTown(t, greet, all[:40]...)
		type seen struct {
			Choice, Anew bool
			Shown        int // 0: any number
		}
		var got []seen
		for i, there := range []int{40, 41, 38, 60, 21, 41, 20, 21, 38, 41} {
			n.are(all[:there]...)
			n.say(fmt.Sprint("m", i), "who repairs bicycles?")
			e, turn := n.lastEntry(), n.last()
			s := seen{turn.Choice, e.Roster != nil && e.Roster.All, 0}
			if len(turn.Agents) == there {
				s.Shown = there
			}
			if turn.Choice != (e.Shortlist != nil) || turn.Choice != (turn.Search != nil) {
				t.Errorf("%d agents: a choice: %t, shortlist %v", there, turn.Choice, e.Shortlist)
			}
			got = append(got, s)
		}
		want := []seen{
			{false, true, 40},
			{true, true, 0},
			{true, false, 0},
			{true, false, 0},
			{true, false, 0},
			{true, false, 0},
			{false, true, 20},
			{false, false, 21},
			{false, false, 38},
			{true, true, 0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		n.wantFold()
	})
}

// TestChoiceChanges checks that a prompt mentions shown agents that have left or have another card, but neither those that
// are just no longer among the best nor those that were never shown.
func TestChoiceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := crowd(1000)
		n := newTown(t, greet, all...)
		n.say("m1", "who repairs bicycles?")
		shown := ids(n.last().Listed)
		n.say("m2", "who insures or photographs whales?")
		u := n.last().Update
		known := func(id string) bool { return slices.Contains(shown, id) }
		if len(u.Left) > 0 || !slices.Contains(ids(u.Joined), "whales-insures") || slices.ContainsFunc(ids(u.Joined), known) {
			t.Errorf("told of a new subject: %v joined, %v left", ids(u.Joined), u.Left)
		}
		if got := n.last().Agents; !slices.Contains(ids(got), "bicycles-repairs") || !slices.Contains(ids(got), "whales-insures") {
			t.Errorf("the agents that can be given work are %v", ids(got))
		}
		shown = ids(n.last().Agents)
		n.say("m3", "who insures or photographs whales?")
		if u := n.last().Update; len(u.Joined)+len(u.Left) > 0 || n.lastEntry().Roster != nil {
			t.Errorf("told twice: %v", u)
		}
		shown = slices.DeleteFunc(shown, func(id string) bool { return id == "whales-insures" })
		edited, gone, unseen := shown[0], shown[1], shown[2]
		now := slices.Clone(all)
		for i := range now {
			switch now[i].ID {
			case edited, "wine-counts":
				now[i] = actor(now[i].ID, "Does nothing any more")
			case unseen:
				now[i].Seen = false
			}
		}
		now = slices.DeleteFunc(now, func(a prompt.Agent) bool { return a.ID == gone || a.ID == "wine-sells" })
		if slices.Contains(shown, "wine-sells") || slices.Contains(shown, "wine-counts") {
			t.Fatalf("the test does not fit what was shown: %v", shown)
		}
		n.are(now...)
		n.say("m4", "who insures or photographs whales?")
		u = n.last().Update
		joined := ids(u.Joined)
		if !slices.Contains(joined, edited) || !slices.Contains(joined, unseen) || slices.Contains(joined, "wine-counts") ||
			!slices.Equal(u.Left, []string{gone}) {
			t.Errorf("told that %v joined and %v left, want %s, %s and %s", joined, u.Left, edited, unseen, gone)
		}
		n.wantFold()
	})
}

// TestChoiceKeepsToThePolicy checks that a choice never includes denied agents, and that an agent at its in-flight limit is mentioned as
// unavailable if it would have been chosen, and not as one that has left.
func TestChoiceKeepsToThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := policy.Parse("policy.yaml", []byte("rules:\n- {agents: [wine-*], allow: false}\n- {agents: [bicycles-repairs, olives-exports], at_once: 1}\n"))
		if err != nil {
			t.Fatal(err)
		}
		n := newTown(t, talk, crowd(1000)...)
		n.stop()
		n.start(cortex.Config{Decider: talk, Agents: n.cast.agents, Router: n.index, Policy: func() *policy.Policy { return rules }})
		n.say("m1", "who sells wine? wine-sells, bicycles-repairs")
		got := n.last()
		denied := func(id string) bool { return strings.HasPrefix(id, "wine-") }
		if _, ok := got.Lookup("wine-sells"); ok || slices.ContainsFunc(ids(got.Listed), denied) || slices.ContainsFunc(ids(got.Agents), denied) ||
			slices.ContainsFunc(got.Search("wine-sells sells wine"), func(f llm.Found) bool { return denied(f.ID) }) {
			t.Error("an agent that is denied can be seen")
		}
		n.say("m2", "let bicycles-repairs")
		n.say("m3", "who repairs bicycles?")
		got = n.last()
		_, ok := got.Lookup("bicycles-repairs")
		if len(got.Unavailable) != 1 || got.Unavailable[0].ID != "bicycles-repairs" || ok || slices.Contains(ids(got.Agents), "bicycles-repairs") {
			t.Errorf("unavailable are %v, and it can be looked up: %t", got.Unavailable, ok)
		}
		elsewhere := userEvent("x1", "let olives-exports")
		elsewhere.ContextID, elsewhere.Payload.(*a2a.Message).ContextID = "another", "another"
		n.publish(elsewhere)
		n.say("m4", "who exports olives?")
		if got = n.last(); len(got.Update.Left) > 0 || len(got.Unavailable) != 2 || got.Unavailable[1].ID != "olives-exports" {
			t.Errorf("%v left, and unavailable are %v; want the one that was shown, and the one that fits", got.Update.Left, got.Unavailable)
		}
		n.wantFold()
	})
}

// TestListOfAllBecomesAChoice continues the log of a build that could not choose: it listed all of 64 agents, and
// cards had no digests.
func TestListOfAllBecomesAChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTown(t, greet, crowd(64)...)
		n.stop()
		n.start(cortex.Config{Decider: greet, Agents: n.cast.agents})
		n.say("m1", "hello")
		if got := n.last(); len(got.Listed) != 64 || got.Choice || got.Lookup != nil {
			t.Errorf("without a router %d agents are listed, a choice: %t", len(got.Listed), got.Choice)
		}
		n.restart(greet)
		n.say("m2", "who repairs bicycles?")
		if got := n.last(); !got.Choice || len(got.Listed) > 25 || len(got.Update.Left) > 0 {
			t.Errorf("with a router %d agents are listed, %v left, a choice: %t", len(got.Listed), got.Update.Left, got.Choice)
		}
		n.stop()
		n.start(cortex.Config{Decider: greet, Agents: n.cast.agents})
		n.say("m3", "hello")
		if got := n.last(); len(got.Listed) != 64 || got.Choice {
			t.Errorf("again without a router %d agents are listed, a choice: %t", len(got.Listed), got.Choice)
		}
		n.wantFold()
	})
}

// TestPreviewOfAChoice checks that a preview is the prompt that would be sent.
func TestPreviewOfAChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTown(t, greet, crowd(1000)...)
		n.say("m1", "who repairs bicycles?")
		in, list := catalog.Preview(n.load(), "who sells wine?", *n.cast.now.Load(), n.index, t0)
		n.say("m2", "who sells wine?")
		sent := n.last().Input
		sent.Now = t0
		if diff := cmp.Diff(&sent, in); diff != "" {
			t.Errorf("previewed (-sent +previewed):\n%s", diff)
		}
		if diff := cmp.Diff(n.lastEntry().Shortlist, list); diff != "" {
			t.Errorf("shortlist (-logged +previewed):\n%s", diff)
		}
	})
}
