package router_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

func TestSearchFindsWordsInAllForms(t *testing.T) {
	cards := agents(t)
	cards["agent_cjk"] = card("東京観光案内", "東京の美術館と寺院を案内します")
	cards["agent_thai"] = card("ร้านอาหาร", "แนะนำร้านอาหารไทยในกรุงเทพ")
	cards["agent_camel"] = card("getOrbitOfSatellite", "")
	cards["agent_cafe"] = card("Café Zürich", "Öffnungszeiten der Kaffeehäuser")
	x := put(cards)
	tests := []struct{ name, text, want string }{
		{"words", "will it rain in Oslo", "agent_weather"},
		{"other forms of words", "proofreading and spellings, corrected", "agent_grammar"},
		{"case", "DEPLOY TO STAGING", "agent_deploy"},
		{"a wrong letter", "translat this pararaph", "agent_translate"},
		{"a script without spaces", "東京でおすすめの美術館はどこですか", "agent_cjk"},
		{"a script with marks and without spaces", "อยากกินอาหารไทย", "agent_thai"},
		{"humps in a name", "the orbit of that satellite", "agent_camel"},
		{"a name as it is written", "getOrbitOfSatellite", "agent_camel"},
		{"no accents", "cafe zurich", "agent_cafe"},
		{"accents that stand apart", "cafe\u0301 zu\u0308rich", "agent_cafe"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, score := first(x, tt.text); got != tt.want || score < router.Fits {
				t.Errorf("Search(%q) = %s %.2f, want %s and at least %v", tt.text, got, score, tt.want, router.Fits)
			}
		})
	}
}

func TestSearchOptions(t *testing.T) {
	x := put(agents(t))
	const text = "what does a room, a train or a flight to Vienna cost"
	all := x.Search(text, &router.SearchOptions{Limit: 1000})
	if len(all) < 5 {
		t.Fatalf("Search gave %d hits, want several", len(all))
	}
	if got := x.Search(text, &router.SearchOptions{Limit: 2}); len(got) != 2 || got[0].ID != all[0].ID {
		t.Errorf("with Limit 2: %s", ids(got))
	}
	if got := x.Search(text, &router.SearchOptions{Limit: -1}); len(got) == 0 || len(got) > 20 {
		t.Errorf("with Limit -1: %d hits, want up to 20", len(got))
	}
	kept := x.Search(text, &router.SearchOptions{Keep: func(id string) bool { return id != all[0].ID }})
	if len(kept) == 0 || strings.Contains(ids(kept), all[0].ID) {
		t.Errorf("Keep let %s pass: %s", all[0].ID, ids(kept))
	}
	for i, h := range all {
		if h.Score < 0 || h.Score > 1 || i > 0 && h.Score > all[i-1].Score {
			t.Errorf("hit %d of %s has the score %v", i, h.ID, h.Score)
		}
	}
}

func TestSearchWithNothing(t *testing.T) {
	x := router.New(nil)
	x.Remove("nobody")
	if hits := x.Search("anything", nil); len(hits) != 0 {
		t.Errorf("an empty index found %s", ids(hits))
	}
	x.Put("agent_nil", nil)
	x.Put("agent_empty", &a2a.AgentCard{})
	for _, text := range []string{"", " ", "🙂🙂", "\x00\xff\xfe", "?!", "the of and"} {
		x.Search(text, nil)
	}
	if x.Len() != 2 {
		t.Errorf("Len() = %d, want 2", x.Len())
	}
}

func TestSearchNamesTheSkillsThatFit(t *testing.T) {
	x := put(agents(t))
	tests := []struct{ text, agent, skill string }{
		{"roll back the shop", "agent_deploy", "rollback"},
		{"roll out version 3", "agent_deploy", "rollout"},
		{"has my flight landed", "agent_flights", "track"},
		{"how many calories has an apple", "agent_fitness", "calories"},
	}
	for _, tt := range tests {
		hits := x.Search(tt.text, nil)
		if len(hits) == 0 || hits[0].ID != tt.agent || len(hits[0].Skills) == 0 || hits[0].Skills[0] != tt.skill {
			t.Errorf("Search(%q) = %+v, want the skill %s of %s first", tt.text, hits[:min(1, len(hits))], tt.skill, tt.agent)
		}
	}
	many := &a2a.AgentCard{Name: "Many", Description: "does much"}
	for i := range 9 {
		many.Skills = append(many.Skills, a2a.AgentSkill{Name: fmt.Sprintf("polish brass %d", i), Description: "polish brass"})
	}
	x.Put("agent_many", many)
	hits := x.Search("polish brass", nil)
	if len(hits) == 0 || len(hits[0].Skills) != 3 || !strings.HasPrefix(hits[0].Skills[0], "polish brass ") {
		t.Errorf("Search of nine skills without ids = %+v, want three of them by name", hits)
	}
}

