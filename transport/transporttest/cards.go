package transporttest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// card makes the card of an agent's instance.
func (e *env) card(tenant, agent, instance string, ttl time.Duration) *transport.Event {
	return &transport.Event{
		ID: fmt.Sprintf("card-%d", e.seq.Add(1)), Time: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC), From: agent, Tenant: tenant,
		Payload: &transport.Card{AgentID: agent, Instance: instance, TTL: ttl, Card: &a2a.AgentCard{
			Name: agent, Description: "does things", Version: "1.0.0",
			Skills: []a2a.AgentSkill{{ID: "thing", Name: "Thing", Description: "does a thing", Tags: []string{"x"}}},
		}},
	}
}

// left makes the goodbye of an agent's instance.
func (e *env) left(tenant, agent, instance string) *transport.Event {
	ev := e.card(tenant, agent, instance, 0)
	ev.Payload = &transport.Card{AgentID: agent, Instance: instance, Gone: transport.GoneLeft}
	return ev
}

// told makes an event of Cortex about an agent.
func (e *env) told(tenant, agent, kind string) *transport.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	return &transport.Event{
		ID: fmt.Sprintf("told-%d", e.seq.Add(1)), Time: at, From: transport.Cortex, Tenant: tenant,
		Payload: &transport.AgentEvent{
			Time: at, Kind: kind, AgentID: agent, Instance: "1", State: "active", Reason: "because", Added: []string{"thing", "ünd so"},
			Removed: []string{"*.>"}, Instances: 2,
		},
	}
}

// announce publishes a card through the first client.
func (e *env) announce(tenant, agent, instance string, ttl time.Duration) *transport.Event {
	e.Helper()
	ev := e.card(tenant, agent, instance, ttl)
	e.publish(e.tr, transport.Cards(tenant), ev)
	return ev
}

// label describes a cards event in short: "a/1", "a/1 left", "synced".
func label(ev *transport.Event) string {
	switch p := ev.Payload.(type) {
	case *transport.Synced:
		return "synced"
	case *transport.Card:
		if p.Gone != "" {
			return p.AgentID + "/" + p.Instance + " " + string(p.Gone)
		}
		return p.AgentID + "/" + p.Instance
	case *transport.AgentEvent:
		return p.AgentID + " is told " + p.Kind
	}
	return fmt.Sprintf("<%T>", ev.Payload)
}

// retained takes events up to and including Synced, and checks that the cards before it are these, in any order. Cards that left before may be
// reported as gone once more.
func (d *desk) retained(want ...string) []*transport.Event {
	d.e.Helper()
	var got []string
	var all []*transport.Event
	for {
		v := d.next()
		v.done(nil)
		if label(v.Event) == "synced" {
			break
		}
		if card, ok := v.Payload.(*transport.Card); ok && card.Gone == transport.GoneLeft {
			continue
		}
		got, all = append(got, label(v.Event)), append(all, v.Event)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.e.Errorf("before Synced came %q, want %q", got, want)
	}
	return all
}

// change takes the next event and checks its label.
func (d *desk) change(want string) *transport.Event {
	d.e.Helper()
	v := d.next()
	v.done(nil)
	if got := label(v.Event); got != want {
		d.e.Fatalf("%q came, want %q", got, want)
	}
	return v.Event
}

