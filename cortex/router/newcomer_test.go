package router_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// town has invented agents with two skills each, and requests for them. Each skill has its own words, half of which are on its card; a request has
// two of them, perhaps none of the card's, and words that all users use and no card has.
type town struct {
	r      *rand.Rand
	words  map[string][]string // by skill
	filler []string
}

const townsfolk = 12

func newTown() *town {
	s := &town{r: rand.New(rand.NewPCG(7, 7)), words: map[string][]string{}}
	syllables := strings.Fields("ba cor del fin gar hol jan kel lim mor net pal qui ros sta tur vel wex zan")
	word := func() string {
		w := ""
		for range 3 {
			w += syllables[s.r.IntN(len(syllables))]
		}
		return w
	}
	for i := range townsfolk {
		for _, skill := range []string{"day", "night"} {
			for range 8 {
				key := fmt.Sprint("agent_", i, skill)
				s.words[key] = append(s.words[key], word())
			}
		}
	}
	for range 40 {
		s.filler = append(s.filler, word())
	}
	return s
}

func (s *town) card(id string) *a2a.AgentCard {
	c := &a2a.AgentCard{Name: id}
	for _, skill := range []string{"day", "night"} {
		w := s.words[id+skill]
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: skill, Name: w[0], Description: w[1] + " " + w[2], Examples: []string{w[2] + " " + w[3]}})
	}
	return c
}

func (s *town) request(id, skill string) string {
	w := s.words[id+skill]
	said := []string{w[s.r.IntN(4)], w[s.r.IntN(8)]}
	for range 2 {
		said = append(said, s.filler[s.r.IntN(len(s.filler))])
	}
	s.r.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
	return strings.Join(said, " ")
}

// TestUnaskedAgentsKeepTheirRequests checks that evidence about some agents takes no requests from agents, or skills, without evidence, and that
// compensating for that does not cost the agents with evidence anything.
func TestUnaskedAgentsKeepTheirRequests(t *testing.T) {
	for name, taught := range map[string]func(i int, skill string) bool{
		"agents": func(i int, _ string) bool { return i%2 == 0 },
		"skills": func(i int, skill string) bool { return (i%2 == 0) == (skill == "day") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown()
			x := router.New(&router.Options{Now: func() time.Time { return noon }})
			type asked struct{ id, text string }
			requests := map[bool][]asked{} // by whether the skill has evidence
			lessons := map[string][]router.Evidence{}
			for i := range townsfolk {
				id := fmt.Sprint("agent_", i)
				x.Put(id, s.card(id))
				for _, skill := range []string{"day", "night"} {
					for n := range 40 {
						requests[taught(i, skill)] = append(requests[taught(i, skill)], asked{id, s.request(id, skill)})
						if taught(i, skill) {
							lessons[id] = append(lessons[id], router.Evidence{
								ID: fmt.Sprint(skill, n), Skill: skill, Text: s.request(id, skill), From: fmt.Sprint(n), Time: noon.Add(-time.Duration(n) * time.Hour),
							})
						}
					}
				}
			}
			right := func(of []asked) float64 {
				n := 0
				for _, r := range of {
					if got, _ := first(x, r.text); got == r.id {
						n++
					}
				}
				return 100 * float64(n) / float64(len(of))
			}
			unasked, learned := right(requests[false]), right(requests[true])
			for id, es := range lessons {
				x.Learn(id, es)
			}
			after, better := right(requests[false]), right(requests[true])
			t.Logf("of those not asked %.1f %% right, then %.1f; of those that learned %.1f, then %.1f", unasked, after, learned, better)
			if after < unasked-3 {
				t.Errorf("of requests for those that were not asked, %.1f %% are right when others have learned, and %.1f were before", after, unasked)
			}
			if better < learned {
				t.Errorf("of requests for those that learned, %.1f %% are right, and %.1f were before", better, learned)
			}
		})
	}
}