// TestFitsAmongThreeAgents checks that the threshold works for the three built-in agents as for thousands.
func TestFitsAmongThreeAgents(t *testing.T) {
	x := router.New(nil)
	x.Put("agent_echo", &a2a.AgentCard{
		Name: "agent_echo", Description: "A simple echo agent that repeats back messages for testing purposes",
		Skills: []a2a.AgentSkill{{
			ID: "echo", Name: "Echo Messages", Description: "Echoes back any text message with an 'Echo: ' prefix",
			Tags: []string{"testing", "echo", "debug"}, Examples: []string{"Echo this message", "Repeat what I say", "Test echo functionality"},
		}},
	})
	x.Put("agent_clock", &a2a.AgentCard{
		Name: "agent_clock", Description: "Tells the current time and date in any time zone, city or country",
		Skills: []a2a.AgentSkill{{
			ID: "time", Name: "Current Time and Date",
			Description: "Tells the current time, date and weekday in one or more cities, countries or IANA time zones, or the local one when no place is named",
			Tags:        []string{"time", "date", "clock", "timezone", "weekday"},
			Examples:    []string{"What time is it in Tokyo?", "Date in New York", "What day is it in Sydney and in London?", "Time in Europe/Berlin"},
		}},
	})
	x.Put("agent_calc", &a2a.AgentCard{
		Name: "agent_calc", Description: "Does exact arithmetic and converts units",
		Skills: []a2a.AgentSkill{{
			ID: "calculate", Name: "Calculate",
			Description: "Computes an arithmetic expression with + - * / ^ %, parentheses and functions such as sqrt, round, max, sin (radians), " +
				"log (base 10) and ln",
			Tags:     []string{"math", "arithmetic", "calculator", "percent", "number"},
			Examples: []string{"What is 17*23?", "12% of 80", "sqrt(2)", "divide 10 by 4"},
		}, {
			ID: "convert", Name: "Convert Units",
			Description: "Converts between units of length, mass, temperature, time, volume, area, speed, data, energy, power, pressure and angle",
			Tags:        []string{"units", "conversion", "measurement"},
			Examples:    []string{"10 km in miles", "Convert 72 F to C", "How many cups are in a liter?", "5 ft 11 in in cm"},
		}},
	})
	for text, want := range map[string]string{
		"what time is it in Tokyo?": "agent_clock", "time in London": "agent_clock", "what's the date today": "agent_clock",
		"what day is it in Berlin": "agent_clock", "current time in Sydney please": "agent_clock",
		"2+2": "agent_calc", "what is 15% of 80": "agent_calc", "convert 10 miles to km": "agent_calc", "12 times 12": "agent_calc",
		"sqrt(144)": "agent_calc", "convert 30 celsius to fahrenheit": "agent_calc",
		"echo hello": "agent_echo", "echo back what I say": "agent_echo", "Echo this!": "agent_echo", "please repeat after me": "agent_echo",
		"which day is it today": "agent_clock", "time": "agent_clock", "what is the time": "agent_clock",
		"how much is 12 divided by 4": "agent_calc", "can you compute 12 / 4 for me": "agent_calc", "72 F in C": "agent_calc",
	} {
		if got, score := first(x, text); got != want || score < router.Fits {
			t.Errorf("Search(%q) = %s %.2f, want %s and at least %v", text, got, score, want, router.Fits)
		}
	}
	for _, text := range []string{
		"tell me a joke", "who wrote Hamlet?", "write a poem about the sea", "what is the capital of France", "hello", "how are you",
		"who are you", "book a flight to Paris", "translate good morning to German", "is it going to rain tomorrow", "thanks, bye",
		"send an email to Bob", "what can you do", "what a", "is it so?", "the", "what", "does this", "summarize the message",
		"summarize the message from Bob", "translate hello world into French", "call 555-123-4567 on 2026-11-20", "book a table for 4 at 19:30",
	} {
		if got, score := first(x, text); score >= router.Fits {
			t.Errorf("Search(%q) = %s %.2f, want below %v", text, got, score, router.Fits)
		}
	}
}

