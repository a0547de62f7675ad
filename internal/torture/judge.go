package torture

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// judge reads what was recorded, and checks it.
func (r *run) judge(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, fmt.Errorf("the logs cannot be read within %v", readTime))
	defer cancel()
	bus, store, err := open(ctx, r.plan.URL, "torture", r.cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("read the logs: %w; everything is in %s", err, r.cfg.Folder)
	}
	defer bus.Close()
	report := r.killer.report()
	report.Topology, report.Seed, report.Wanted = r.cfg.Topology, r.cfg.Seed, r.cfg.Kills
	times := new(timing)
	disturbed := r.killer.disturbances()
	for client := range r.plan.Clients {
		b, err := os.ReadFile(journalFile(r.cfg.Folder, client))
		if err != nil {
			return nil, err
		}
		records, _, err := parseRecords(b)
		if err != nil {
			return nil, err
		}
		all := saidIn(r.plan, client, records)
		for _, t := range r.plan.talks(client) {
			h := &history{talk: t, said: all[t.id]}
			if h.log, err = readLog(ctx, store, t.id); err != nil {
				return nil, fmt.Errorf("read the logs: %w; everything is in %s", err, r.cfg.Folder)
			}
			report.count(h, h.check(disturbed, times))
		}
	}
	report.time(times)
	if report.Tasks, report.TasksTwice, err = tasksRun(r.cfg.Folder); err != nil {
		return nil, err
	}
	made, err := decisionsMade(r.cfg.Folder)
	if err != nil {
		return nil, err
	}
	report.DecidedTwice = max(0, made-report.Decisions)
	return report, nil
}

func readLog(ctx context.Context, store storage.Store, contextID string) ([]*conversation.Entry, error) {
	for try := 0; ; try++ {
		var log []*conversation.Entry
		var failed error
		for e, err := range store.Load(ctx, "", contextID, 0) {
			if err != nil {
				failed = err
				break
			}
			log = append(log, e)
		}
		if failed == nil || try == 10 || ctx.Err() != nil {
			return log, failed
		}
		if err := rest.For(ctx, again); err != nil {
			return nil, errors.Join(failed, err)
		}
	}
}
