package cortex

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// ledgerTimeout bounds how long a decision waits for what was spent today, and again for what it cost to be written down.
const ledgerTimeout = 5 * time.Second

// day names the day of a time, as a [Ledger] does.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// spentToday returns what was spent on the day of a time. What could not be written down before is first: an account that
// cannot be written bounds nothing.
func (o *Orchestrator) spentToday(ctx context.Context, at time.Time) (u llm.Usage, err error) {
	limit := min(ledgerTimeout, o.cfg.DecideTimeout/2) // else it would seem that the model took too long
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	if err = o.spendLog.settle(ctx); err == nil {
		u, err = o.spendLog.ledger.Spent(ctx, o.cfg.Tenant, day(at))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return u, err
}

// spend adds u to what was spent today, where the store keeps that. With a budget for the day it waits until that is written,
// so that what was paid for is counted rather twice than not at all when the process is killed. It is done also when ctx has
// ended.
func (o *Orchestrator) spend(ctx context.Context, u llm.Usage) {
	if o.spendLog.ledger == nil || u == (llm.Usage{}) {
		return
	}
	written := o.spendLog.add(day(o.cfg.Now()), u)
	if o.cfg.Budget.Day != (llm.Budget{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
		defer cancel()
		_ = written.wait(ctx) // logged; the next decision has to settle it
	}
}

// spendLog holds what this process has spent and the ledger does not know yet. Its writer takes all of that at once, so that
// however many decisions end at the same moment, they cost few writes. What cannot be written is part of the next write.
type spendLog struct {
	ledger Ledger // nil: there is none
	tenant string
	log    *slog.Logger
	wake   chan struct{} // has one when a write is due

	mu     sync.Mutex
	owed   map[string]llm.Usage // by day
	due    *write               // that will take what is owed; nil when nobody waits for one
	failed bool                 // the last one did: what it had is owed still
}

// write is one round of writing.
type write struct {
	done chan struct{}
	err  error // set before done is closed
}

func newSpendLog(cfg *Config) *spendLog {
	ledger, _ := cfg.Store.(Ledger)
	return &spendLog{ledger: ledger, tenant: cfg.Tenant, log: cfg.Logger, wake: make(chan struct{}, 1), owed: map[string]llm.Usage{}}
}

// add notes u, and returns the write that will have it.
func (b *spendLog) add(day string, u llm.Usage) *write {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed[day] = b.owed[day].Add(u)
	return b.order()
}

// order returns the write that is due, b.mu being held.
func (b *spendLog) order() *write {
	if b.due == nil {
		b.due = &write{done: make(chan struct{})}
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return b.due
}

// settle writes what could not be written before, if there is such.
func (b *spendLog) settle(ctx context.Context) error {
	b.mu.Lock()
	if !b.failed {
		b.mu.Unlock()
		return nil
	}
	w := b.order()
	b.mu.Unlock()
	return w.wait(ctx)
}

func (w *write) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve writes what is due until nothing more can come, and then what is owed still.
func (b *spendLog) serve(ctx context.Context, last <-chan struct{}) {
	for {
		select {
		case <-b.wake:
			b.write(ctx)
		case <-last:
			b.write(ctx)
			return
		}
	}
}

func (b *spendLog) write(ctx context.Context) {
	b.mu.Lock()
	w, owed := b.due, b.owed
	b.due, b.owed = nil, map[string]llm.Usage{}
	b.mu.Unlock()
	var failed error
	for day, u := range owed {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
		_, err := b.ledger.Spend(ctx, b.tenant, day, u)
		cancel()
		if err != nil {
			failed = err
			b.log.Error("what was spent is not in the account of the day yet", "day", day, "tokens", u.Tokens(), "cost", u.Cost, "err", err)
			b.mu.Lock()
			b.owed[day] = b.owed[day].Add(u)
			b.mu.Unlock()
		}
	}
	b.mu.Lock()
	b.failed = failed != nil
	b.mu.Unlock()
	if w != nil {
		w.err = failed
		close(w.done)
	}
}

// maxTokens and maxCost bound what one decision is taken to have read or written, and cost, so that no sum of them overflows.
const ()
