package registry

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// judge determines whether an agent may be given work. With Config.StrictAbilities the agent then claims its abilities; freed are those that it had
// claimed and that others can claim now.
func (r *Registry) judge(a *agent) (freed []string) {
	had := a.claimed
	for _, ability := range had {
		delete(r.claims, ability)
	}
	a.claimed, a.refused = nil, r.refusal(a)
	if r.cfg.StrictAbilities && a.there() && a.refused == "" {
		_, c := a.speaker()
		a.claimed = c.skills
		for _, ability := range a.claimed {
			r.claims[ability] = a.id
		}
	}
	for _, ability := range had {
		if r.claims[ability] != a.id {
			freed = append(freed, ability)
		}
	}
	return freed
}

// judgeAll judges agents in the order in which they registered.
func (r *Registry) judgeAll(agents []*agent) {
	slices.SortStableFunc(agents, func(x, y *agent) int {
		return cmp.Or(x.registered.Compare(y.registered), cmp.Compare(x.id, y.id))
	})
	for _, a := range agents {
		r.judge(a)
		a.shown = view{}
	}
}

// reconsider judges again the refused agents that have a freed ability.
func (r *Registry) reconsider(freed []string, now time.Time) (events []Event) {
	var refused []*agent
	before := map[*agent]view{}
	for _, a := range r.order {
		if a.refused != "" && a.hasAny(freed) {
			refused = append(refused, a)
			before[a] = a.view()
		}
	}
	r.judgeAll(refused)
	for _, a := range refused {
		events = append(events, compare(before[a], a.view(), "", "", now)...)
	}
	return events
}

// hasAny reports whether one of these abilities is on the agent's present card.
func (a *agent) hasAny(abilities []string) bool {
	_, c := a.speaker()
	return slices.ContainsFunc(abilities, func(ability string) bool {
		_, has := slices.BinarySearch(c.skills, ability)
		return has
	})
}

// refusal returns why an agent may not be given work although it is present, or "".
func (r *Registry) refusal(a *agent) string {
	_, c := a.speaker()
	if scope := c.spec.TenantScope; scope != "" && scope != r.cfg.Tenant {
		return fmt.Sprintf("its tenant_scope is %q, and this is %s", shorten.Marked(scope, 100, "…"), r.tenantName())
	}
	for _, ability := range c.skills {
		if owner, ok := r.claims[ability]; ok && owner != a.id {
			return fmt.Sprintf("its ability %q is that of %s already, and abilities are strict here", shorten.Marked(ability, 100, "…"), shorten.Marked(owner, 100, "…"))
		}
	}
	return ""
}
