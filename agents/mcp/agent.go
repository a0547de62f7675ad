package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/pin"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	// awayPatience is how long a task waits for an unavailable server.
	awayPatience = 30 * time.Second
	awayPoll     = 100 * time.Millisecond
	// listPause is the time between two lists of the tools of a server that says again and again that they have changed.
	listPause = time.Second
	// lostPause is the time until there is another session with a server that could be reached.
	lostPause = 500 * time.Millisecond
)

// Options configures an Agent.
type Options struct {
	// Dir is where agents keep their journals and the hashes of tools. Each agent has a subfolder, which only one process can use at a time.
	Dir string
	// Version is this program's version, which servers are told.
	Version string
	// Logger logs the server's state and its standard error, without the values of Env and Headers; nil discards.
	Logger *slog.Logger
}

// Agent is an [agents.Executor] whose skills are the tools of a server.
type Agent struct {
	server  *Server
	o       Options
	log     *slog.Logger
	changes chan agents.Change
	again   chan struct{} // signals a changed list of tools
	journal *records.Journal[record]
	pins    *pin.File

	mu      sync.Mutex
	session *session      // nil while the server is unavailable
	up      chan struct{} // closed when session is set
	away    error         // why session is nil
	tools   map[string]*tool
	card    *a2a.AgentCard
	doubted []string // tools that are not what they were, or of which that is not known
	closed  bool
	parked  map[string]*parked // calls that wait for the user, by the paths of their tasks' records; at most maxParked

	listPause, withdrawnTime time.Duration

	told map[string]bool // tools of which the log has said that they have changed; of Open and then Run only
}

// Open starts or reaches a server and lists its tools. Call [Agent.Run] to keep it running and [Agent.Close] to end it.
func Open(ctx context.Context, s *Server, o *Options) (*Agent, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	of := *s
	s = &of
	if err := s.openLogin(o.Dir); err != nil {
		s.login = nil // it has none
	}
	a := &Agent{
		server: s, o: *o, log: o.Logger, changes: make(chan agents.Change, 1), again: make(chan struct{}, 1), up: make(chan struct{}),
		listPause: listPause, withdrawnTime: withdrawnTime, told: map[string]bool{},
	}
	a.log = cmp.Or(a.log, slog.New(slog.DiscardHandler))
	a.log = a.log.With("server", s.Name)
	folder := records.Folder(o.Dir, a.ID())
	var err error
	if a.journal, err = openJournal(folder, time.Now(), a.log); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	a.pins = &pin.File{Path: filepath.Join(folder, "tools.json"), Noun: "tools"}
	var failed error // the first one says most
	for n := 0; n < 2 && ctx.Err() == nil; n++ {
		if err = a.connect(ctx, n); err == nil {
			return a, nil
		}
		failed = cmp.Or(failed, err)
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", s.Name, cmp.Or(failed, context.Cause(ctx))), a.journal.Close())
}

// ID returns the agent's id.
func (a *Agent) ID() string { return agentID(a.server.Name) }

// Card returns the agent's current card.
func (a *Agent) Card() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.card
}

// Changes returns the channel for [agents.Options].
func (a *Agent) Changes() <-chan agents.Change { return a.changes }

// tell sends a change, in place of one that was not received yet.
func (a *Agent) tell(c agents.Change) {
	select {
	case <-a.changes:
	default:
	}
	a.changes <- c // Run is the only sender
}

// Run restarts the server with growing pauses whenever it ends, until ctx ends. While the server is unavailable the agent is draining.
func (a *Agent) Run(ctx context.Context) error {
	restarts := process.NewRestarts()
	var quiet <-chan time.Time // until the tools may be listed again
	for began := time.Now(); ; began = time.Now() {
		if s := a.current(); s != nil {
			again := a.again
			if quiet != nil {
				again = nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-quiet:
				quiet = nil
				continue
			case <-again:
				quiet = time.After(a.listPause)
				before := a.Card()
				if err := a.list(ctx, s); err != nil {
					a.log.Warn("tools not read", "err", a.server.hide(err.Error()))
				} else if card := a.Card(); card != before {
					a.tell(agents.Change{Card: card})
				}
				continue
			case <-s.ended:
			case <-s.ending: // its calls may take long, or wait for a user, and those of others have another one meanwhile
			}
			a.lose(s, errors.New("it has ended"))
			a.log.Warn("server has ended, and is started again")
			a.tell(agents.Change{Draining: true})
			if s.program != nil {
				s.end()
			} else {
				go s.end() // it waits for the calls that go on in it
			}
		}
		ran := time.Since(began)
		for n := 0; a.current() == nil; n++ {
			pause := lostPause
			if n > 0 || a.server.URL == "" {
				pause = restarts.Pause(ran)
			} else { // a call can end a session of a server that goes on: the pauses grow while it cannot be reached
				restarts = process.NewRestarts()
			}
			if rest.For(ctx, pause) != nil {
				return nil
			}
			ran = 0
			if err := a.connect(ctx, n); err != nil && ctx.Err() == nil {
				a.log.Warn("server is away, and is tried again", "err", err)
				a.lose(nil, err)
			}
		}
		a.log.Info("server is there")
		a.tell(agents.Change{Card: a.Card()})
	}
}

// Close ends the server and all processes that it started.
func (a *Agent) Close() error {
	a.mu.Lock()
	s := a.session
	a.session, a.closed = nil, true
	a.mu.Unlock()
	if s != nil {
		s.end()
	}
	a.server.login.wait()
	return a.journal.Close()
}

func (a *Agent) current() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// attempt returns the server and the revision for the nth attempt to connect. Every second one is for old servers: programs that fail when they are
// asked for their revisions, and URLs of the SSE transport whose configuration does not say so.
func (s *Server) attempt(n int) (*Server, string) {
	if n%2 == 0 {
		return s, ""
	}
	old := *s
	old.SSE = !s.SSE && s.URL != ""
	return &old, oldRevision
}

// connect opens a session and lists the tools.
func (a *Agent) connect(ctx context.Context, n int) error {
	server, revision := a.server.attempt(n)
	s, err := connect(ctx, server, revision, &a.o, a.log, func() {
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

// lose drops a session that has ended and records why.
func (a *Agent) lose(s *session, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = why
	if s != nil && a.session == s {
		a.session, a.up = nil, make(chan struct{})
	}
}

// await returns the session, waiting up to awayPatience for one.
func (a *Agent) await(ctx context.Context) (*session, error) {
	patience := time.NewTimer(awayPatience)
	defer patience.Stop()
	for {
		a.mu.Lock()
		s, up, away := a.session, a.up, a.away
		a.mu.Unlock()
		if s != nil {
			select {
			case <-s.ended: // Run will notice
				up = nil
			default:
				if !s.lost.Load() {
					return s, nil
				}
				up = nil
			}
		}
		select {
		case <-up:
		case <-time.After(awayPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, fmt.Errorf("the server %s is away: %w", a.server.Name, cmp.Or(away, errors.New("it is connected again")))
		}
	}
}
