package decide

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Limits of an agent's own requests, unless a rule sets others.
const (
	defaultRequests = 30 // per minute
	burstShare      = 3  // one part in this many may come at once

	maxRates = 4096 // agents whose requests are counted; of more, the least recent are forgotten
)

// rates counts the turns that begin chains of agents, by agent. The counts are local to a process: each replica counts those of its own
// conversations. It is safe for concurrent use.
type rates struct {
	mu      sync.Mutex
	byAgent recent.Cache[string, *rate.Limiter]
}

// admit returns why an agent may not make a request at time now, or "". perMinute is the limit of a rule; 0 is no such rule.
func (r *rates) admit(agent string, perMinute int, now time.Time) string {
	perMinute = cmp.Or(perMinute, defaultRequests)
	limit, burst := rate.Limit(float64(perMinute)/60), max(1, perMinute/burstShare)
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.byAgent.Get(agent)
	if !ok {
		p = rate.NewLimiter(limit, burst)
		for r.byAgent.Put(agent, p, 1); r.byAgent.Len() > maxRates; r.byAgent.Drop() {
		}
	}
	if p.Limit() != limit { // the rule has changed
		p.SetLimitAt(now, limit)
		p.SetBurstAt(now, burst)
	}
	if p.AllowN(now, 1) {
		return ""
	}
	return fmt.Sprintf("Too many requests: of itself, %s may ask for %d things a minute, and for %d of them at once, with all that comes of it. "+
		"Ask again later.", prompt.Clean(agent, maxAsked), perMinute, burst)
}

// An agent that asks too often is refused in one of two ways. In a conversation that it began, the refusal is an entry of the log (overOwnRate).
// In a conversation of somebody else, and in a new one, the refusal is not logged (OverRate), so that an agent cannot fill the logs of others
// or begin logs with refusals. Each request is counted by one of the two.

// OverRate returns why the request e, made by an agent or caused by one, cannot be made in a conversation that this agent did not begin, or "".
func (m *Maker) OverRate(conv *conversation.Conversation, e *transport.Event) string {
	msg, ok := transport.Request(e)
	if !ok || !conversation.IsAgent(e.From) {
		return ""
	}
	agent := e.From
	if parent := conv.ParentOf(e, msg); parent != nil {
		agent = conv.Chain(parent).Agent
	}
	if agent == "" || agent == conv.Owner {
		return ""
	}
	return m.overRate(agent)
}

func (m *Maker) overRate(agent string) string {
	why := m.rates.admit(agent, m.policy().Requests(agent), m.cfg.Now())
	if why != "" {
		m.denied.Rate.Add(1)
	}
	return why
}

// overOwnRate returns why turn, which entry begins, cannot be made by the agent that began the conversation, or "".
func (m *Maker) overOwnRate(conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) string {
	agent := conv.Chain(turn).Agent
	if agent == "" || agent != conv.Owner || entry.Seq == 1 || turn.Seq != entry.Seq {
		return ""
	}
	return m.overRate(agent)
}
