package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// SoakConfig configures Soak. For is required.
type SoakConfig struct {
	For      time.Duration  // how long it lasts, after measuring the pace
	Line     func(SoakLine) // called with each line; nil: not called
	Progress Progress

	wait               time.Duration // for an answer
	userBus, cortexBus func(transport.Transport) transport.Transport
}

const (
	soakChats    = 16               // users of agents that answer at once, each with a long conversation and a new one
	soakLong     = 1000             // turns of a long conversation
	soakRound    = 100              // turns of such a user, of which newTurns are in a new conversation
	soakPatient  = 2                // users whose agents never answer, until the deadline; and as many who cancel before that
	soakShare    = 1.0 / 3          // of the machine's capacity
	soakPace     = 20 * time.Second // how long the capacity is measured, at most
	soakPieces   = 10               // in this many pieces
	soakTimeout  = 20 * time.Second // of tasks: the timer of a finished conversation comes after this, and loads the conversation once more
	soakErase    = 10 * time.Second // between two conversations that are erased, which costs the server much more than a turn
	soakFleet    = 50               // agents that are only announced: enough for shortlists
	soakEvery    = time.Minute      // between two lines, of a run that is long enough
	soakLines    = 10               // at least
	soakVerdict  = 10 * time.Minute // shorter runs are inconclusive: growth at the beginning is warming up
	soakHeap     = 10               // percent by which the last third of the heap's lines may exceed the second: normal variation
	soakRoutines = 5                // the same for goroutines
)

// Soak runs a node for a long time at a third of the machine's capacity, and measures its resources. Some conversations are new, some are long; turns
// have one delegation or three; an agent fails now and then, others come, change and go; users cancel; deadlines pass. Finished conversations leave
// the memory after a while, and some are erased; the logs of others stay, as without --retain. So the server's files grow, and its index of them by
// about 0.2 KB per conversation; any other growth is a leak. The figures compare the last third with the second one.
func Soak(ctx context.Context, cfg SoakConfig) (sum SoakSum, figures []Figure, err error) {
	setup := nodeConfig{workers: 3, timeout: soakTimeout, userBus: cfg.userBus, cortexBus: cfg.cortexBus}
	err = withNode(ctx, setup, func(n *node) error {
		s := &soak{n: n, cfg: cfg, pace: rate.NewLimiter(rate.Inf, 1), erased: map[string]bool{}}
		err := s.run()
		sum, figures = s.sum(), verdict(s.lines)
		return err
	})
	return sum, figures, err
}

// SoakSum is the summary of a Soak.
type SoakSum struct {
	Case          string `json:"case"` // "soak_sum"
	Turns         int    `json:"turns"`
	Conversations int    `json:"conversations"`
	Erased        int    `json:"erased"`   // conversations
	Canceled      int    `json:"canceled"` // turns
	Late          int    `json:"late"`     // turns with a task past its deadline
	Retries       int    `json:"retries"`  // of tasks
	Agents        int    `json:"agents"`   // that came and left
	Cards         int    `json:"cards"`    // that changed or were removed
	Lost          int    `json:"lost"`     // messages without an answer
	Dup           int    `json:"dup"`      // answers beyond the first
}

// soak is a run of Soak.
type soak struct {
	n    *node
	cfg  SoakConfig
	pace *rate.Limiter // of the users whose agents answer at once

	began                 time.Time
	turns, canceled, late atomic.Int64
	begun, came, changed  atomic.Int64 // conversations; agents, cards

	mu        sync.Mutex
	tally     tally
	erased    map[string]bool
	nextErase time.Time
	finished  []finished // oldest first
	lines     []SoakLine
}

func (s *soak) run() error {
	if err := s.n.announceFleet(soakFleet, s.cfg.Progress); err != nil {
		return err
	}
	helpers := new(errgroup.Group)
	working, leave := context.WithCancel(s.n.ctx)
	defer helpers.Wait() //nolint:errcheck // told below
	defer leave()
	if err := s.hire(working, helpers); err != nil {
		return err
	}

	users, ctx := errgroup.WithContext(s.n.ctx)
	more, enough := context.WithCancel(ctx) // until it ends, new turns begin
	defer enough()
	for i := range soakChats {
		users.Go(func() error { return s.chat(ctx, more, i) })
	}
	for i := range soakPatient {
		waits := &talker{s: s, name: fmt.Sprintf("wait-%d", i+1), turns: newTurns}
		users.Go(func() error {
			return s.unanswered(ctx, more, waits, func() time.Duration { return 0 }, &s.late)
		})
		regrets := &talker{s: s, name: fmt.Sprintf("regret-%d", i+1), turns: 5 * newTurns}
		users.Go(func() error {
			return s.unanswered(ctx, more, regrets, func() time.Duration { return 20*time.Millisecond + rand.N(300*time.Millisecond) }, &s.canceled)
		})
	}
	users.Go(func() error { return s.visit(ctx, more) })
	users.Go(func() error { return s.change(ctx, more) })
	users.Go(func() error {
		defer enough()
		return s.watch(ctx)
	})
	err := users.Wait()
	leave()
	if err = errors.Join(err, helpers.Wait()); err != nil {
		if s.n.ctx.Err() != nil {
			err = context.Cause(s.n.ctx)
		}
		return err
	}
	return s.end()
}

