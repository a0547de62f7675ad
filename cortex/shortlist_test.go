package cortex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

var (
	things = []string{
		"wine", "bicycles", "taxes", "roses", "chess", "trains", "cheese", "guitars", "whales", "volcanoes", "passports", "carpets", "mushrooms",
		"satellites", "poetry", "shoes", "bridges", "horses", "coffee", "clocks", "castles", "bees", "rivers", "candles", "maps", "knives", "opera",
		"glaciers", "pottery", "kites", "lighthouses", "olives", "pianos", "rockets", "saddles", "tulips", "umbrellas", "violins", "windmills", "yachts",
	}
	jobs = []string{
		"repairs", "sells", "insures", "photographs", "teaches", "transports", "catalogues", "paints", "measures", "rents", "cleans", "counts", "dates",
		"designs", "donates", "exports", "films", "grows", "heats", "inspects", "judges", "lends", "names", "orders", "prices",
	}
)

// candidates returns n agents that each do one job with one thing, sorted by id: "bees-repairs" and others.
func crowd(n int) []prompt.Agent {
	var all []prompt.Agent
	for i := range n {
		thing, job := things[i%len(things)], jobs[i/len(things)%len(jobs)]
		a := actor(fmt.Sprint(thing, "-", job), fmt.Sprintf("An agent that %s %s for people and companies.", job, thing))
		if round := i / (len(things) * len(jobs)); round > 0 {
			a.ID += fmt.Sprint("-", round)
		}
		a.Card.Skills = []a2a.AgentSkill{{
			ID: job, Name: job + " " + thing, Description: fmt.Sprintf("Whatever it takes: the agent %s %s.", job, thing),
			Examples: []string{fmt.Sprintf("I need someone who %s %s", job, thing), fmt.Sprintf("who %s my %s?", job, thing)},
		}}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// town is a world with too many agents for a prompt, and an index of them.
type town struct {
	*world
	cast  *cast
	index *router.Index
}

func newTown(t *testing.T, d llm.Decider, agents ...prompt.Agent) *town {
	w := newWorld(t, d)
	w.stop()
	n := &town{world: w, cast: &cast{}, index: router.New(nil)}
	n.are(agents...)
	n.restart(d)
	return n
}

// are sets the present agents.
func (n *town) are(agents ...prompt.Agent) {
	if old := n.cast.now.Load(); old != nil {
		for _, a := range *old {
			n.index.Remove(a.ID)
		}
	}
	for _, a := range agents {
		n.index.Put(a.ID, a.Card)
	}
	n.cast.are(agents...)
}

func (n *town) restart(d llm.Decider) {
	n.stop()
	n.start(cortex.Config{Decider: d, Agents: n.cast.agents, Router: n.index})
}

// last returns what the decider was last asked.
func (n *town) last() *llm.Turn {
	all := n.decisions()
	return all[len(all)-1]
}

func (n *town) lastEntry() *conversation.Entry {
	all := entries(n.t, n.store)
	return all[len(all)-1]
}

func ids(agents []prompt.Agent) []string {
	var out []string
	for _, a := range agents {
		out = append(out, a.ID)
	}
	return out
}

// greet answers everything.
var greet = simple(func(*llm.Turn) *llm.Decision { return respond("fine") })

func TestShortlist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTown(t, greet, crowd(1000)...)
		n.say("m1", "I need someone who repairs bicycles, or ask opera-films")
		got, e := n.last(), n.lastEntry()
		if len(got.Listed) > 25 || !got.Choice || got.More != 1000-len(got.Agents) || got.Search == nil || got.Lookup == nil {
			t.Errorf("%d agents are listed and %d more there, a choice: %t", len(got.Listed), got.More, got.Choice)
		}
		if diff := cmp.Diff(ids(got.Listed), ids(got.Agents)); diff != "" || !slices.IsSorted(ids(got.Agents)) {
			t.Errorf("agents that can be given work are not the ones listed (-listed +agents):\n%s", diff)
		}
		list := e.Shortlist
		on := func(id string) conversation.Shortlisted {
			i := slices.IndexFunc(list, func(c conversation.Shortlisted) bool { return c.ID == id })
			if i < 0 || i > 1 {
				t.Fatalf("%s is at place %d of %d: %+v", id, i+1, len(list), list)
			}
			return list[i]
		}
		if c := on("bicycles-repairs"); len(list) != len(got.Listed) || c.Reason != "fits" || c.Skill != "repairs" || c.Score < router.Fits {
			t.Errorf("of %d candidates one is %+v", len(list), c)
		}
		if !slices.IsSortedFunc(list, func(a, b conversation.Shortlisted) int { return int(1000*b.Score) - int(1000*a.Score) }) {
			t.Errorf("the shortlist is not in the order of scores: %+v", list)
		}
		if c := on("opera-films"); c.Reason != "named" {
			t.Errorf("the agent that was named is on the shortlist as %+v", c)
		}
		full, _ := got.Lookup("bicycles-repairs")
		i := slices.Index(ids(got.Agents), "bicycles-repairs")
		if got.Agents[i].Card != full.Card || got.Listed[i].Of == "" || got.Listed[i].Card == full.Card {
			t.Error("want the whole card to decide by, and an excerpt in the list")
		}
		if _, ok := got.Lookup("nobody"); ok {
			t.Error("an agent is found that is not there")
		}
	})
}

