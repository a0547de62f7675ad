package budget

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// logTimeout bounds how long a decision waits for what was spent today, and again for what it cost to be written down.
const logTimeout = 5 * time.Second

// Config is what a Spending needs.
type Config struct {
	Limits  Limits
	Log     storage.SpendLog // nil: no account of a day is kept
	Tenant  string
	Timeout time.Duration // of a decision, which waits for half of it at most to know what was spent today
	Logger  *slog.Logger
	Now     func() time.Time
}

// Spending is what was spent on models, and what may be. It holds what this process has spent and the spend log of the store does not know yet. Its writer
// takes all of that at once, so that however many decisions end at the same moment, they cost few writes. What cannot be written is part of
// the next write. It is safe for concurrent use.
type Spending struct {
	cfg  Config
	wake chan struct{} // has one when a write is due

	mu     sync.Mutex
	owed   map[string]llm.Usage // by day
	due    *write               // that will take what is owed; nil when nobody waits for one
	failed bool                 // the last one did: what it had is owed still
}

// New returns a Spending. It writes only while Serve runs.
func New(cfg Config) *Spending {
	return &Spending{cfg: cfg, wake: make(chan struct{}, 1), owed: map[string]llm.Usage{}}
}

// day names the day of a time, as a [storage.SpendLog] does.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Accounts returns the budgets that bound a decision at a time, of a turn and a conversation on which so much was spent already.
func (s *Spending) Accounts(ctx context.Context, turn, conversation llm.Usage, at time.Time) (Accounts, error) {
	limits := &s.cfg.Limits
	if *limits == (Limits{}) {
		return nil, nil
	}
	all := Accounts{
		{"this request", limits.Turn, turn, "Ask for less at once, or have the budget of a turn raised."},
		{"this conversation", limits.Conversation, conversation, "Begin another one with /new, or have the budget of a conversation raised."},
	}
	if limits.Day != (llm.Budget{}) {
		spent, err := s.today(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("what was spent today: %w", err)
		}
		all = append(all, account{"today", limits.Day, spent, "Go on tomorrow (UTC), or have the budget of a day raised."})
	}
	bounding := all[:0]
	for _, a := range all {
		if a.budget != (llm.Budget{}) {
			bounding = append(bounding, a)
		}
	}
	return bounding, nil
}

// today returns what was spent on the day of a time. What could not be written down before is first: an account that
// cannot be written bounds nothing.
func (s *Spending) today(ctx context.Context, at time.Time) (u llm.Usage, err error) {
	limit := min(logTimeout, s.cfg.Timeout/2) // else it would seem that the model took too long
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	if err = s.settle(ctx); err == nil {
		u, err = s.cfg.Log.Spent(ctx, s.cfg.Tenant, day(at))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return u, err
}

// Spend adds u to what was spent today, where the store keeps that. With a budget for the day it waits until that is written,
// so that what was paid for is counted rather twice than not at all when the process is killed. It is done also when ctx has
// ended.
func (s *Spending) Spend(ctx context.Context, u llm.Usage) {
	if s.cfg.Log == nil || u == (llm.Usage{}) {
		return
	}
	written := s.add(day(s.cfg.Now()), u)
	if s.cfg.Limits.Day != (llm.Budget{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
		defer cancel()
		_ = written.wait(ctx) // logged; the next decision has to settle it
	}
}

// write is one round of writing.
type write struct {
	done chan struct{}
	err  error // set before done is closed
}

// add notes u, and returns the write that will have it.
func (s *Spending) add(day string, u llm.Usage) *write {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed[day] = s.owed[day].Add(u)
	return s.order()
}

// order returns the write that is due, s.mu being held.
func (s *Spending) order() *write {
	if s.due == nil {
		s.due = &write{done: make(chan struct{})}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return s.due
}

// settle writes what could not be written before, if there is such.
func (s *Spending) settle(ctx context.Context) error {
	s.mu.Lock()
	if !s.failed {
		s.mu.Unlock()
		return nil
	}
	w := s.order()
	s.mu.Unlock()
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

// Serve writes what is due until last is closed, when nothing more can come, and then what is owed still.
func (s *Spending) Serve(ctx context.Context, last <-chan struct{}) {
	for {
		select {
		case <-s.wake:
			s.write(ctx)
		case <-last:
			s.write(ctx)
			return
		}
	}
}

func (s *Spending) write(ctx context.Context) {
	s.mu.Lock()
	w, owed := s.due, s.owed
	s.due, s.owed = nil, map[string]llm.Usage{}
	s.mu.Unlock()
	var failed error
	for day, u := range owed {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
		_, err := s.cfg.Log.Spend(ctx, s.cfg.Tenant, day, u)
		cancel()
		if err != nil {
			failed = err
			s.cfg.Logger.Error("what was spent is not in the account of the day yet", "day", day, "tokens", u.Tokens(), "cost", u.Cost, "err", err)
			s.mu.Lock()
			s.owed[day] = s.owed[day].Add(u)
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.failed = failed != nil
	s.mu.Unlock()
	if w != nil {
		w.err = failed
		close(w.done)
	}
}