// TestSureHitsAreRankedToo checks that the better agent comes first even where both certainly fit.
func TestSureHitsAreRankedToo(t *testing.T) {
	x := router.New(nil)
	x.Put("agent_b", card("Violin tuning", "tunes violins", "tune my violin", "is my violin in tune"))
	x.Put("agent_a", card("Violin tuning lessons", "teaches tuning of violins", "tune my violin with me", "is my violin in tune or not"))
	var es []router.Evidence
	for i := range 64 {
		es = append(es, router.Evidence{ID: fmt.Sprint(i), Text: "tune my violin", From: fmt.Sprint(i), Time: time.Now()})
	}
	x.Learn("agent_a", es)
	x.Learn("agent_b", es)
	hits := x.Search("tune my violin", nil)
	if len(hits) != 2 || hits[0].ID != "agent_b" || hits[1].Score < 0.99 {
		t.Errorf("Search = %+v, want agent_b first, and both to fit", hits)
	}
}

// TestNamesInRequests checks that of cards with the same words the one that has them as its name comes first, for any ids.
func TestNamesInRequests(t *testing.T) {
	x := put(agents(t))
	x.Put("agent_market", card("getMarketDemand", "figures of a region"))
	x.Put("agent_another", card("Regions", "market demand of a region"))
	const text = "after that, read the file and then the market and its demand"
	if a, b := scoreOf(x, "agent_market", text), scoreOf(x, "agent_another", text); a <= b {
		t.Errorf("the score is %.3f with the words as a name, %.3f in the description, want more", a, b)
	}
}

// TestWholeNamesInRequests checks that a name that the request contains completely counts more than the same words in a name and a description.
func TestWholeNamesInRequests(t *testing.T) {
	skilled := func(name, description string) *a2a.AgentCard {
		return &a2a.AgentCard{Name: "Office", Description: "keeps books", Skills: []a2a.AgentSkill{{ID: "s", Name: name, Description: description}}}
	}
	x := put(agents(t))
	x.Put("agent_whole", skilled("market demand", "ledger"))
	x.Put("agent_parts", skilled("market ledger", "demand"))
	const text = "after that, tell the demand that there is on this market"
	if a, b := scoreOf(x, "agent_whole", text), scoreOf(x, "agent_parts", text); a <= b+1e-6 {
		t.Errorf("the score is %v with the words as a name, %v in a name and a description, want more", a, b)
	}
}

// TestFitsAmongMany checks that an agent that barely fits among few does not fit among many, where the best is better by chance.
func TestFitsAmongMany(t *testing.T) {
	x := router.New(nil)
	x.Put("agent_boats", card("Boats", "rents boats on the lake by the hour"))
	const vague, clear = "feed the ducks and the swans of the old lake", "rent a boat on the lake"
	few := scoreOf(x, "agent_boats", vague)
	for i := range 5000 {
		x.Put(fmt.Sprint("agent_", i), card(fmt.Sprintf("Stamp%dx", i), fmt.Sprintf("collects stamps of series%dy", i)))
	}
	if many := scoreOf(x, "agent_boats", vague); many >= few || many >= router.Fits {
		t.Errorf("the score is %.2f among two agents and %.2f among thousands, want less and not enough", few, many)
	}
	if got, score := first(x, clear); got != "agent_boats" || score < router.Fits {
		t.Errorf("Search(%q) = %s %.2f, want agent_boats and at least %v", clear, got, score, router.Fits)
	}
}