// TestFewAgentsAreAllShown checks that a router changes nothing as long as the agents are few.
func TestFewAgentsAreAllShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTown(t, greet, crowd(40)...)
		n.say("m1", "hello")
		got := n.last()
		if len(got.Listed) != 40 || got.Choice || got.More != 0 || got.Search != nil || got.Lookup != nil ||
			n.lastEntry().Shortlist != nil {
			t.Errorf("of 40 agents %d are listed, a choice: %t", len(got.Listed), got.Choice)
		}
	})
}

// TestLongCardsAreChosenFrom checks that few agents with long cards can be too many as well.
func TestLongCardsAreChosenFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := crowd(38)
		for i := range agents {
			for j := range 25 {
				long := a2a.AgentSkill{ID: fmt.Sprint(j), Description: strings.Repeat("long ", 40)}
				agents[i].Card.Skills = append(agents[i].Card.Skills, long)
			}
		}
		n := newTown(t, greet, agents...)
		n.say("m1", "who repairs my bicycles?")
		if got := n.last(); !got.Choice || len(got.Agents) >= 38 {
			t.Errorf("%d agents are shown, a choice: %t", len(got.Agents), got.Choice)
		}
	})
}

// TestFollowUp checks that the router considers a message that says little together with the previous one, but not a message that changes the
// subject.
func TestFollowUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTown(t, greet, crowd(1000)...)
		on := func(id string) bool {
			return slices.ContainsFunc(n.lastEntry().Shortlist, func(c conversation.Shortlisted) bool { return c.ID == id })
		}
		n.say("m1", "and in Paris?")
		if on("whales-photographs") {
			t.Fatal("the test is too easy: nothing in the message speaks of whales")
		}
		n.say("m2", "who photographs whales?")
		n.say("m3", "and in Paris?")
		if !on("whales-photographs") {
			t.Errorf("after a question on whales the shortlist is %+v", n.lastEntry().Shortlist)
		}
		n.say("m4", "who exports olives?")
		if list := n.lastEntry().Shortlist; list[0].ID != "olives-exports" || on("whales-photographs") {
			t.Errorf("after a change of subject the shortlist is %+v", list)
		}
	})
}

