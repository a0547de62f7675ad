package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of auctions.
const (
	bidWait    = time.Second // for all bids of a decision together
	maxBidders = 8           // agents that are asked about one delegation
)

// bids reports whether an agent takes part in auctions.
func bids(card *a2a.AgentCard) bool { return agentcard.TakesPart(card, agentcard.MarketBidding) }

// tenders are the tenders whose bids are waited for, by their ids. It is safe for concurrent use.
type tenders struct {
	mu   sync.Mutex
	open map[string]*tender
}

// tender is an agent's part of an auction.
type tender struct {
	agent string
	bid   *transport.Bid // nil: none yet
	each  chan<- struct{}
}

// Bid takes the bid of an agent. It ignores bids for tenders that are over or unknown, that another agent was asked in, or that have one already.
func (m *Maker) Bid(from string, b *transport.Bid) {
	m.tenders.mu.Lock()
	defer m.tenders.mu.Unlock()
	t := m.tenders.open[b.Tender]
	if t == nil || t.agent != from || t.bid != nil {
		return
	}
	t.bid = b
	t.each <- struct{}{} // it has room for all
}

// lot is a delegation that agents are asked to bid for.
type lot struct {
	del     *llm.Delegation
	bidders []*prompt.Agent
	tenders []*tender
	ids     []string
}

// auction has the agents that take part in auctions bid for the delegations of a decision, and gives each to the winner. It asks when the agent that was
// decided for takes part, the user has not named it, and another one takes part that has the same skill, accepts the same input, and may be given work
// without a consent. It waits until all have answered, for bidWait at most.
func (d *decision) auction(ctx context.Context, decided *llm.Decision) {
	d.auctions = nil
	if !decided.Kind.Delegates() {
		return
	}
	var lots []*lot
	for i := range decided.Delegations {
		if l := d.lot(&decided.Delegations[i]); l != nil {
			lots = append(lots, l)
		}
	}
	if len(lots) == 0 {
		return
	}
	d.ask4bids(ctx, lots)
	for _, l := range lots {
		d.auctions = append(d.auctions, d.close(l))
	}
}

// lot returns the auction of a delegation, or nil when it has none.
func (d *decision) lot(del *llm.Delegation) *lot {
	chosen, ok := catalog.Find(d.agents, del.Agent)
	if w := d.conv.Tasks[a2a.TaskID(del.ID)]; !ok || w != nil || !bids(chosen.Card) || d.named(&chosen) {
		return nil
	}
	skill := del.SkillOf(chosen.Card)
	if skill == "" || !d.policy.Bids(chosen.ID) || d.confirms(chosen.ID, skill) {
		return nil
	}
	others := d.best(d.agents, skill, maxBidders-1, func(a *prompt.Agent) bool {
		return a.ID != chosen.ID && a.Seen && bids(a.Card) && d.policy.Bids(a.ID) && d.busy(a.ID, 1) == "" && d.permits(a.ID, skill)
	}, func(a *prompt.Agent) bool { return d.takes(a, del, skill) })
	if len(others) == 0 {
		return nil
	}
	l := &lot{del: del, bidders: append([]*prompt.Agent{&chosen}, others...)}
	del.Skill = skill
	return l
}

// takes reports whether an agent can do a delegation of a skill in place of the one that it names, without a consent.
func (d *decision) takes(a *prompt.Agent, del *llm.Delegation, skill string) bool {
	return d.does(a, &llm.Delegation{ID: "1", Agent: a.ID, Skill: skill, Task: del.Task, Input: del.Input}) && !d.confirms(a.ID, skill)
}

// permits reports whether the rules let the user have a skill of an agent without a consent. It is quick, unlike [decision.takes].
func (d *decision) permits(agent, skill string) bool {
	return d.veto(agent, skill) == "" && !d.confirms(agent, skill)
}

// does reports whether a delegation to an agent is possible.
func (d *decision) does(a *prompt.Agent, del *llm.Delegation) bool {
	one := &llm.Turn{Input: prompt.Input{Agents: []prompt.Agent{*a}}, Veto: d.veto}
	return llm.Check(one, &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{*del}}) == nil
}

// maxFitting bounds how many agents are looked at to find those that can do what another was decided for. There may be thousands that state the same skill,
// each with schemas of its own on a card of 64 KiB.
const maxFitting = 256

