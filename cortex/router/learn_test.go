package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// timed returns an index with the cards of testdata, and its clock.
func timed(t *testing.T) (*router.Index, *time.Time) {
	now := noon
	x := router.New(&router.Options{Now: func() time.Time { return now }})
	for id, c := range agents(t) {
		x.Put(id, c)
	}
	return x, &now
}

// did makes evidence of texts, each from a different user an hour ago.
func did(texts ...string) []router.Evidence {
	var es []router.Evidence
	for i, s := range texts {
		es = append(es, router.Evidence{ID: fmt.Sprint(i), Text: s, From: fmt.Sprint("asker", i), Time: noon.Add(-time.Hour)})
	}
	return es
}

// Words that are on no card of testdata.
var gardening = []string{"prune the roses in my garden", "when do I prune roses", "prune my apple trees and roses", "how to prune roses well"}

func TestLearn(t *testing.T) {
	x, now := timed(t)
	const text = "please prune the roses behind the garage"
	if got, score := first(x, text); score >= router.Fits {
		t.Fatalf("before: Search = %s %.2f, want none that fits", got, score)
	}
	x.Learn("agent_lights", did(gardening[:1]...))
	one := scoreOf(x, "agent_lights", text)
	x.Learn("agent_lights", did(gardening...))
	got, four := first(x, text)
	if got != "agent_lights" || four < router.Fits {
		t.Errorf("Search = %s %.2f, want agent_lights, which did it before", got, four)
	}
	if one >= four || one == 0 {
		t.Errorf("the score is %.3f with one item and %.3f with four, want it to grow", one, four)
	}
	*now = noon.Add(60 * 24 * time.Hour)
	if old := scoreOf(x, "agent_lights", text); old >= four {
		t.Errorf("the score is %.3f after 60 days and was %.3f, want less", old, four)
	}
	*now = noon.Add(10 * 365 * 24 * time.Hour)
	if old := scoreOf(x, "agent_lights", text); old >= router.Fits {
		t.Errorf("the score is %.3f after ten years, want less than %v", old, router.Fits)
	}
	*now = noon
	x.Learn("agent_lights", nil)
	if left := scoreOf(x, "agent_lights", text); left >= one {
		t.Errorf("the score is %.3f after all is forgotten", left)
	}
}

func TestLearnOutlivesTheCard(t *testing.T) {
	cards := agents(t)
	x, _ := timed(t)
	const text = "prune the roses"
	x.Remove("agent_lights")
	x.Learn("agent_lights", did(gardening...))
	if hits := ids(x.Search(text, nil)); strings.Contains(hits, "agent_lights") {
		t.Fatalf("Search found an agent that is not there: %s", hits)
	}
	for range 2 {
		x.Put("agent_lights", cards["agent_lights"])
		if got, score := first(x, text); got != "agent_lights" || score < router.Fits {
			t.Errorf("Search = %s %.2f, want the agent that came back", got, score)
		}
		x.Remove("agent_lights")
	}
}

func TestLearnOfASkillThatIsGone(t *testing.T) {
	x, _ := timed(t)
	const text = "prune the roses"
	es := did(gardening...)
	for i := range es {
		es[i].Skill = "garden"
	}
	x.Learn("agent_new", es)
	c := card("New", "nothing of the kind")
	x.Put("agent_new", c)
	if s := scoreOf(x, "agent_new", text); s >= router.Fits {
		t.Errorf("evidence for a skill that the card does not have counts: %.2f", s)
	}
	c.Skills[0].ID = "garden"
	x.Put("agent_new", c)
	if s := scoreOf(x, "agent_new", text); s < router.Fits {
		t.Errorf("evidence for a skill that the card has does not count: %.2f", s)
	}
	if hits := x.Search(text, nil); len(hits[0].Skills) == 0 || hits[0].Skills[0] != "garden" {
		t.Errorf("Skills = %v, want the one that the evidence is of", hits[0].Skills)
	}
}

