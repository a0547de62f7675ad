package cortex_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// with returns the world's agents, with cards that say that they take part in a pattern.
func with(pattern string) func(string) []prompt.Agent {
	agents := offered("")
	for i := range agents {
		agents[i].Card = agentcard.Attach(agents[i].Card, &agentcard.Spec{Patterns: []string{pattern}})
	}
	return func(string) []prompt.Agent { return agents }
}

// sold is a decider that delegates to alpha, and answers with the results.
var sold = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
	}
	return respond(results(t))
})

// bidder answers tenders; nil: it says nothing.
type bidder func(t *transport.Tender) *transport.Bid

func bids(confidence float64) bidder {
	return func(*transport.Tender) *transport.Bid { return &transport.Bid{Confidence: confidence} }
}

// market has the agents answer tenders from now on.
func (w *world) market(bidders map[string]bidder) {
	for _, id := range agentIDs {
		w.listen(transport.Control("", id), func(e *transport.Event) {
			tender, ok := e.Payload.(*transport.Tender)
			if !ok || bidders[id] == nil {
				return
			}
			if b := bidders[id](tender); b != nil {
				if b.Tender == "" {
					b.Tender = tender.ID
				}
				w.bid(id, b)
			}
		})
	}
}

func (w *world) bid(from string, b *transport.Bid) {
	err := w.bus.Publish(w.t.Context(), transport.Control("", transport.Cortex), &transport.Event{ID: "bid-" + from + "-" + b.Tender, From: from, ContextID: theContext, Payload: b})
	if err != nil && !errors.Is(err, transport.ErrInvalid) {
		w.t.Error(err)
	}
}

func (w *world) tenders() (all []*transport.Tender) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ctl {
		if t, ok := e.Payload.(*transport.Tender); ok {
			all = append(all, t)
		}
	}
	return all
}

// auctions returns what the log has of auctions.
func (w *world) auctions() (all []conversation.Auction) {
	for _, e := range entries(w.t, w.store) {
		if e.Patterns != nil {
			all = append(all, e.Patterns.Auctions...)
		}
	}
	return all
}

func TestAuction(t *testing.T) {
	const late = "no bid came in time"
	for _, test := range []struct {
		name    string
		bidders map[string]bidder
		winner  string
		why     map[string]string
	}{
		{"best", map[string]bidder{"alpha": bids(0.5), "beta": bids(0.9), "gamma": bids(0.7)}, "beta", nil},
		{"nobody bids", nil, "alpha", map[string]string{"alpha": late, "beta": late, "gamma": late}},
		{"the chosen one does not", map[string]bidder{"gamma": bids(0)}, "gamma", map[string]string{"alpha": late, "beta": late}},
		{"declined", map[string]bidder{"alpha": bids(0.1), "beta": func(*transport.Tender) *transport.Bid {
			return &transport.Bid{Confidence: 1, Declined: true}
		}}, "alpha", map[string]string{"beta": "it declined", "gamma": late}},
		{"negative", map[string]bidder{"alpha": bids(0.1), "beta": func(*transport.Tender) *transport.Bid {
			return &transport.Bid{Confidence: 1, Cost: -1}
		}}, "alpha", map[string]string{"beta": "cost is -1, it must be from 0 to 1e+06", "gamma": late}},
		{"huge", map[string]bidder{"alpha": bids(0.1), "beta": bids(1e308), "gamma": func(*transport.Tender) *transport.Bid {
			return &transport.Bid{Confidence: 1, Seconds: 1e308}
		}}, "alpha", map[string]string{"beta": "confidence is 1e+308, it must be from 0 to 1", "gamma": "seconds is 1e+308, it must be from 0 to 604800"}},
		{"not a number", map[string]bidder{"alpha": bids(0.1), "beta": bids(math.NaN()), "gamma": bids(math.Inf(1))}, "alpha", map[string]string{"beta": late, "gamma": late}},
		{"of no tender", map[string]bidder{"alpha": bids(0.1), "beta": func(*transport.Tender) *transport.Bid {
			return &transport.Bid{Tender: "another", Confidence: 1}
		}}, "alpha", map[string]string{"beta": late, "gamma": late}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, sold)
				w.stop()
				w.start(cortex.Config{Decider: sold, Agents: with(agentcard.MarketBidding)})
				w.market(test.bidders)
				w.serveAgents()
				began := time.Now()
				w.say("m1", "go")
				pass(2 * time.Second)
				w.wantAnswer("m1", test.winner+" COMPLETED did a; ")
				log := entries(t, w.store)
				if took := log[0].Sent.Sub(began); took > time.Second {
					t.Errorf("the decision took %v, want a second at most", took)
				}
				all := w.auctions()
				if len(all) != 1 || all[0].Chosen != "alpha" || all[0].Winner != test.winner || len(all[0].Bids) != 3 {
					t.Fatalf("the log has the auctions %+v, want one that %s wins", all, test.winner)
				}
				got := map[string]string{}
				for _, b := range all[0].Bids {
					if b.Why != "" {
						got[b.Agent] = b.Why
					}
				}
				if d := cmp.Diff(test.why, got); d != "" && len(test.why)+len(got) > 0 {
					t.Errorf("bids that do not count (-want +got):\n%s", d)
				}
				w.wantFold()
			})
		})
	}
}

