package registry_test

import (
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

func withSkills(name string, ids ...string) *a2a.AgentCard {
	c := &a2a.AgentCard{Name: name}
	for _, id := range ids {
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: id})
	}
	return c
}

// TestStrictAbilities checks that an ability belongs to the first agent with it, until that leaves or gives it up.
func TestStrictAbilities(t *testing.T) {
	w := newWorldOf(registry.Config{
		StrictAbilities: true, WellKnown: []registry.WellKnown{{ID: "listed", Card: withSkills("listed", "l")}},
	})
	say := func(instance, name string, skills ...string) {
		w.publish(instance, transport.Card{Card: withSkills(name, skills...), TTL: ttl})
	}
	const taken = `its ability "x" is that of first already, and abilities are strict here`
	say("first/1", "first", "x", "y")
	say("first/2", "first", "x", "y") // the same agent
	say("second/1", "second", "x", "z")
	say("third/1", "third", "x")
	say("fourth/1", "fourth", "z") // a refused agent claims none of its abilities
	say("fifth/1", "fifth", "l")
	w.want(t, "registered first/1", "instance-joined first/2", "registered second/1", "refused second/1 "+taken,
		"registered third/1", "refused third/1 "+taken, "registered fourth/1",
		"registered fifth/1", `refused fifth/1 its ability "l" is that of listed already, and abilities are strict here`)
	w.wantAgents(t, "fifth:refused:", "first:active:+", "fourth:active:+", "listed:unknown:+", "second:refused:", "third:refused:")

	w.goes("first/1", transport.GoneLeft)
	w.want(t, "instance-left first/1 requested")
	say("first/2", "first", "y")
	w.want(t, "updated first/2", "capabilities-changed first/2 -x",
		`refused second/ its ability "z" is that of fourth already, and abilities are strict here`, "updated third/")
	w.goes("third/1", transport.GoneExpired)
	w.want(t, "deregistered third/1 expired")
	w.goes("fourth/1", transport.GoneLeft)
	w.want(t, "deregistered fourth/1 requested", "updated second/")
	w.wantAgents(t, "fifth:refused:", "first:active:+", "listed:unknown:+", "second:active:+")
	say("first/2", "first", "y", "x")
	w.want(t, "updated first/2", "capabilities-changed first/2 +x",
		`refused first/2 its ability "x" is that of second already, and abilities are strict here`)
}

// TestStrictAfterRestart checks that the first agent stays first after a restart, in whatever order agents are loaded.
func TestStrictAfterRestart(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			l := live(t, registry.Config{StrictAbilities: true, Keep: s})
			for _, id := range []string{"m", "a", "z"} {
				l.publish(id+"/1", transport.Card{Card: withSkills(id, "x"), TTL: ttl})
				l.pass(1)
			}
			l.stop()
			l = live(t, registry.Config{StrictAbilities: true, Keep: s})
			const taken = `its ability "x" is that of m already, and abilities are strict here`
			l.want("registered a/", "refused a/ "+taken, "registered m/", "registered z/", "refused z/ "+taken)
			l.stop()
		})
	}
}
