// Package roles runs what a program has beside its service, see package role.
package roles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The pauses before a failed role is restarted.
const (
	rolePause    = 500 * time.Millisecond
	maxRolePause = 30 * time.Second
)

// Group runs roles beside a node. The zero value has none. Its methods are safe for concurrent use.
type Group struct {
	all    []*running
	stop   context.CancelFunc
	group  errgroup.Group
	failed chan error
}

// running is one role.
type running struct {
	name string
	run  role.Run
	line func(error) string

	mu    sync.Mutex
	state string // why it is waiting or has failed; "" when it works
	ready bool   // it was ready once, or has failed: the service no longer waits for it
}

// New returns a group of roles, which [Group.Start] runs. line returns the text of an error on one line.
func New(line func(error) string, of ...Role) *Group {
	g := &Group{failed: make(chan error, len(of))}
	for _, r := range of {
		g.all = append(g.all, &running{name: r.Name, run: r.Run, line: line, state: "it is starting"})
	}
	return g
}

// Role is a role with the flags that it was opened with.
type Role struct {
	Name string
	Run  role.Run
}

// Failed returns the channel of the errors of roles that end the service.
func (g *Group) Failed() <-chan error { return g.failed }

// Start runs the roles until [Group.End], each at what site returns, with a Logger and a Ready of its own.
func (g *Group) Start(ctx context.Context, site func() *role.Site) {
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, r := range g.all {
		at := site()
		at.Logger, at.Listeners, at.Ready, at.Waits = at.Logger.With("role", r.name), len(g.all)+1, func() { r.tell(true, "") }, r.waits
		g.group.Go(func() error {
			if err := r.keep(ctx, at, at.Logger); err != nil {
				g.failed <- fmt.Errorf("%s: %w", r.name, err)
			}
			return nil
		})
	}
}

// keep runs a role repeatedly until ctx ends, or the role has nothing to do or cannot continue.
func (r *running) keep(ctx context.Context, at *role.Site, log *slog.Logger) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: rolePause, MaxInterval: maxRolePause, Multiplier: 2, RandomizationFactor: 0.25}
	for {
		began := time.Now()
		err := r.once(ctx, at, log)
		switch {
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, context.Canceled) {
				log.Warn("role has not ended well", "err", r.line(err))
			}
			return nil
		case err == nil:
			r.tell(true, "")
			return nil
		case transport.IsPermanent(err):
			return err
		}
		if time.Since(began) > maxRolePause {
			pauses.Reset()
		}
		pause := pauses.NextBackOff()
		r.tell(true, fmt.Sprintf("it has failed and is run again: %s", r.line(err)))
		log.Error("role has failed", "err", r.line(err), "again_in", pause.Round(time.Millisecond))
		if rest.For(ctx, pause) != nil {
			return nil
		}
	}
}

// once runs a role, and closes the listeners that it left open, so that its next run can listen again. A panic counts as a failure.
func (r *running) once(ctx context.Context, at *role.Site, log *slog.Logger) (err error) {
	defer at.Close()
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("role has panicked", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return r.run(ctx, at)
}

// tell records the state of a role.
func (r *running) tell(ready bool, state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.state = ready, state
}

// waits records why a role waits; nil: it works. Whether it has begun stays as it is.
func (r *running) waits(why error) {
	state := ""
	if why != nil {
		state = "it waits: " + r.line(why)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready {
		r.state = state
	}
}

// Trouble returns a line for each role that does not work. The error names a role that has not started yet.
func (g *Group) Trouble() (lines []string, starting error) {
	for _, r := range g.all {
		r.mu.Lock()
		if line := "role " + r.name + ": " + r.state; !r.ready {
			starting = errors.New(line)
		} else if r.state != "" {
			lines = append(lines, line)
		}
		r.mu.Unlock()
	}
	return lines, starting
}

// End ends the roles, and waits a bounded time for them.
func (g *Group) End(log *slog.Logger) {
	if g.stop == nil {
		return // none were started
	}
	g.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.group.Wait() //nolint:errcheck // it has none
	}()
	select {
	case <-ended:
	case <-time.After(role.Grace):
		log.Error("a role does not end, and is left behind")
	}
}