// watch measures the pace, then writes lines until the time is over.
func (s *soak) watch(ctx context.Context) error {
	s.cfg.Progress.tell("what the machine can do", 0, 1)
	piece, can := min(s.cfg.For/10, soakPace)/soakPieces, 0.0
	for range soakPieces { // the best one counts: the first ones warm up, and the machine may have other load
		begin, before := time.Now(), s.turns.Load()
		if err := rest.For(ctx, piece); err != nil {
			return err
		}
		can = max(can, float64(s.turns.Load()-before)/time.Since(begin).Seconds())
	}
	s.pace.SetLimit(rate.Limit(max(1, can*soakShare)))

	count := max(soakLines, int(s.cfg.For/soakEvery))
	s.began = time.Now()
	s.cfg.Progress.tell("soak", 0, count)
	last, turns := s.began, s.turns.Load()
	for i := range count {
		if err := rest.For(ctx, time.Until(s.began.Add(s.cfg.For*time.Duration(i+1)/time.Duration(count)))); err != nil {
			return err
		}
		l, err := s.line(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		l.PerSecond = round(float64(int64(l.Turns)-turns) / now.Sub(last).Seconds())
		last, turns = now, int64(l.Turns)
		s.tell(l)
		s.cfg.Progress.tell(fmt.Sprintf("soak, %v of %v", now.Sub(s.began).Round(time.Second), s.cfg.For), i+1, count)
	}
	return nil
}

func (s *soak) tell(l SoakLine) {
	s.lines = append(s.lines, l)
	if s.cfg.Line != nil {
		s.cfg.Line(l)
	}
}

// end checks that erased conversations have not come back, when all work has ended.
func (s *soak) end() error {
	if err := s.n.settle(); err != nil {
		return err
	}
	for id := range s.erased {
		for _, err := range s.n.store.Load(s.n.ctx, "", id, 0) {
			if err != nil {
				return err
			}
			return fmt.Errorf("conversation %s was erased, and has come back", id)
		}
	}
	return nil
}

// finish ends a conversation: it counts the results, and releases the conversation or, now and then, erases it.
func (s *soak) finish(ctx context.Context, u *user) error {
	defer u.Close()
	got, err := u.tally(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.tally.add(got)
	now := time.Now()
	erases := u.said < soakLong && now.After(s.nextErase)
	if erases {
		s.erased[u.contextID], s.nextErase = true, now.Add(soakErase)
	} else {
		s.finished = append(s.finished, finished{u.contextID, now})
	}
	s.mu.Unlock()
	if erases {
		for { // a busy server answers too late; an interrupted deletion may be repeated
			_, err := erase.Conversation(ctx, s.n.store, s.n.bus, "", u.contextID)
			if !errors.Is(err, transport.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
		}
	}
	return s.forget(ctx, now)
}

// finished is a conversation that has ended, and the time.
type finished struct {
	contextID string
	at        time.Time
}

// forget makes Cortex release the memory of the conversations whose timers have passed.
func (s *soak) forget(ctx context.Context, now time.Time) error {
	for {
		s.mu.Lock()
		if len(s.finished) == 0 || now.Sub(s.finished[0].at) < 2*soakTimeout {
			s.mu.Unlock()
			return nil
		}
		u := &user{n: s.n, contextID: s.finished[0].contextID}
		s.finished = s.finished[1:]
		s.mu.Unlock()
		if err := u.publish(ctx, transport.Control("", transport.Cortex), u.contextID+"-forget", &transport.Forget{}); err != nil {
			return err
		}
	}
}

func (s *soak) sum() SoakSum {
	return SoakSum{
		Case: "soak_sum", Turns: int(s.turns.Load()), Conversations: int(s.begun.Load()), Erased: len(s.erased),
		Canceled: int(s.canceled.Load()), Late: int(s.late.Load()), Retries: int(s.n.orch.Stats().Retries),
		Agents: int(s.came.Load()), Cards: int(s.changed.Load()), Lost: s.tally.lost, Dup: s.tally.dup,
	}
}
