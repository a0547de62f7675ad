package registry

import (
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// EventKind says what happened to an agent.
type EventKind string

// The kinds of event; there are no others. Each follows from comparing what was known before with what is known after. Every
// agent that is not well known is registered once and deregistered once, whatever its instances do in between.
const (
	// EventRegistered is that an agent is there: its first instance is, or it is well known.
	EventRegistered EventKind = "registered"
	// EventUpdated is that the agent's card is another one, or that it takes work again.
	EventUpdated EventKind = "updated"
	// EventCapabilities is that it has other skills than before, as Added and Removed say. It follows an EventUpdated.
	EventCapabilities EventKind = "capabilities-changed"
	// EventSeen is that an instance was announced again and nothing is new. Only who asks is told: see Config.Seen.
	EventSeen EventKind = "seen"
	// EventDraining is that an instance takes nothing new, and when it is the last one that did, that the agent does not.
	EventDraining EventKind = "draining"
	// EventJoined is that one more instance of the agent is there.
	EventJoined EventKind = "instance-joined"
	// EventLeft is that an instance is not there any more, and the agent still is. It has a Reason.
	EventLeft EventKind = "instance-left"
	// EventDeregistered is that the last instance has gone, and the agent with it. It has a Reason.
	EventDeregistered EventKind = "deregistered"
	// EventConflict warns that instances of one agent announce different cards: an update that is under way, or two
	// agents that share a name by mistake. It comes once for each set of cards.
	EventConflict EventKind = "conflict"
	// EventRefused is that the agent may not be given work, as Reason says. That it may again is an EventUpdated.
	EventRefused EventKind = "refused"
)

// Why an instance went: the Reason of EventLeft and EventDeregistered.
const (
	ReasonRequested = "requested"         // it said so
	ReasonExpired   = "expired"           // its lease ended
	ReasonMissed    = "missed-heartbeats" // it was silent for three heartbeats, or for the grace after a pause of Cortex
)

// Event is something that happened to an agent.
type Event struct {
	Kind     EventKind
	Time     time.Time // by the registry's clock
	AgentID  string
	Instance string // the one that it comes from; "" when it comes from none
	Reason   string // one of those above, or, of EventRefused, a line of text
	// Added and Removed are ids of skills, sorted. A skill that is there before and after is in neither, whatever it says.
	Added, Removed []string
	// Record is the agent after what happened; its State is gone when it is deregistered.
	Record *Record
}

// Wire returns e as it is published and printed.
func (e Event) Wire() *transport.AgentEvent {
	return &transport.AgentEvent{
		Time: e.Time, Kind: string(e.Kind), AgentID: e.AgentID, Instance: e.Instance, State: string(e.Record.State), Reason: e.Reason,
		Added: e.Added, Removed: e.Removed, Instances: len(e.Record.Instances),
	}
}

// compare returns what happened between two views of an agent, caused by an instance.
func compare(before, after view, instance, reason string, now time.Time) []Event {
	var events []Event
	add := func(kind EventKind, reason string) {
		events = append(events, Event{Kind: kind, Time: now, AgentID: after.record.ID, Instance: instance, Reason: reason, Record: after.record})
	}
	was, is := before.record, after.record
	if was == nil {
		add(EventRegistered, "")
		was = is
	} else if is.State == StateGone {
		add(EventDeregistered, reason)
		return events
	}
	switch n := len(is.Instances) - len(was.Instances); {
	case n > 0:
		add(EventJoined, "")
	case n < 0:
		add(EventLeft, reason)
	}
	began, resumed := turned(was, is, instance, StateDraining), turned(was, is, instance, StateActive)
	if began || (is.State == StateDraining && was.State != StateDraining) {
		add(EventDraining, "")
	}
	if before.record != nil {
		if before.content.hash != after.content.hash || resumed || (was.Refused != "" && is.Refused == "") {
			add(EventUpdated, "")
		}
		if added, removed := difference(before.content.skills, after.content.skills); len(added)+len(removed) > 0 {
			add(EventCapabilities, "")
			last := &events[len(events)-1]
			last.Added, last.Removed = added, removed
		}
	}
	if is.Refused != "" && (before.record == nil || was.Refused != is.Refused) {
		add(EventRefused, is.Refused)
	}
	return events
}

// turned reports whether an instance that was there has another state than before, this one.
func turned(was, is *Record, instance string, s State) bool {
	state := func(r *Record) State {
		if i := slices.IndexFunc(r.Instances, func(in Instance) bool { return in.ID == instance }); i >= 0 {
			return r.Instances[i].State
		}
		return ""
	}
	before := state(was)
	return before != "" && before != s && state(is) == s
}

// difference returns what only is has, and what only was has; both are sorted.
func difference(was, is []string) (added, removed []string) {
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) == 0 || (len(is) > 0 && is[0] < was[0]):
			added, is = append(added, is[0]), is[1:]
		case len(is) == 0 || was[0] < is[0]:
			removed, was = append(removed, was[0]), was[1:]
		default:
			was, is = was[1:], is[1:]
		}
	}
	return added, removed
}
