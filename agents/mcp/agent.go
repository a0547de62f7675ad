package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/cortex-orchestrator/cortex/agents"
)

const (
	// awayPatience is how long a task waits for a server that is away.
	awayPatience = 30 * time.Second
	awayPoll     = 100 * time.Millisecond

	firstPause = 500 * time.Millisecond // before a server is started again
	maxPause   = time.Minute
	steady     = time.Minute // a server that was there for so long is started again soon
)

// Options says how the agent of a server works.
type Options struct {
	// Dir is the folder of what the agents of this machine keep: what they have asked of servers, what came of it, and what servers say of
	// themselves. Each agent has a folder there, with which one process at a time works.
	Dir string
	// Version is that of this program, for servers to know.
	Version string
	// Logger is told about the server and what it says; nil discards. Values of its environment and headers are hidden.
	Logger *slog.Logger
}

// Agent is an agent with the tools of a server for skills.
type Agent struct {
	server  *Server
	o       Options
	log     *slog.Logger
	changes chan agents.Change
	again   chan struct{} // the list of tools has changed
	journal *journal
	pins    *pins

	mu      sync.Mutex
	session *session      // nil while the server is away
	up      chan struct{} // closed when it is there
	away    error         // why it is not
	tools   map[string]*tool
	card    *a2a.AgentCard
	closed  bool
	parked  map[string]*parked // calls that wait for an answer, by the records of their tasks
}

// Open starts a server, or reaches it, and reads its tools. [Agent.Run] keeps it there, and [Agent.Close] ends it.
func Open(ctx context.Context, s *Server, o *Options) (*Agent, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	a := &Agent{
		server: s, o: *o, log: o.Logger, changes: make(chan agents.Change, 1), again: make(chan struct{}, 1), up: make(chan struct{}),
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With("server", s.Name)
	folder := filepath.Join(o.Dir, a.ID())
	var err error
	if a.journal, err = openJournal(folder, time.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	a.pins = openPins(folder)
	if err := a.connect(ctx, ""); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, a.connect(ctx, oldRevision))
		}
		if a.current() == nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s.Name, first(err)), a.journal.close())
		}
	}
	return a, nil
}

// first returns the first of several errors.
func first(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) > 0 {
		return all.Unwrap()[0]
	}
	return err
}

// ID is that of the agent.
func (a *Agent) ID() string { return agentID(a.server.Name) }

// Card returns the card of the agent, as it is now.
func (a *Agent) Card() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.card
}

// Changes is for [agents.Options].
func (a *Agent) Changes() <-chan agents.Change { return a.changes }

// tell passes on what the agent is now; what was not heard yet is out of date.
func (a *Agent) tell(c agents.Change) {
	select {
	case <-a.changes:
	default:
	}
	a.changes <- c // its only sender
}

// Run keeps the server there until ctx ends: one that ends is started again, after a pause that grows, and meanwhile the agent is draining.
func (a *Agent) Run(ctx context.Context) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.25}
	pauses.Reset()
	for began := time.Now(); ; began = time.Now() {
		if s := a.current(); s != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-a.again:
				if err := a.list(ctx, s); err != nil {
					a.log.Warn("tools not read", "err", a.server.hide(err.Error()))
					continue
				}
				a.tell(agents.Change{Card: a.Card()})
				continue
			case <-s.ended:
			}
			a.lose(s, errors.New("it has ended"))
			a.log.Warn("server has ended, and is started again")
			a.tell(agents.Change{Draining: true})
			s.end()
		}
		if time.Since(began) > steady {
			pauses.Reset()
		}
		for n := 0; a.current() == nil; n++ {
			pause := pauses.NextBackOff()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
			revision := ""
			if n%2 == 1 {
				revision = oldRevision
			}
			if err := a.connect(ctx, revision); err != nil && ctx.Err() == nil {
				a.log.Warn("server is away, and is tried again", "err", err)
				a.lose(nil, err)
			}
		}
		a.log.Info("server is there")
		a.tell(agents.Change{Card: a.Card()})
	}
}

// Close ends the server with all that it has started.
func (a *Agent) Close() error {
	a.mu.Lock()
	s := a.session
	a.session, a.closed = nil, true
	a.mu.Unlock()
	if s != nil {
		s.end()
	}
	return a.journal.close()
}

func (a *Agent) current() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// connect makes a session, reads the tools, and has it.
func (a *Agent) connect(ctx context.Context, revision string) error {
	s, err := connect(ctx, a.server, revision, &a.o, a.log, func() {
		select {
		case a.again <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	if err := a.list(ctx, s); err != nil {
		s.end()
		return errors.New(a.server.hide(err.Error()))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		go s.end()
		return errors.New("the agent is closed")
	}
	a.session, a.away = s, nil
	close(a.up)
	return nil
}

// lose takes note that a session is over, and why the server is away.
func (a *Agent) lose(s *session, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = why
	if s != nil && a.session == s {
		a.session, a.up = nil, make(chan struct{})
	}
}

// await returns the session with the server, for which it waits a while.
func (a *Agent) await(ctx context.Context) (*session, error) {
	patience := time.NewTimer(awayPatience)
	defer patience.Stop()
	for {
		a.mu.Lock()
		s, up, away := a.session, a.up, a.away
		a.mu.Unlock()
		if s != nil {
			select {
			case <-s.ended: // Run is about to see it
				up = nil
			default:
				return s, nil
			}
		}
		select {
		case <-up:
		case <-time.After(awayPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, fmt.Errorf("the server %s is away: %w", a.server.Name, away)
		}
	}
}
