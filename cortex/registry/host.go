package registry

import (
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// host is a process that many agents run in. They share its heartbeat.
type host struct {
	key       hostKey
	heartbeat time.Duration
	seen      time.Time // of its latest heartbeat; zero: its agents came before it
	due       time.Time // when it is considered gone without another heartbeat
}

type hostKey struct{ id, instance string }

func (h *host) silent(now time.Time) bool { return !now.Before(h.due) }

// spare gives the host a full grace from now on, because the silence may be due to Cortex.
func (h *host) spare(now time.Time) { h.due = now.Add(max(minGrace, missed*h.heartbeat)) }

// hostOf returns the host that an instance runs in, or nil. A host that is not yet known gets a grace, since its own card may come after those of its
// agents; it is the instance's alone until then, so that only a host itself takes a place among the hosts. r.mu is held.
func (r *Registry) hostOf(c *transport.Card, now time.Time) *host {
	if c.Host == "" {
		return nil
	}
	key := hostKey{c.Host, c.Instance}
	if h := r.hosts[key]; h != nil {
		return h
	}
	return &host{key: key, due: now.Add(minGrace)}
}

// dropHost forgets a host. r.mu is held.
func (r *Registry) dropHost(h *host) {
	if r.hosts[h.key] != h {
		return
	}
	delete(r.hosts, h.key)
	if r.hostsOf[h.key.id]--; r.hostsOf[h.key.id] == 0 {
		delete(r.hostsOf, h.key.id)
	}
}

// hostHeard records a heartbeat of a host, and so of the agents that run in it.
func (r *Registry) hostHeard(c *transport.Card, e *transport.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hostsFull(c) {
		r.ignore(c)
		return
	}
	now := r.now()
	h := r.hostOf(c, now)
	if r.hosts[h.key] == nil {
		r.hosts[h.key] = h
		r.hostsOf[h.key.id]++
	}
	h.heartbeat = c.Heartbeat
	h.spare(now)
	if c.Heartbeat > 0 && r.isSynced() {
		h.due = now.Add(max(missed*c.Heartbeat, time.Second))
	}
	h.seen = r.heardAt(e, now)
	for _, a := range r.order {
		for _, in := range a.instances {
			if in.host == nil || in.host.key != h.key {
				continue
			}
			if in.host = h; h.seen.After(in.seen) { // an agent that has just come was announced after it
				a.hear(in, h.seen)
			}
		}
	}
	r.sightings.Add(1)
}

// hostGone removes the agents of a host that has said goodbye or whose lease has ended. During a grace the end of a lease has no effect. r.mu is
// held.
func (r *Registry) hostGone(h *host, why transport.GoneReason, now time.Time) (events []Event) {
	reason := ReasonRequested
	if why == transport.GoneExpired {
		if !h.silent(now) {
			return nil // the sweep decides later
		}
		reason = ReasonMissed
	}
	r.dropHost(h)
	for i := 0; i < len(r.order); {
		a := r.order[i]
		if in := a.instances[h.key.instance]; in != nil && in.host == h {
			if r.announces() && !in.lost {
				r.announcer.say(r.goneEvent(a.id, in.id, now))
			}
			events = append(events, r.remove(a, in, reason, now)...)
		}
		if i < len(r.order) && r.order[i] == a {
			i++
		}
	}
	return events
}