// TestLearnTakesNothingFromOthers checks that evidence of one agent affects neither other agents nor other topics.
func TestLearnTakesNothingFromOthers(t *testing.T) {
	x, _ := timed(t)
	texts := requests(t)
	type was struct {
		best   string
		scores map[string]float64
	}
	before := map[string]was{}
	for _, q := range texts {
		w := was{scores: map[string]float64{}}
		for i, h := range x.Search(q.Query, &router.SearchOptions{Limit: 1000}) {
			if i == 0 {
				w.best = h.ID
			}
			w.scores[h.ID] = h.Score
		}
		before[q.Query] = w
	}
	var greedy []string
	for i := range 64 {
		greedy = append(greedy, fmt.Sprintf("what will the weather be on day %d, rain or wind, in town %d", i, i))
	}
	x.Learn("agent_lights", did(greedy...))
	for _, q := range texts {
		weather := len(q.Agents) > 0 && q.Agents[0] == "agent_weather"
		hits := x.Search(q.Query, &router.SearchOptions{Limit: 1000})
		for i, h := range hits {
			if h.ID != "agent_lights" && h.Score < before[q.Query].scores[h.ID] {
				t.Errorf("Search(%q): %s fell from %v to %v", q.Query, h.ID, before[q.Query].scores[h.ID], h.Score)
			}
			if i > 0 && h.Score > hits[i-1].Score {
				t.Errorf("Search(%q): %s stands below %s and has more", q.Query, h.ID, hits[i-1].ID)
			}
			if i == 0 && !weather && h.ID == "agent_lights" && h.ID != before[q.Query].best && h.Score >= router.Fits {
				t.Errorf("Search(%q) = agent_lights, which learned of the weather only; it was %s", q.Query, before[q.Query].best)
			}
		}
	}
	if got, _ := first(x, "ask agent_parcels what the weather will be on day 7"); got != "agent_parcels" {
		t.Errorf("evidence beats the name of an agent: %s", got)
	}
}

// TestLearnOfMuchIsNotOfAll checks that accidental similarity with one of many requests ranks an agent, but does not make it fit.
func TestLearnOfMuchIsNotOfAll(t *testing.T) {
	x, _ := timed(t)
	var much []string
	flowers := strings.Fields("rose tulip iris peony dahlia aster lily daisy poppy violet crocus orchid jasmine lupin clover fern")
	for i := range 64 {
		much = append(much, fmt.Sprintf("how long does a %s in the garden live when %s grows around it", flowers[i%16], flowers[(i*7+3)%16]))
	}
	x.Learn("agent_lights", did(much...))
	if got, score := first(x, "how long does a "+flowers[3]+" in the garden live"); got != "agent_lights" || score < router.Fits {
		t.Errorf("Search = %s %.2f, want agent_lights", got, score)
	}
	for _, text := range []string{"how long does paint in a bucket last", "who lives around here"} {
		if got, score := first(x, text); score >= router.Fits {
			t.Errorf("Search(%q) = %s %.2f, want below %v", text, got, score, router.Fits)
		}
	}
}

// TestLearnWeighsAskers checks that one of several users has little influence.
func TestLearnWeighsAskers(t *testing.T) {
	const text = "prune the roses"
	score := func(from func(i int) string) float64 {
		x, _ := timed(t)
		es := did(append(gardening, "dim the bedroom", "close the blinds now")...)
		for i := range es {
			es[i].From = from(i)
		}
		x.Learn("agent_lights", es)
		return scoreOf(x, "agent_lights", text)
	}
	alone := score(func(int) string { return "ann" })
	each := score(func(i int) string { return fmt.Sprint(i) })
	flood := score(func(i int) string { return []string{"ann", "bob"}[min(1, i/4)] }) // the first four are about roses
	if alone != each {
		t.Errorf("the score is %.3f of one asker and %.3f of six, want the same", alone, each)
	}
	if flood >= each {
		t.Errorf("the score is %.3f where one of two asked four times, and %.3f where six asked once, want less", flood, each)
	}
}