// best returns at most most of the agents that have a skill and that may be given work: those that fit, the most confident first. fits, which may take a
// while, is asked of the most confident ones only.
func (d *decision) best(agents []prompt.Agent, skill string, most int, may, fits func(*prompt.Agent) bool) (best []*prompt.Agent) {
	type candidate struct {
		*prompt.Agent
		confidence float64
	}
	var all []candidate
	for i := range agents {
		if a := &agents[i]; a.Card != nil && agentcard.HasSkill(a.Card, skill) && may(a) {
			all = append(all, candidate{a, d.confidence(a, skill)})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.confidence, a.confidence) })
	for i := 0; i < min(len(all), maxFitting) && len(best) < most; i++ {
		if fits(all[i].Agent) {
			best = append(best, all[i].Agent)
		}
	}
	return best
}

// confidence returns how likely an agent does a task of a skill, by its card and its record.
func (d *decision) confidence(a *prompt.Agent, skill string) float64 {
	stated := confidenceUnset
	if c := agentcard.ConfidenceOf(a.Card, skill); c != nil {
		stated = *c
	}
	return expected(stated, d.m.record(a.ID, skill))
}

func (m *Maker) record(agent, skill string) learn.Record {
	if m.cfg.Record == nil {
		return learn.Record{}
	}
	return m.cfg.Record(agent, skill)
}

// named reports whether the user's message names an agent: then nobody else gets what is meant for it.
func (d *decision) named(a *prompt.Agent) bool {
	return names(d.turn.User, a.ID) || names(d.turn.User, a.Card.Name)
}

// ask4bids sends the tenders and waits for the bids.
func (d *decision) ask4bids(ctx context.Context, lots []*lot) {
	asked := 0
	for _, l := range lots {
		asked += len(l.bidders)
	}
	each := make(chan struct{}, asked)
	m := d.m
	m.tenders.mu.Lock()
	for _, l := range lots {
		for _, a := range l.bidders {
			id := m.cfg.NewID()
			t := &tender{agent: a.ID, each: each}
			l.tenders, l.ids = append(l.tenders, t), append(l.ids, id)
			m.tenders.open[id] = t
		}
	}
	m.tenders.mu.Unlock()
	defer func() {
		m.tenders.mu.Lock()
		defer m.tenders.mu.Unlock()
		for _, l := range lots {
			for _, id := range l.ids {
				delete(m.tenders.open, id)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, bidWait)
	defer cancel()
	until := m.cfg.Now().Add(bidWait)
	for _, l := range lots {
		for i, a := range l.bidders {
			err := m.cfg.Transport.Publish(ctx, transport.Control(d.conv.Tenant, a.ID), &transport.Event{
				ID: m.cfg.NewID(), Time: m.cfg.Now(), From: transport.Cortex, Tenant: d.conv.Tenant, ContextID: d.conv.ContextID,
				Traceparent: d.turn.Trace.Parent, Tracestate: d.turn.Trace.State,
				Payload: &transport.Tender{ID: l.ids[i], Skill: l.del.Skill, Task: conversation.Truncate(l.del.Task, transport.MaxTender-len(" […]")), Until: until},
			})
			if err != nil {
				m.log.DebugContext(ctx, "no bid asked for", "context_id", d.conv.ContextID, "agent", a.ID, "err", err)
			}
		}
	}
	for range asked {
		select {
		case <-each:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the auction of a delegation, which the winner gets.
func (d *decision) close(l *lot) conversation.Auction {
	won := conversation.Auction{Delegation: l.del.ID, Chosen: l.del.Agent}
	records := map[string]learn.Record{}
	d.m.tenders.mu.Lock()
	for i, a := range l.bidders {
		b := conversation.Bid{Agent: a.ID}
		switch got := l.tenders[i].bid; {
		case got == nil:
			b.Why = "no bid came in time"
		case got.Declined:
			b.Why = "it declined"
		case got.Check() != nil:
			b.Why = prompt.Clean(got.Check().Error(), conversation.MaxWhy)
		default:
			b.Confidence, b.Cost, b.Seconds = got.Confidence, got.Cost, got.Seconds
		}
		won.Bids = append(won.Bids, b)
		records[a.ID] = d.m.record(a.ID, l.del.Skill)
	}
	d.m.tenders.mu.Unlock()
	won.Winner = award(won.Chosen, won.Bids, records)
	l.del.Agent = won.Winner
	return won
}

// patterns returns what the entry records of auctions and swarms; nil when there were none.
func (d *decision) patterns() *conversation.Patterns {
	if len(d.auctions) == 0 && d.round == nil && d.ended == "" {
		return nil
	}
	p := &conversation.Patterns{Auctions: d.auctions, Swarm: d.round, Ended: d.ended}
	if b, err := json.Marshal(p); err == nil { // as the log has it
		p = new(conversation.Patterns)
		_ = json.Unmarshal(b, p)
	}
	return p
}