// TestSearchDependsOnTheAgentsAlone checks that the result depends on the present agents only: a long history of changes leaves no trace, to the last
// bit.
func TestSearchDependsOnTheAgentsAlone(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock := &router.Options{Now: func() time.Time { return now }}
	cards := agents(t)
	all := slices.Sorted(maps.Keys(cards))
	texts := requests(t)
	learned := func(i int) []router.Evidence {
		return []router.Evidence{
			{ID: "a", Text: texts[i].Query, From: "ann", Time: now.Add(-time.Hour)},
			{ID: "b", Text: texts[i+1].Query, From: "bob", Time: now.Add(-50 * 24 * time.Hour)},
			{ID: "c", Text: texts[i+2].Query, From: "ann", Time: now.Add(-2 * time.Hour)},
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	old := router.New(clock)
	there := map[string]*a2a.AgentCard{}
	known := map[string]int{}
	for range 3000 {
		id := all[r.IntN(len(all))]
		switch r.IntN(5) {
		case 0, 1:
			there[id] = cards[all[r.IntN(len(all))]]
			old.Put(id, there[id])
		case 2:
			delete(there, id)
			old.Remove(id)
		case 3:
			known[id] = r.IntN(len(texts) - 3)
			old.Learn(id, learned(known[id]))
		case 4:
			delete(known, id)
			old.Learn(id, nil)
		}
	}
	fresh := router.New(clock)
	for id, i := range known {
		fresh.Learn(id, learned(i))
	}
	for id, c := range there {
		fresh.Put(id, c)
	}
	if old.Len() != len(there) || fresh.Len() != len(there) {
		t.Errorf("Len() = %d and %d, want %d", old.Len(), fresh.Len(), len(there))
	}
	for _, q := range texts {
		if d := cmp.Diff(fresh.Search(q.Query, nil), old.Search(q.Query, nil)); d != "" {
			t.Fatalf("Search(%q) after 3,000 changes differs from a fresh index (-fresh +old):\n%s", q.Query, d)
		}
	}
}

// TestFormsOfAWordInAnyOrder checks that inflected forms of a word are one term, whichever came first.
func TestFormsOfAWordInAnyOrder(t *testing.T) {
	cards := []*a2a.AgentCard{card("Repairs", "a service for boilers"), card("Churches", "services on Sundays"), card("Serving", "serves and served")}
	a, b := router.New(nil), router.New(nil)
	for i, c := range cards {
		a.Put(c.Name, c)
		b.Put(cards[2-i].Name, cards[2-i])
	}
	for _, text := range []string{"service", "services", "the services of others", "who serves"} {
		if d := cmp.Diff(a.Search(text, nil), b.Search(text, nil)); d != "" {
			t.Errorf("Search(%q) depends on the order of the cards:\n%s", text, d)
		}
	}
}

// TestEqualsInTheOrderOfTheirIDs checks that of more equal agents than are compared in detail, those found do not depend on the order in which they
// were added.
func TestEqualsInTheOrderOfTheirIDs(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock := &router.Options{Now: func() time.Time { return now }}
	up, down := router.New(clock), router.New(clock)
	var es []router.Evidence
	for i := range 200 {
		up.Put(fmt.Sprintf("twin_%03d", i), card("Twin", "mows lawns"))
		down.Put(fmt.Sprintf("twin_%03d", 199-i), card("Twin", "mows lawns"))
		es = append(es, router.Evidence{ID: fmt.Sprint(i), Text: fmt.Sprint("mow ", strings.Repeat("a", i), "x"), From: fmt.Sprint(i), Time: now})
	}
	check := func() {
		t.Helper()
		got, again := up.Search("mow the lawn", nil), down.Search("mow the lawn", nil)
		if d := cmp.Diff(got, again); d != "" {
			t.Errorf("the order of coming counts:\n%s", d)
		}
		if len(got) != 20 || got[0].ID != "twin_000" || got[19].ID != "twin_019" {
			t.Errorf("Search = %s, want twin_000 to twin_019", ids(got))
		}
	}
	check()
	up.Learn("twin_000", es)
	slices.Reverse(es)
	down.Learn("twin_000", es)
	check()
}

func TestHostileCards(t *testing.T) {
	x := put(agents(t))
	everything := map[string]bool{}
	for _, c := range agents(t) {
		for w := range strings.FieldsSeq(c.Name + " " + c.Description) {
			everything[w] = true
		}
		for _, s := range c.Skills {
			for w := range strings.FieldsSeq(s.Name + " " + s.Description + " " + strings.Join(s.Examples, " ")) {
				everything[w] = true
			}
		}
	}
	stuffed := strings.Join(slices.Sorted(maps.Keys(everything)), " ")
	x.Put("agent_stuffed", card("Does it all", stuffed, stuffed))
	x.Put("agent_stuffed_name", card(stuffed, "", stuffed))
	x.Put("agent_shouting", card("weather", strings.Repeat("weather ", 2000), strings.Repeat("weather ", 2000)))
	x.Put("agent_long", card(strings.Repeat("x", 100_000), strings.Repeat("word ", 20_000)))
	x.Put("agent_emoji", card("🙂", strings.Repeat("🙂🙃", 9999), "🙂"))
	x.Put("agent_bytes", card("\xff\xfe\x00", "\xc3\x28"))
	skills := &a2a.AgentCard{Name: "Skills"}
	for i := range 1000 {
		skills.Skills = append(skills.Skills, a2a.AgentSkill{
			ID: fmt.Sprint(i), Description: stuffed, Examples: make([]string, 500), Tags: make([]string, 500),
		})
	}
	x.Put("agent_skills", skills)
	for _, q := range requests(t) {
		if len(q.Agents) == 0 {
			continue
		}
		if got, _ := first(x, q.Query); strings.HasPrefix(got, "agent_stuffed") || got == "agent_skills" || got == "agent_long" {
			t.Errorf("Search(%q) = %s, a card with every word", q.Query, got)
		}
	}
	x.Search(strings.Repeat(stuffed+" ", 20), nil)
	for _, id := range []string{"agent_stuffed", "agent_skills", "agent_bytes", "agent_emoji"} {
		x.Remove(id)
	}
}

// TestCardsWithoutExamples checks cards without examples among cards with examples.
func TestCardsWithoutExamples(t *testing.T) {
	cards := agents(t)
	bare := func(c *a2a.AgentCard) *a2a.AgentCard {
		b := *c
		b.Skills = slices.Clone(c.Skills)
		for i := range b.Skills {
			b.Skills[i].Examples = nil
		}
		return &b
	}
	half, none := map[string]*a2a.AgentCard{}, map[string]*a2a.AgentCard{}
	for i, id := range slices.Sorted(maps.Keys(cards)) {
		half[id], none[id] = cards[id], bare(cards[id])
		if i%2 == 0 {
			half[id] = none[id]
		}
	}
	right := func(x *router.Index) (n int) {
		for _, q := range requests(t) {
			if len(q.Agents) > 0 && half[q.Agents[0]] == none[q.Agents[0]] {
				if got, _ := first(x, q.Query); got == q.Agents[0] {
					n++
				}
			}
		}
		return n
	}
	mixed, alike := right(put(half)), right(put(none))
	x := put(half)
	// Worded as in many examples, but about the topic of a card without examples.
	for i := range 6 {
		x.Put(fmt.Sprint("agent_polite_", i),
			card(fmt.Sprint("Polite ", i), "answers politely", "could you kindly look up when and where", "where can I kindly look up how"))
	}
	x.Put("agent_bare", card("Bicycles", "mends bicycles"))
	if got, _ := first(x, "could you kindly look up where I can mend a bicycle"); got != "agent_bare" {
		t.Errorf("Search = %s, want agent_bare, which has no examples", got)
	}
	if mixed < alike-1 {
		t.Errorf("agents without examples are found %d times beside others that have some, %d times where none has", mixed, alike)
	}
}

func TestConcurrency(t *testing.T) {
	cards := agents(t)
	x := put(cards)
	texts := requests(t)
	all := slices.Sorted(maps.Keys(cards))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i, q := range texts {
				switch id := all[(i+w)%len(all)]; {
				case w > 1:
					x.Search(q.Query, nil)
					x.Named(id + " " + q.Query)
				case i%3 == 0:
					x.Remove(id)
				case i%3 == 1:
					x.Learn(id, []router.Evidence{{ID: "1", Text: q.Query}})
				default:
					x.Put(id, cards[id])
				}
				x.Len()
			}
		})
	}
	wg.Wait()
}