func TestLearnIsBounded(t *testing.T) {
	const text = "prune the roses"
	newest := func(es []router.Evidence) []router.Hit {
		x, _ := timed(t)
		x.Learn("agent_lights", es)
		return x.Search(text, nil)
	}
	var many []router.Evidence
	for i := range 500 {
		e := router.Evidence{ID: fmt.Sprint(i), From: fmt.Sprint(i), Time: noon.Add(-time.Duration(i) * time.Hour)}
		e.Text = "prune roses of kind " + e.ID
		many = append(many, e, e) // duplicates count once
	}
	var once []router.Evidence
	for i := 64*2 - 1; i > 0; i -= 2 { // in reverse order
		once = append(once, many[i])
	}
	if d := cmp.Diff(newest(once), newest(many)); d != "" {
		t.Errorf("500 items count otherwise than the newest 64 (-64 +500):\n%s", d)
	}
	x, _ := timed(t)
	x.Learn("agent_lights", []router.Evidence{{Text: strings.Repeat("roses ", 100_000)}, {Text: "\xff"}, {}})
	x.Search(text, nil)
}

// TestLearnKeepsEachSkill checks that a frequently requested skill does not displace the evidence of another.
func TestLearnKeepsEachSkill(t *testing.T) {
	x, _ := timed(t)
	c := card("Home", "does this and that")
	c.Skills = []a2a.AgentSkill{{ID: "garden", Name: "one"}, {ID: "kitchen", Name: "two"}}
	x.Put("agent_home", c)
	var es []router.Evidence
	for i, text := range gardening {
		es = append(es, router.Evidence{ID: fmt.Sprint("garden", i), Skill: "garden", Text: text, From: fmt.Sprint(i), Time: noon.Add(-1000 * time.Hour)})
	}
	for i := range 600 {
		es = append(es, router.Evidence{
			ID: fmt.Sprint(i), Skill: "kitchen", Text: fmt.Sprintf("boil egg number %d", i), From: fmt.Sprint(i), Time: noon.Add(-time.Duration(i) * time.Minute),
		})
	}
	x.Learn("agent_home", es)
	for text, skill := range map[string]string{"prune the roses": "garden", "boil an egg": "kitchen"} {
		hits := x.Search(text, nil)
		if len(hits) == 0 || hits[0].ID != "agent_home" || hits[0].Skills[0] != skill {
			t.Errorf("Search(%q) = %+v, want agent_home for its skill %s", text, hits[:min(1, len(hits))], skill)
		}
	}
}

// TestNewest checks that Newest returns the latest of each skill, and the same number of each when there are too many.
func TestNewest(t *testing.T) {
	of := func(skill string, n int) (es []router.Evidence) {
		for i := range n {
			es = append(es, router.Evidence{ID: fmt.Sprint(skill, i), Skill: skill, Time: noon.Add(-time.Duration(i) * time.Hour)})
		}
		return es
	}
	for _, c := range []struct {
		all  []router.Evidence
		most int
		want map[string]int
	}{
		{of("a", 100), 512, map[string]int{"a": 64}},
		{append(of("a", 100), of("", 3)...), 512, map[string]int{"a": 64, "": 3}},
		{slices.Concat(of("a", 64), of("b", 40), of("c", 2)), 50, map[string]int{"a": 24, "b": 24, "c": 2}},
		{slices.Concat(of("a", 2), of("b", 2), of("c", 2)), 2, map[string]int{"a": 1, "b": 1}},
		{of("a", 3), 0, map[string]int{}},
	} {
		got := map[string]int{}
		for i, e := range router.Newest(c.all, c.most) {
			if e.ID != fmt.Sprint(e.Skill, got[e.Skill]) {
				t.Errorf("item %d is %s, want the newest of each skill, in their order", i, e.ID)
			}
			got[e.Skill]++
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("Newest of %d for %d (-want +got):\n%s", len(c.all), c.most, d)
		}
	}
}