// TestForgedBid has beta bid in the name of gamma, whose tender it knows, and again for itself.
func TestForgedBid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sold)
		w.stop()
		w.start(cortex.Config{Decider: sold, Agents: with(agentcard.MarketBidding)})
		w.market(map[string]bidder{"alpha": bids(0.4), "beta": bids(0.1), "gamma": func(tender *transport.Tender) *transport.Bid {
			w.bid("beta", &transport.Bid{Tender: tender.ID, Confidence: 1})
			return nil
		}})
		w.serveAgents()
		w.say("m1", "go")
		pass(2 * time.Second)
		w.wantAnswer("m1", "alpha COMPLETED did a; ")
		ids := map[string]bool{}
		for _, tender := range w.tenders() {
			ids[tender.ID] = true
		}
		if len(ids) != 3 {
			t.Errorf("%d ids of tenders, want one for each agent", len(ids))
		}
	})
}

// TestLateBid has a bid come after the decision: it changes nothing, and neither does one more of an agent that has bid.
func TestLateBid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sold)
		w.stop()
		w.start(cortex.Config{Decider: sold, Agents: with(agentcard.MarketBidding)})
		w.market(map[string]bidder{"alpha": bids(0.4), "beta": bids(0.1)})
		w.say("m1", "go")
		pass(2 * time.Second)
		for _, tender := range w.tenders() {
			for _, id := range agentIDs {
				w.bid(id, &transport.Bid{Tender: tender.ID, Confidence: 1})
			}
		}
		pass(time.Second)
		if all := w.auctions(); len(all) != 1 || all[0].Winner != "alpha" {
			t.Errorf("auctions %+v, want that of alpha", all)
		}
		if n := len(w.tasksOf("alpha")); n != 1 {
			t.Errorf("alpha got %d tasks, want 1", n)
		}
	})
}

// TestNoAuction are delegations for which nobody is asked to bid.
func TestNoAuction(t *testing.T) {
	market := with(agentcard.MarketBidding)
	one := func(tenant string) []prompt.Agent {
		return append(slices.Clone(market(tenant)[:1]), offered(tenant)[1:]...)
	}
	rules := func(text string) func() *policy.Policy {
		p, err := policy.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return func() *policy.Policy { return p }
	}
	for _, test := range []struct {
		name string
		cfg  cortex.Config
		said string
	}{
		{"no card says so", cortex.Config{Agents: offered}, "go"},
		{"one card says so", cortex.Config{Agents: one}, "go"},
		{"the user names the agent", cortex.Config{Agents: market}, "let alpha go"},
		{"a rule closes it", cortex.Config{Agents: market, Policy: rules("rules: [{agents: [alpha], bids: false}]")}, "go"},
		{"rules leave one", cortex.Config{Agents: market, Policy: rules("rules: [{agents: [beta], bids: false}, {agents: [gamma], allow: false}]")}, "go"},
		{"it needs a yes", cortex.Config{Agents: market, Policy: rules("rules: [{agents: [alpha], confirm: true}]")}, "go"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, sold)
				w.stop()
				test.cfg.Decider = sold
				w.start(test.cfg)
				w.market(map[string]bidder{"beta": bids(1), "gamma": bids(1)})
				w.say("m1", test.said)
				pass(2 * time.Second)
				if all := w.tenders(); len(all) > 0 {
					t.Errorf("%d agents were asked to bid, want none", len(all))
				}
				if n := len(w.tasksOf("beta")) + len(w.tasksOf("gamma")); n > 0 {
					t.Errorf("others got %d tasks", n)
				}
			})
		})
	}
}

// TestBoasterLoses has alpha state full confidence and fail, and beta state less and do its tasks.
func TestBoasterLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sold)
		w.stop()
		agents := with(agentcard.MarketBidding)("")[:2]
		w.start(cortex.Config{Decider: sold, Agents: func(string) []prompt.Agent { return agents }})
		w.market(map[string]bidder{"alpha": bids(1), "beta": bids(0.8)})
		w.heed = func(id string, e *transport.Event) {
			state := a2a.TaskStateCompleted
			if id == "alpha" {
				state = a2a.TaskStateFailed
			}
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), resultEvent("r-"+string(e.TaskID), id, e.TaskID, state, "x")); err != nil {
				t.Error(err)
			}
		}
		var winners []string
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			w.say(id, "go")
			pass(2 * time.Second)
			all := w.auctions()
			winners = append(winners, all[len(all)-1].Winner)
		}
		if want := "alpha beta beta beta"; strings.Join(winners, " ") != want {
			t.Errorf("the winners are %s, want %s", winners, want)
		}
		last := w.auctions()[3]
		if b := last.Bids[0]; b.Agent != "beta" || b.Done < 1.9 || last.Bids[1].Failed < 0.9 {
			t.Errorf("the last bids are %+v, want them with what was seen", last.Bids)
		}
	})
}
