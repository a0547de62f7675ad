package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestAward(t *testing.T) {
	bid := func(agent string, confidence, cost, seconds float64) conversation.Bid {
		return conversation.Bid{Agent: agent, Confidence: confidence, Cost: cost, Seconds: seconds}
	}
	for _, test := range []struct {
		name    string
		bids    []conversation.Bid
		records map[string]learn.Record
		want    string
	}{
		{"no bid counts", []conversation.Bid{{Agent: "a", Why: "late"}, {Agent: "b", Why: "late"}}, nil, "a"},
		{"nobody was asked", nil, nil, "a"},
		{"the chosen one has not bid", []conversation.Bid{{Agent: "a", Why: "late"}, bid("b", 0, 0, 0)}, nil, "b"},
		{"the more confident", []conversation.Bid{bid("a", 0.5, 0, 0), bid("b", 0.6, 0, 0)}, nil, "b"},
		{"equal bids", []conversation.Bid{bid("b", 0.5, 1, 1), bid("a", 0.5, 1, 1)}, nil, "a"},
		{"equal bids of others", []conversation.Bid{bid("c", 0.5, 1, 1), bid("b", 0.5, 1, 1)}, nil, "b"},
		{"the cheaper", []conversation.Bid{bid("a", 0.9, 10, 0), bid("b", 0.85, 1, 0)}, nil, "b"},
		{"the faster", []conversation.Bid{bid("a", 0.9, 0, 10), bid("b", 0.85, 0, 1)}, nil, "b"},
		{"saying no time is no advantage", []conversation.Bid{bid("a", 0.9, 0, 0), bid("b", 0.85, 0, 1)}, nil, "b"},
		{"cheap, but not able", []conversation.Bid{bid("a", 0.9, 10, 0), bid("b", 0.2, 0, 0)}, nil, "a"},
		{"an absurd price hides no other", []conversation.Bid{bid("a", 0.9, 2, 0), bid("b", 0.88, 1, 0), bid("c", 1, transport.MaxBidCost, 0)}, nil, "b"},
		{
			"a boaster that fails",
			[]conversation.Bid{bid("a", 1, 0, 0), bid("b", 0.7, 0, 0)},
			map[string]learn.Record{"a": {Failed: 2}, "b": {}},
			"b",
		},
		{
			"a boaster that seldom fails",
			[]conversation.Bid{bid("a", 1, 0, 0), bid("b", 0.7, 0, 0)},
			map[string]learn.Record{"a": {Done: 9, Failed: 1}, "b": {}},
			"a",
		},
		{
			"slower than it says",
			[]conversation.Bid{bid("a", 0.9, 0, 1), bid("b", 0.9, 0, 2)},
			map[string]learn.Record{"a": {Done: 5, Seconds: 100}, "b": {Done: 5, Seconds: 10}},
			"b",
		},
		{
			"dearer than it says",
			[]conversation.Bid{bid("a", 0.9, 1, 0), bid("b", 0.9, 2, 0)},
			map[string]learn.Record{"a": {Done: 5, Cost: 100}, "b": {Done: 5, Cost: 10}},
			"b",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := award("a", test.bids, test.records); got != test.want {
				t.Errorf("award() = %s, want %s: %+v", got, test.want, test.bids)
			}
		})
	}
}

func TestScores(t *testing.T) {
	bids := []conversation.Bid{{Agent: "a", Confidence: 1, Cost: 2, Seconds: 4}, {Agent: "b", Confidence: 0.5, Cost: 1, Seconds: 2}, {Agent: "c", Why: "late"}}
	award("a", bids, map[string]learn.Record{"a": {Done: 2, Failed: 4, Cost: 4, Seconds: 8}, "c": {Failed: 1}})
	want := []conversation.Bid{
		{Agent: "b", Confidence: 0.5, Cost: 1, Seconds: 2, Score: 0.5},
		{Agent: "a", Confidence: 1, Cost: 2, Seconds: 4, Done: 2, Failed: 4, Score: 0.5 - 0.2*0.5 - 0.1*0.5},
		{Agent: "c", Failed: 1, Why: "late"},
	}
	if d := cmp.Diff(want, bids); d != "" {
		t.Errorf("bids (-want +got):\n%s", d)
	}
}
