package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

// LateInstances returns how many instances of an agent are late, and may have ended.
func LateInstances(r *registry.Record, now time.Time) (n int) {
	for i := range r.Instances {
		if r.Instances[i].Late(now) {
			n++
		}
	}
	return n
}

// isSilent reports whether a heartbeat of all instances of an agent has not come.
func isSilent(r *registry.Record, now time.Time) bool {
	return len(r.Instances) > 0 && LateInstances(r, now) == len(r.Instances)
}

// SeenText returns when an agent was heard of.
func SeenText(r *registry.Record, now time.Time) string {
	if isSilent(r, now) {
		return Silence(now.Sub(r.LastSeen)) + " ago"
	}
	return cmp.Or(table.Ago(r.LastSeen, now), "not yet")
}

// Silence formats how long nothing was heard.
func Silence(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

// StateName returns the state of an agent for people. A well-known agent without instances is not running; whether it could is unknown.
func AgentState(r *registry.Record, now time.Time) string {
	switch {
	case r.State == registry.StateUnknown:
		return "not running"
	case r.State == registry.StateActive && isSilent(r, now):
		return "silent"
	}
	return string(r.State)
}
