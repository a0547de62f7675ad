package cortex

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Fold returns the fold of a conversation that o has in its cache, as a snapshot; nil when it has none.
func (o *Orchestrator) Fold(contextID string) ([]byte, error) {
	o.cache.mu.Lock()
	defer o.cache.mu.Unlock()
	el := o.cache.byKey[conversationKey{o.cfg.Tenant, contextID}]
	if el == nil {
		return nil, nil
	}
	return el.Value.(*loaded).Snapshot()
}

// SameWhenLogged returns d as JSON would give it back, or nil when only JSON itself knows.
func SameWhenLogged(d *llm.Decision) *llm.Decision { return sameWhenLogged(d) }

// Rates are how often agents ask.
type Rates = rates

// NewRates returns Rates of nobody.
func NewRates() *Rates { return newRates() }

// Take is what a message of an agent does; Len is how many agents are known.
func (r *Rates) Take(agent string, now time.Time) string { return r.take(agent, 0, now) }
func (r *Rates) Len() int                                { return len(r.byAgent) }

// Offers is what an Orchestrator keeps of the agents that were there last.
type Offers = offers

// Trim is what a decision does with the agents that are there.
func (o *Offers) Trim(agents []prompt.Agent) []prompt.Agent { return o.trim(agents) }

// Unstored is what an Orchestrator keeps of entries that could not be stored.
type Unstored = unstored

// NewUnstored returns an empty Unstored.
func NewUnstored() *Unstored { return newUnstored() }

// Put keeps an entry.
func (u *Unstored) Put(contextID string, after conversation.Version, e *conversation.Entry, now time.Time) {
	u.put(conversation.NewConversation("", contextID), after, e, now)
}

// Full reports whether there is no room.
func (u *Unstored) Full(now time.Time) bool { return u.full(now) }

// Len is how many entries are kept.
func (u *Unstored) Len() int { return u.order.Len() }

// KeepRefusal notes that a message in the conversation c1 was refused.
func (o *Orchestrator) KeepRefusal(ctx context.Context, from, id string) error {
	return o.keepRefusal(ctx, o.cfg.Store.(Notes), &transport.Event{ContextID: "c1", From: from, ID: id}, refusalNote{Time: o.cfg.Now(), Text: "no"})
}

// Permit is what a policy leaves of the agents for whoever asks.
func Permit(p *policy.Policy, from string, agents []prompt.Agent) int {
	o := &Orchestrator{cfg: Config{Policy: func() *policy.Policy { return p }}, taskLimits: newTaskLimits()}
	d := &decision{o: o, conv: conversation.NewConversation("", "c"), turn: &conversation.Turn{From: from}, entry: new(conversation.Entry), all: agents}
	d.permit()
	return len(d.agents)
}

// Waiting is how much waits where nothing is written: of n lessons about one agent, of n about as many, and of n notes that others
// have changed.
func Waiting(n int) (ofOne, ofAll, changed int) {
	type store = Notes // so that the field does not hide the method
	s := newLearner(&Config{Logger: slog.New(slog.DiscardHandler), Router: router.New(nil)})
	s.notes = struct{ store }{}
	for i := range n {
		s.offer("one", &lesson{learned: []router.Evidence{{ID: fmt.Sprint(i)}}})
	}
	ofOne = s.size
	for i := range n {
		s.offer(fmt.Sprint(i), &lesson{wrong: []string{"x"}})
		s.forget(&transport.Event{ID: fmt.Sprint(i)}, &transport.Forget{AgentID: fmt.Sprint(i)})
		s.forget(&transport.Event{ID: fmt.Sprint(i), ContextID: fmt.Sprint(i)}, &transport.Forget{})
	}
	s.forget(&transport.Event{ID: "e"}, &transport.Forget{AgentID: "no id"})
	sum := 0
	for _, p := range s.pending {
		sum += p.size()
	}
	return ofOne, sum, len(s.changed) + len(s.erased)
}

// GivenUp is what the transport calls before e becomes a dead letter.
func (o *Orchestrator) GivenUp(ctx context.Context, e *transport.Event, reason error) error {
	return o.givenUp(ctx, e, reason)
}
