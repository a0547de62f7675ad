package router_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// TestCardsTogetherAreBounded: many cards of random characters have a bound together; a card that comes then is found by its first words, and by all of
// them when there is room again.
func TestCardsTogetherAreBounded(t *testing.T) {
	const most, long = 400_000, 200
	x := router.New(&router.Options{MaxTerms: most})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range long {
		c := &a2a.AgentCard{Name: "long"}
		for range 8 {
			text := make([]rune, 500)
			for i := range text {
				text[i] = rune(0x4e00 + r.IntN(20_000))
			}
			c.Skills = append(c.Skills, a2a.AgentSkill{ID: "s", Description: string(text)})
		}
		x.Put(fmt.Sprint("long", i), c)
	}
	if n := x.Terms(); n > most || n < most/10 {
		t.Errorf("the cards have %d terms, want at most %d", n, most)
	}
	card := &a2a.AgentCard{Name: "gardener", Description: "prunes roses", Skills: []a2a.AgentSkill{{ID: "a", Description: newSynthetic().text(40)}, {ID: "b", Description: "polishes harpsichords"}}}
	x.Put("gardener", card)
	check := func(whole bool) {
		t.Helper()
		if got, _ := first(x, "please prune my roses"); got != "gardener" {
			t.Errorf("%q is found by the first words of the gardener", got)
		}
		if got := scoreOf(x, "gardener", "polish my harpsichord") > 0; got != whole {
			t.Errorf("the gardener is found by the last words: %v, want %v", got, whole)
		}
	}
	check(false)
	for i := range long {
		x.Remove(fmt.Sprint("long", i))
	}
	x.Put("gardener", card)
	check(true)
	x.Remove("gardener")
	if n := x.Terms(); n != 0 {
		t.Errorf("%d terms are left of nothing", n)
	}
}
