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

// logTimeout bounds how long a decision waits to read what was spent today, and again to have its own cost written.
const logTimeout = 5 * time.Second

// Config is what a Spending needs.
type Config struct {
	Limits  Limits
	Log     storage.SpendLog // nil: spending per day is not recorded
	Tenant  string
	Timeout time.Duration // of a decision, at most half of which is spent waiting for Log
	Logger  *slog.Logger
	Now     func() time.Time
}

// Spending checks and records what is spent on models. It holds what this process has spent and the store's spend log does not have yet.
// One writer writes all of it at once, so that many decisions that end at the same time cost few writes; what cannot be written is part of
// the next write. It is safe for concurrent use.
type Spending struct {
	cfg  Config
	wake chan struct{} // holds one element when a write is due

	mu        sync.Mutex
	unwritten map[string]llm.Usage // not written yet, by day
	nextWrite *write               // the next write, which takes all of unwritten; nil when none is due
	failed    bool                 // the last write failed: its amounts are in unwritten again

	expected expected
}

// New returns a Spending. It writes only while Serve runs.
func New(cfg Config) *Spending {
	return &Spending{cfg: cfg, wake: make(chan struct{}, 1), unwritten: map[string]llm.Usage{}}
}

// day formats the day of a time for a [storage.SpendLog].
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Accounts returns the limits of a decision at time at; turn and conversation are what was spent on these before.
func (s *Spending) Accounts(ctx context.Context, turn, conversation llm.Usage, at time.Time) (Accounts, error) {
	limits := &s.cfg.Limits
	if *limits == (Limits{}) {
		return nil, nil
	}
	all := Accounts{
		{"turn", "this request", limits.Turn, turn, "Ask for less at once, or have the budget of a turn raised."},
		{"conversation", "this conversation", limits.Conversation, conversation, "Begin another one with /new, or have the budget of a conversation raised."},
	}
	if limits.Day != (llm.Budget{}) {
		spent, err := s.today(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("what was spent today: %w", err)
		}
		all = append(all, account{"day", "today", limits.Day, spent, "Go on tomorrow (UTC), or have the budget of a day raised."})
	}
	bounding := all[:0]
	for _, a := range all {
		if a.budget != (llm.Budget{}) {
			bounding = append(bounding, a)
		}
	}
	return bounding, nil
}

// today returns what was spent on the day of a time. It first writes what an earlier write could not: without the spend log, the limit of a
// day would limit nothing.
func (s *Spending) today(ctx context.Context, at time.Time) (u llm.Usage, err error) {
	limit := min(logTimeout, s.cfg.Timeout/2) // so that the decision's own timeout is not reached, which would be blamed on the model
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	if err = s.retryFailed(ctx); err == nil {
		if u, err = s.cfg.Log.Spent(ctx, s.cfg.Tenant, day(at)); err == nil {
			s.expected.spent(day(at), u)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return u, err
}

// Left returns which part of the day's limit is left now, from 0 to 1; ok is false without such a limit.
func (s *Spending) Left(ctx context.Context) (left float64, ok bool, err error) {
	limit := s.cfg.Limits.Day
	if limit == (llm.Budget{}) {
		return 1, false, nil
	}
	spent, err := s.today(ctx, s.cfg.Now())
	if err != nil {
		return 0, true, fmt.Errorf("what was spent today: %w", err)
	}
	left = 1
	if limit.Tokens > 0 {
		left = min(left, 1-float64(spent.Tokens())/float64(limit.Tokens))
	}
	if limit.Cost > 0 {
		left = min(left, 1-spent.Cost/limit.Cost)
	}
	return max(left, 0), true, nil
}

// Spend adds u to what was spent today, if the store has a spend log. With a limit for the day it waits until u is written: if the process is
// killed, spending is rather counted twice than not at all. Spend does not end with ctx.
func (s *Spending) Spend(ctx context.Context, u llm.Usage) {
	if s.cfg.Log == nil || u == (llm.Usage{}) {
		return
	}
	written := s.add(day(s.cfg.Now()), u)
	if s.cfg.Limits.Day != (llm.Budget{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
		defer cancel()
		_ = written.wait(ctx) // write has logged the error; the next decision writes it first
	}
}

// write is one round of writing.
type write struct {
	done chan struct{}
	err  error // set before done is closed
}

// add adds u to unwritten, and returns the write that will include it.
func (s *Spending) add(day string, u llm.Usage) *write {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten[day] = s.unwritten[day].Add(u)
	return s.scheduleWrite()
}

// scheduleWrite returns the next write, and makes it due. s.mu is held.
func (s *Spending) scheduleWrite() *write {
	if s.nextWrite == nil {
		s.nextWrite = &write{done: make(chan struct{})}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return s.nextWrite
}

// retryFailed writes what the last write could not, if anything.
func (s *Spending) retryFailed(ctx context.Context) error {
	s.mu.Lock()
	if !s.failed {
		s.mu.Unlock()
		return nil
	}
	w := s.scheduleWrite()
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

// Serve performs due writes until last is closed, after which Spend is not called, and then writes the rest.
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
	w, owed := s.nextWrite, s.unwritten
	s.nextWrite, s.unwritten = nil, map[string]llm.Usage{}
	s.mu.Unlock()
	var failed error
	for day, u := range owed {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
		sum, err := s.cfg.Log.Spend(ctx, s.cfg.Tenant, day, u)
		cancel()
		if err == nil {
			s.expected.spent(day, sum)
		}
		if err != nil {
			failed = err
			s.cfg.Logger.Error("what was spent is not in the spend log yet", "day", day, "tokens", u.Tokens(), "cost", u.Cost, "err", err)
			s.mu.Lock()
			s.unwritten[day] = s.unwritten[day].Add(u)
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
