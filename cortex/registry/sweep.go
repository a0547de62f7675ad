package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	sweepEvery = 5 * time.Second
	// missed is how many heartbeats an instance may miss before it is considered gone.
	missed = 3
	// minGrace is the shortest time for which silence is tolerated after a pause of Cortex.
	minGrace = 90 * time.Second
	// returnsIn is the time within which an agent that is there is heard of after a restart of Cortex that lasted so long that the transport has no card
	// of it any more: it has a heartbeat to make up for then, and sends it as soon as it is connected.
	returnsIn = 15 * time.Second
	// leaseSlack is how long after the end of a lease the registry waits for the transport to report it, which is more accurate.
	leaseSlack = 5 * time.Second
)

// Sweep removes the instances that have been silent for too long at time now. When far more time has passed since the last Sweep than its interval,
// Cortex itself was away: see Resume.
func (r *Registry) Sweep(now time.Time) {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.report(r.sweep(now.Round(0)))
}

func (r *Registry) sweep(now time.Time) (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look(now)
	r.swept = now
	if r.paused {
		return nil
	}
	var silent []*instance
	for i := 0; i < len(r.order); {
		a := r.order[i]
		silent = silent[:0]
		for _, in := range a.instances {
			if in.silent(now) {
				silent = append(silent, in)
			}
		}
		slices.SortFunc(silent, func(x, y *instance) int { return cmp.Compare(x.id, y.id) })
		for _, in := range silent {
			if r.announces() && !in.lost {
				r.announcer.say(r.goneEvent(a.id, in.id, now))
			}
			events = append(events, r.remove(a, in, in.silence(), now)...)
		}
		events = append(events, r.missing(a, now)...)
		if i < len(r.order) && r.order[i] == a {
			i++ // otherwise the agent is gone, and another has its index
		}
	}
	for _, h := range r.hosts {
		if h.silent(now) {
			r.dropHost(h)
		}
	}
	return events
}

// missing gives no new work to instances of an agent that have not returned since Cortex was restarted. They keep the work that they have until their grace ends.
func (r *Registry) missing(a *agent, now time.Time) (events []Event) {
	for _, in := range a.instances {
		if !in.lost || in.rests() || in.recalled.IsZero() || now.Sub(in.recalled) < returnsIn {
			continue
		}
		before := a.view()
		in.absent = true
		events = append(events, r.changed(a, before, in.id, "", now)...)
	}
	return events
}

// settle ends the reading of retained cards: it removes restored instances without a retained card that nothing else would remove, since they have
// neither heartbeat nor lease.
func (r *Registry) settle() []Event {
	return r.removeAll(func(_ *agent, in *instance) bool { return in.lost && in.due.IsZero() })
}

// removeAll removes the instances for which left is true, in order.
func (r *Registry) removeAll(left func(*agent, *instance) bool) (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, a := range slices.Clone(r.order) {
		for _, known := range a.view().record.Instances {
			if in := a.instances[known.ID]; left(a, in) {
				events = append(events, r.remove(a, in, ReasonRequested, now)...)
			}
		}
	}
	return events
}

// look detects that the clock has advanced or gone back by more than the interval of two sweeps.
func (r *Registry) look(now time.Time) {
	if !r.swept.IsZero() && now.Sub(r.swept).Abs() > 3*sweepEvery {
		r.cfg.Logger.Info("time has passed unseen: agents have a grace to be heard of", "by", now.Sub(r.swept))
		r.spare(now)
		r.swept = now
	}
}

// Pause says that no agent can be heard from now on, such as when the connection to the server is lost. Silence is tolerated until Resume.
func (r *Registry) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	r.spare(r.now())
}

// Resume says that Cortex was away until now, whether or not Pause was called: every present instance gets a full grace to be heard, of 90 seconds,
// three of its heartbeats, or, without heartbeats, its lease, whichever is longest. The grace also applies when the transport reports the end of a
// lease. An instance that says goodbye is removed at once.
func (r *Registry) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = false
	r.spare(r.now())
}

// spare gives all instances a grace; r.mu is held.
func (r *Registry) spare(now time.Time) {
	for _, a := range r.order {
		for _, in := range a.instances {
			in.spare(now)
			if in.host != nil { // which may not be known yet
				in.host.spare(now)
			}
		}
		a.shown = view{} // its expiry has changed
	}
	for _, h := range r.hosts {
		h.spare(now)
	}
	r.sightings.Add(1)
}

// goneEvent returns the event that removes an instance from the cards that the transport retains.
func (r *Registry) goneEvent(agent, instance string, now time.Time) *transport.Event {
	return r.event(now, agent, &transport.Card{AgentID: agent, Instance: instance, Gone: transport.GoneExpired})
}