var cardCases = []testCase{
	{name: "cards retained then synced then changes", run: func(e *env) {
		cards := transport.Cards("")
		first := e.desk(e.dial(), cards, nil)
		first.retained()
		beating := e.card("", "a", "1", 6*time.Minute)
		beating.Payload.(*transport.Card).Heartbeat = 2 * time.Minute
		e.publish(e.tr, cards, beating)
		e.same(first.change("a/1"), beating)
		newest := e.announce("", "a", "1", time.Hour)
		e.same(first.change("a/1"), newest)
		e.announce("", "a", "2", 0)
		e.announce("", "b", "1", time.Minute)
		first.change("a/2")
		first.change("b/1")

		late := e.desk(e.dial(), cards, nil)
		for _, ev := range late.retained("a/1", "a/2", "b/1") {
			if label(ev) == "a/1" {
				e.same(ev, newest)
			}
		}
		draining := e.card("", "b", "1", time.Minute)
		draining.Payload.(*transport.Card).Draining = true
		e.publish(e.tr, cards, draining)
		e.same(late.change("b/1"), draining)
		e.same(first.change("b/1"), draining)
		late.nothing("nothing has changed")
	}},
	{name: "cards active after subscribe", run: func(e *env) {
		e.announce("", "a", "1", 0)
		sub := e.subscribe(e.dial(), transport.Cards(""), nil)
		e.announce("", "b", "1", 0)
		d := e.open(sub)
		seen := map[string]int{}
		for seen["synced"] == 0 || seen["b/1"] == 0 {
			v := d.next()
			if seen[label(v.Event)]++; label(v.Event) == "synced" && seen["a/1"] == 0 {
				e.Error("Synced came before a card that was retained")
			}
			v.done(nil)
		}
		d.nothing("nothing has changed")
		if seen["a/1"] != 1 || seen["synced"] != 1 || seen["b/1"] != 1 {
			e.Errorf("events %v, want one of each", seen)
		}
	}},
	{name: "cards one at a time", run: func(e *env) {
		e.announce("", "a", "1", 0)
		e.announce("", "b", "1", 0)
		d := e.desk(e.dial(), transport.Cards(""), nil)
		v := d.next()
		d.nothing("the first is still handled")
		v.done(errTry) // cards are not redelivered
		second := d.next()
		if label(second.Event) == label(v.Event) {
			e.Errorf("%s came twice", label(v.Event))
		}
		second.done(nil)
		d.change("synced")
	}},
	{name: "cards leave", run: func(e *env) {
		cards := transport.Cards("")
		d := e.desk(e.dial(), cards, nil)
		d.retained()
		e.announce("", "a", "1", 0)
		e.announce("", "a", "2", time.Hour)
		d.change("a/1")
		d.change("a/2")
		e.publish(e.tr, cards, e.left("", "a", "1"))
		gone := d.change("a/1 left")
		if gone.From != "a" {
			e.Errorf("From = %q of a card that left, want %q", gone.From, "a")
		}
		e.desk(e.dial(), cards, nil).retained("a/2")
		e.announce("", "a", "1", 0) // the instance returns
		d.change("a/1")
		e.desk(e.dial(), cards, nil).retained("a/1", "a/2")
	}},
	{name: "cards expire unless refreshed", run: func(e *env) {
		cards := transport.Cards("")
		d := e.desk(e.dial(), cards, nil)
		d.retained()
		const ttl = 4 * time.Second // of which a card that is refreshed in time may not miss any, also on a slow machine
		begin := time.Now()
		e.announce("", "dies", "1", ttl)
		e.announce("", "lives", "1", ttl)
		e.announce("", "stays", "1", 0)
		e.announce("", "dies", "2", time.Hour)
		e.announce("", "leaves", "1", ttl)
		e.publish(e.tr, cards, e.left("", "leaves", "1")) // it must not expire as well
		want := map[string]bool{
			"dies/1": true, "lives/1": true, "stays/1": true, "dies/2": true, "leaves/1": true, "leaves/1 left": true,
		}
		limit := time.After(patience)
		tick := time.NewTicker(ttl / 16)
		defer tick.Stop()
		var expired time.Duration
		refreshed := 0
		for expired == 0 || time.Since(begin) < ttl*3/2 {
			select {
			case <-tick.C:
				e.announce("", "lives", "1", ttl)
			case v := <-d.in:
				v.done(nil)
				switch l := label(v.Event); {
				case l == "dies/1 expired":
					if expired != 0 {
						e.Error("the card expired twice")
					}
					expired = time.Since(begin)
					c := v.Payload.(*transport.Card)
					if v.From != "dies" || c.Instance != "1" {
						e.Errorf("the expired card is from %q, instance %q, want dies, 1", v.From, c.Instance)
					}
				case l == "lives/1":
					refreshed++
				case !want[l]:
					e.Fatalf("%q came, want only dies/1 to expire", l)
				}
			case <-limit:
				e.Fatal("the card did not expire")
			}
		}
		if expired < ttl {
			e.Errorf("expired after %v, want its TTL of %v", expired, ttl)
		}
		if refreshed < 3 {
			e.Errorf("%d refreshes were delivered, want each", refreshed)
		}
		e.announce("", "lives", "1", time.Hour) // a longer TTL counts from now on
		late := e.desk(e.dial(), cards, nil)
		late.retained("lives/1", "stays/1", "dies/2")
	}},
	{name: "cards of each tenant", run: func(e *env) {
		a, b := e.desk(e.dial(), transport.Cards("acme"), nil), e.desk(e.dial(), transport.Cards(""), nil)
		a.retained()
		b.retained()
		e.announce("acme", "x", "1", 0)
		e.announce("", "y", "1", 0)
		if got := a.change("x/1"); got.Tenant != "acme" {
			e.Errorf("tenant %q, want acme", got.Tenant)
		}
		b.change("y/1")
		e.publish(e.tr, transport.Cards(""), e.left("", "x", "1")) // not acme's
		e.desk(e.dial(), transport.Cards("acme"), nil).retained("x/1")
		e.desk(e.dial(), transport.Cards(""), nil).retained("y/1")
		a.nothing("nothing has changed for acme")
	}},
	{name: "cards and what is told of agents", run: func(e *env) {
		cards := transport.Cards("")
		first, second := e.desk(e.dial(), cards, nil), e.desk(e.dial(), cards, nil)
		other := e.desk(e.dial(), transport.Cards("acme"), nil)
		first.retained()
		second.retained()
		other.retained()
		e.announce("", "a", "1", 0)
		first.change("a/1")
		second.change("a/1")
		joined := e.told("", "a", "registered")
		e.publish(e.tr, cards, joined)
		e.same(first.change("a is told registered"), joined)
		gone := e.told("", "a*.>", "deregistered") // of no present agent, with a name that has special characters of subjects
		e.publish(e.tr, cards, gone)
		v := first.next()
		e.same(v.Event, gone)
		e.announce("", "b", "1", 0)
		first.nothing("the one before is still handled")
		v.done(nil)
		first.change("b/1")
		rest := map[string]*transport.Event{} // events about agents and cards are not ordered
		for range 3 {
			v := second.next()
			v.done(nil)
			rest[label(v.Event)] = v.Event
		}
		if rest["b/1"] == nil || rest["a is told registered"] == nil || rest["a*.> is told deregistered"] == nil {
			e.Fatalf("%v came, want b/1 and what was told of two", slices.Sorted(maps.Keys(rest)))
		}
		e.same(rest["a is told registered"], joined)
		e.same(rest["a*.> is told deregistered"], gone)
		e.desk(e.dial(), cards, nil).retained("a/1", "b/1") // neither retained nor taken for a card
		other.nothing("it was told of another tenant's agent")
	}},
	{name: "cards outlive who published them", run: func(e *env) {
		// Only a goodbye or the TTL removes a card, not the end of a connection.
		tr := e.dial()
		e.publish(tr, transport.Cards(""), e.card("", "a", "1", time.Hour))
		if err := tr.Close(); err != nil {
			e.Fatal(err)
		}
		e.desk(e.dial(), transport.Cards(""), nil).retained("a/1")
	}},
}
