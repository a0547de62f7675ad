package decide

import (
	"cmp"
	"math"
	"slices"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
)

// Weights of bids. What is stated counts as much as statedWeight tasks that were seen.
const (
	statedWeight = 2
	costWeight   = 0.2 // of the most expensive bid, against the cheapest
	timeWeight   = 0.1 // of the slowest bid, against the fastest
)

// expected returns how likely an agent does a task, that states this confidence and has this record.
func expected(stated float64, r learn.Record) float64 {
	return (stated*statedWeight + r.Done) / (statedWeight + r.Done + r.Failed)
}

// award scores bids, sorts them, and returns the winner; chosen is the agent that was decided for before. A bid with a Why counts for nothing; when no bid
// counts, chosen wins. The score is how likely the agent does the task, less what cost and time take off, each in relation to the least bid: so one
// absurd bid changes no other's score by more than the weights. It follows from its arguments alone.
func award(chosen string, bids []conversation.Bid, records map[string]learn.Record) (winner string) {
	cost, seconds := map[string]float64{}, map[string]float64{}
	for i := range bids {
		b := &bids[i]
		r := records[b.Agent]
		b.Done, b.Failed = r.Done, r.Failed
		if b.Why != "" {
			continue
		}
		b.Score = expected(b.Confidence, r)
		cost[b.Agent] = (b.Cost*statedWeight + r.Cost) / (statedWeight + r.Done)
		if seconds[b.Agent] = r.Seconds / max(r.Done, 1); b.Seconds > 0 {
			seconds[b.Agent] = (b.Seconds*statedWeight + r.Seconds) / (statedWeight + r.Done)
		}
	}
	cheapest, fastest := least(cost), leastPositive(seconds)
	for i := range bids {
		b := &bids[i]
		if b.Why != "" {
			continue
		}
		if c := cost[b.Agent]; c > 0 {
			b.Score -= costWeight * (1 - cheapest/c)
		}
		switch t := seconds[b.Agent]; {
		case t > 0:
			b.Score -= timeWeight * (1 - fastest/t)
		case fastest > 0: // it says nothing, and others do
			b.Score -= timeWeight
		}
		b.Score = math.Round(b.Score*1e6) / 1e6
	}
	slices.SortFunc(bids, func(a, b conversation.Bid) int {
		byWhy := cmp.Compare(count(a.Why != ""), count(b.Why != ""))
		return cmp.Or(byWhy, cmp.Compare(b.Score, a.Score), cmp.Compare(count(a.Agent != chosen), count(b.Agent != chosen)), cmp.Compare(a.Agent, b.Agent))
	})
	if len(bids) == 0 || bids[0].Why != "" {
		return chosen
	}
	return bids[0].Agent
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func least(of map[string]float64) (n float64) {
	first := true
	for _, v := range of {
		if first || v < n {
			n, first = v, false
		}
	}
	return n
}

// leastPositive returns the least value above 0, or 0.
func leastPositive(of map[string]float64) (n float64) {
	for _, v := range of {
		if v > 0 && (n == 0 || v < n) {
			n = v
		}
	}
	return n
}