// TestOutOfReach checks that an agent that is not on the shortlist can be given work: by its name in the message, by a search of the
// model, or by an id that the decider knows; and that it is in use afterwards.
func TestOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		give := func(id string) string {
			return fmt.Sprintf(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":%q,"skill":null,"task":"t",`+
				`"input":null,"depends_on":[]}],"search":null,"reason":""}`, id)
		}
		const done = `{"kind":"respond","say":"Done.","delegations":[],"search":null,"reason":""}`
		c := llmtest.Script(
			llmtest.Text(`{"kind":"search","say":"secret","delegations":[],"search":"photographs volcanoes","reason":""}`),
			llmtest.Text(give("volcanoes-photographs")), llmtest.Text(done),
			llmtest.Text(give("kites-heats")), llmtest.Text(done), // the user named it
			llmtest.Text(give("rivers-names")), llmtest.Text(done), // nobody did
			llmtest.Text(give("nobody")), llmtest.Text(done),
		)
		templates, err := prompt.New("")
		if err != nil {
			t.Fatal(err)
		}
		n := newTown(t, llm.NewDecider(c, templates, nil), crowd(1000)...)
		listed := func() bool { return slices.Contains(ids(n.last().Agents), "volcanoes-photographs") }
		finish := func(agent string) {
			t.Helper()
			tasks := n.load().Running()
			if len(tasks) != 1 || tasks[0].Agent != agent {
				t.Fatalf("%d tasks run, want one of %s", len(tasks), agent)
			}
			n.finish(agent, tasks[0].ID, "ok")
		}
		n.say("m1", "hello there")
		if listed() {
			t.Fatal("the test is too easy: the agent is listed")
		}
		e := n.lastEntry()
		if diff := cmp.Diff([]string{"photographs volcanoes"}, e.Decision.Searches); diff != "" {
			t.Errorf("searches in the log (-want +got):\n%s", diff)
		}
		if text := c.Requests()[1].Messages[2].Text(); !strings.Contains(text, `- id "volcanoes-photographs"`) {
			t.Errorf("the search brought:\n%s", text)
		}
		finish("volcanoes-photographs")
		if !listed() {
			t.Error("the agent at work is not listed when its result is there")
		}
		n.say("m2", "hello, let kites-heats do it")
		if !slices.ContainsFunc(n.lastEntry().Shortlist, func(c conversation.Shortlisted) bool {
			return c.ID == "volcanoes-photographs" && c.Reason == "in use"
		}) {
			t.Errorf("an agent of the turn before is not in use: %+v", n.lastEntry().Shortlist)
		}
		finish("kites-heats")
		n.say("m3", "hello again")
		finish("rivers-names")
		n.say("m4", "hello once more")
		for m, want := range map[string]string{"m1": "Done.", "m2": "Done.", "m3": "Done.", "m4": "Done."} {
			n.wantAnswer(m, want)
		}
		if e := n.lastEntry(); e.Decision.Repairs != 1 {
			t.Errorf("work for nobody was corrected %d times, want once", e.Decision.Repairs)
		}
		for _, e := range n.watched() {
			if b, _ := json.Marshal(e.Payload); strings.Contains(string(b), "secret") {
				t.Errorf("words of a search were shown: %s", b)
			}
		}
	})
}

// TestSearchSeesOnlyWhatMayBeGivenWork checks that a search does not find agents that the turn may not give work to.
func TestSearchSeesOnlyWhatMayBeGivenWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		falcon := actor("falcon", "Keeps watch on a tower") // nothing on its card contains its id
		falcon.Card.Name = "Watchman"
		agents := append(crowd(1000), falcon)
		slices.SortFunc(agents, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
		n := newTown(t, greet, agents...)
		e := userEvent("m1", "who repairs bicycles? bicycles-repairs")
		e.From = "bicycles-repairs" // which hands the request on
		n.publish(e)
		n.index.Put("ghost", actor("ghost", "photographs volcanoes").Card) // the index is ahead of the list
		got := n.last()
		if _, ok := got.Lookup("bicycles-repairs"); ok || slices.Contains(ids(got.Agents), "bicycles-repairs") {
			t.Error("the agent that asks could be given its own request")
		}
		for words, not := range map[string]string{
			"repairs bicycles": "bicycles-repairs", "photographs volcanoes": "ghost", "bicycles-repairs": "bicycles-repairs",
		} {
			found := got.Search(words)
			if len(found) == 0 || len(found) > 20 || slices.ContainsFunc(found, func(f llm.Found) bool { return f.ID == not || f.Of == "" }) {
				t.Errorf("a search for %q finds %d agents, %s among them", words, len(found), not)
			}
		}
		for words, want := range map[string]string{"please wine-sells": "wine-sells", "the falcon": "falcon"} {
			if found := got.Search(words); len(found) == 0 || found[0].ID != want || !found[0].Fits {
				t.Errorf("a search for %q finds %d agents, %s not first among them", words, len(found), want)
			}
		}
	})
}

// TestForeignNotesAreBounded checks that what a plugged-in decider reports of its searches, and of what it read, is cut.
func TestForeignNotesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := decideFunc(func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
			d := respond("x")
			d.Searches = slices.Repeat([]string{strings.Repeat("long\x1b ", 1000)}, 100)
			d.Reads = slices.Repeat([]llm.Read{{Key: strings.Repeat("long\x1b\xff", 1000), Find: strings.Repeat("long\x1b ", 1000)}}, 100)
			return d, nil
		})
		n := newTown(t, d, crowd(50)...)
		n.say("m1", "hello")
		n.wantFold()
		reads := n.lastEntry().Decision.Reads
		if b, _ := json.Marshal(reads); len(reads) != 3 || len(b) > 2000 || strings.Contains(string(b), "\\u001b") {
			t.Errorf("%d reads are logged: %.300q", len(reads), b)
		}
		got := n.lastEntry().Decision.Searches
		if b, _ := json.Marshal(got); len(got) != 3 || len(b) > 1000 || strings.Contains(got[0], "\x1b") {
			t.Errorf("%d searches are logged: %.300q", len(got), got)
		}
	})
}
