package registry

import (
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. Each follows from comparing the state before and after a change. Every agent that is not well known is registered once and
// deregistered once, whatever its instances do in between.
const (
	// EventRegistered: the agent is present, since its first instance is, or it is well known.
	EventRegistered EventKind = "registered"
	// EventUpdated: the agent's card has changed, or it takes work again.
	EventUpdated EventKind = "updated"
	// EventCapabilities: its skills have changed, according to Added and Removed. It follows an EventUpdated.
	EventCapabilities EventKind = "capabilities-changed"
	// EventSeen: an instance was announced again without a change. It is sent only with Config.Seen.
	EventSeen EventKind = "seen"
	// EventDraining: an instance takes no new work; if it was the last one that did, neither does the agent.
	EventDraining EventKind = "draining"
	// EventJoined: another instance of the agent is present.
	EventJoined EventKind = "instance-joined"
	// EventLeft: an instance is gone, but the agent is not. It has a Reason.
	EventLeft EventKind = "instance-left"
	// EventDeregistered: the last instance is gone, and the agent with it. It has a Reason.
	EventDeregistered EventKind = "deregistered"
	// EventConflict warns that instances of one agent announce different cards: during an update, or when two agents have the same name by mistake. It
	// is sent once for each set of cards.
	EventConflict EventKind = "conflict"
	// EventRefused: the agent may not be given work, for Reason. An EventUpdated follows when it may be again.
	EventRefused EventKind = "refused"
)

// Reasons of EventLeft and EventDeregistered.
const (
	ReasonRequested = "requested"         // it said goodbye
	ReasonExpired   = "expired"           // its lease ended
	ReasonMissed    = "missed-heartbeats" // it was silent for three heartbeats, or for the grace after a pause of Cortex
)

// Event is a change of an agent.
type Event struct {
	Kind     EventKind
	Time     time.Time // by the registry's clock
	AgentID  string
	Instance string // the instance that caused it; "": none
	Reason   string // one of the reasons above, or a line of text for EventRefused
	// Added and Removed are ids of skills, sorted. Skills that exist before and after are in neither, even if they have changed.
	Added, Removed []string
	// Record is the agent after the event; its State is gone when it is deregistered.
	Record *Record
}

// Wire converts e to the form in which it is published and printed.
func (e Event) Wire() *transport.AgentEvent {
	return &transport.AgentEvent{
		Time: e.Time, Kind: string(e.Kind), AgentID: e.AgentID, Instance: e.Instance, State: string(e.Record.State), Reason: e.Reason,
		Added: e.Added, Removed: e.Removed, Instances: len(e.Record.Instances),
	}
}

// compare returns the events that follow from two views of an agent, the change of which an instance has caused.
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

// turned reports whether an instance that was present has changed to state s.
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

// difference returns the elements that are only in is, and those that are only in was; both are sorted.
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
