package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	sweepEvery = 5 * time.Second
	// missed is how many heartbeats an instance may miss before it is taken for dead.
	missed = 3
	// minGrace is how long at least silence is not held against an instance after a pause of Cortex's own.
	minGrace = 90 * time.Second
	// leaseSlack is how long after the end of a lease the transport is waited for, which sees it sooner and better.
	leaseSlack = 5 * time.Second
)

// Sweep takes out the instances that have been silent for too long by now. When far more time has passed since the last Sweep
// than there should be between two, it was Cortex that was away: see Resume.
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
		if i < len(r.order) && r.order[i] == a {
			i++ // else it has gone, and another is in its place
		}
	}
	return events
}

// settle ends the reading of what the transport retains: of an instance that was kept and nobody waits for to be silent, it is
// the only sign of life.
func (r *Registry) settle() []Event {
	return r.removeAll(func(_ *agent, in *instance) bool { return in.lost && in.due.IsZero() })
}

// removeAll takes out the instances that have left, in order.
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

// look notices when the clock has gone on, or back, by more than can be between two sweeps.
func (r *Registry) look(now time.Time) {
	if !r.swept.IsZero() && now.Sub(r.swept).Abs() > 3*sweepEvery {
		r.cfg.Logger.Info("time has passed unseen: agents have a grace to be heard of", "by", now.Sub(r.swept))
		r.spare(now)
		r.swept = now
	}
}

// Pause says that nothing can be heard of agents from now on, as when the connection to the transport's server is lost. Until
// Resume no silence is held against anybody.
func (r *Registry) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	r.spare(r.now())
}

// Resume says that Cortex was away until now, whether Pause was called or not: whoever is there has one full grace to be heard
// of, 90 seconds, or three of its heartbeats, or its lease without any, when that is longer. It holds also when the transport
// reports the end of a lease in that time. Who says goodbye is gone at once.
func (r *Registry) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = false
	r.spare(r.now())
}

// spare gives everybody a grace; r.mu is held.
func (r *Registry) spare(now time.Time) {
	for _, a := range r.order {
		for _, in := range a.instances {
			in.spare(now)
		}
		a.shown = view{} // of when it expires
	}
	r.sightings.Add(1)
}

// goneEvent takes an instance off the board that the transport still retains.
func (r *Registry) goneEvent(agent, instance string, now time.Time) *transport.Event {
	return r.event(now, agent, &transport.Card{AgentID: agent, Instance: instance, Gone: transport.GoneExpired})
}
