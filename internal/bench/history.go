package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// HistoryConfig configures History. Entries is required: the length of the measured conversation, at least 100.
type HistoryConfig struct {
	Entries  int
	Limit    time.Duration // of each part, after which nothing more begins; 0 is a minute
	Progress Progress
}

const (
	historyTurns   = 300 // measured in the long conversation, and as many in new ones
	historyAppends = 2000
	historyLoads   = 10
	entriesATurn   = 2
)

// History measures the cost of a long conversation: of a turn when it has half of its length, of an append at its end, and of a load by a process
// without a cache. The conversation is made by turns.
func History(ctx context.Context, cfg HistoryConfig) (figures []Figure, err error) {
	cfg.Limit = cmp.Or(cfg.Limit, defaultLimit)
	err = withNode(ctx, nodeConfig{workers: 1}, func(n *node) error {
		figures, err = n.history(cfg)
		return err
	})
	return figures, err
}

func (n *node) history(cfg HistoryConfig) ([]Figure, error) {
	long, err := n.newUser("long", 0)
	if err != nil {
		return nil, err
	}
	defer long.Close()
	grow := func(entries int) error {
		what := fmt.Sprintf("a conversation of %d entries", cfg.Entries)
		for {
			have := entriesATurn * long.said
			cfg.Progress.tell(what, have, cfg.Entries)
			if have >= entries {
				return nil
			}
			if _, err := long.turn(n.ctx); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	if err := grow(cfg.Entries / 2); err != nil {
		return nil, err
	}
	turns, err := n.historyTurns(cfg, long)
	if err != nil {
		return nil, err
	}
	if err := grow(cfg.Entries); err != nil {
		return nil, err
	}
	loads, err := n.historyLoads(cfg)
	if err != nil {
		return nil, err
	}
	appends, err := n.historyAppends(cfg)
	return append(append(appends, turns...), loads...), err
}

// historyTurns compares a turn in the long conversation with one in a new one.
func (n *node) historyTurns(cfg HistoryConfig, long *user) ([]Figure, error) {
	at := entriesATurn * long.said
	newer := &newcomer{n: n, prefix: "new"}
	defer newer.Close()
	inLong := &side{width: 1, n: min(historyTurns, cfg.Entries/4), do: func(ctx context.Context, _ int) (time.Duration, error) { return long.turn(ctx) }}
	inNew := &side{width: 1, n: inLong.n, do: newer.turn}
	err := interleave(n.ctx, min(maxPieces, inLong.n), cfg.Limit, func(done, total int) { cfg.Progress.tell("turns", done, total) }, inLong, inNew)
	p50Long, p50New := inLong.sample.quantile(0.5), inNew.sample.quantile(0.5)
	return []Figure{
		{Case: "turn_long_p50", What: fmt.Sprintf("turn in a conversation of %d entries, p50", at), Value: p50Long, Unit: "us"},
		{Case: "turn_new_p50", What: "turn in a new conversation, p50", Value: p50New, Unit: "us"},
		{Case: "turn_growth", What: "the one to the other", Value: ratio(p50Long, p50New), Unit: "x"},
	}, err
}

// onlyLog hides a store's support for snapshots.
type onlyLog struct{ storage.Store }

// historyLoads measures the time to load the long conversation, with and without a snapshot.
func (n *node) historyLoads(cfg HistoryConfig) ([]Figure, error) {
	load := func(s storage.Store) *side {
		return &side{width: 1, n: historyLoads, do: func(ctx context.Context, _ int) (time.Duration, error) {
			begin := time.Now()
			conv, err := storage.Load(ctx, s, "", "long")
			if err == nil && int(conv.Seq) < cfg.Entries {
				err = fmt.Errorf("load: %d of %d entries", conv.Seq, cfg.Entries)
			}
			return time.Since(begin), err
		}}
	}
	with, without := load(n.store), load(onlyLog{n.store})
	err := interleave(n.ctx, historyLoads, cfg.Limit, func(done, total int) { cfg.Progress.tell("loads", done, total) }, with, without)
	return []Figure{
		{
			Case: "load_snapshot_p50", What: fmt.Sprintf("load of %d entries, with a snapshot, p50", cfg.Entries),
			Value: with.sample.quantile(0.5) / 1000, Unit: "ms",
		},
		{Case: "load_log_p50", What: "the same without a snapshot, p50", Value: without.sample.quantile(0.5) / 1000, Unit: "ms"},
	}, err
}

// historyAppends compares an append to the long conversation with one after a single entry.
func (n *node) historyAppends(cfg HistoryConfig) ([]Figure, error) {
	var last conversation.Version
	var e *conversation.Entry
	for entry, err := range n.store.Load(n.ctx, "", "long", 0) {
		if err != nil {
			return nil, err
		}
		e, last = entry, entry.Version
	}
	// From here on the conversation's log is invalid: only the store reads it.
	atEnd := &side{width: 1, n: historyAppends, do: func(ctx context.Context, _ int) (took time.Duration, err error) {
		begin := time.Now()
		last, err = n.store.Append(ctx, "", "long", last, e)
		return time.Since(begin), err
	}}
	i := 0
	atOne := &side{width: 1, n: historyAppends, do: func(ctx context.Context, _ int) (time.Duration, error) {
		i++
		id := fmt.Sprintf("short-%d", i)
		first, err := n.store.Append(ctx, "", id, 0, e)
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		_, err = n.store.Append(ctx, "", id, first, e)
		return time.Since(begin), err
	}}
	err := interleave(n.ctx, maxPieces, cfg.Limit, func(done, total int) { cfg.Progress.tell("appends", done, total) }, atEnd, atOne)
	p50End, p50One := atEnd.sample.quantile(0.5), atOne.sample.quantile(0.5)
	return []Figure{
		{Case: "append_long_p50", What: fmt.Sprintf("append behind %d entries, p50", cfg.Entries), Value: p50End, Unit: "us"},
		{Case: "append_new_p50", What: "append behind 1 entry, p50", Value: p50One, Unit: "us"},
		{Case: "append_growth", What: "the one to the other", Value: ratio(p50End, p50One), Unit: "x", Least: 2, Aim: 1, Less: true},
	}, err
}
