package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// besides runs the roles of the program for one command line. Its methods are safe for concurrent use.
type besides struct {
	all    []*beside
	stop   context.CancelFunc
	group  errgroup.Group
	failed chan error // the errors of roles that end the service
}

// beside is one running role.
type beside struct {
	name string
	run  role.Run

	mu    sync.Mutex
	state string // why it is waiting or has failed; "" when it works
	ready bool   // it was ready once, or has failed: the service no longer waits for it
}

// addRoles adds the flags of the program's roles to a command, and returns the roles.
func (s *settings) addRoles(c *cobra.Command) *besides {
	b := &besides{failed: make(chan error, len(s.program.Roles))}
	for i, r := range s.program.Roles {
		own := flag.NewFlagSet(r.Name, flag.ContinueOnError)
		b.all = append(b.all, &beside{name: r.Name, run: r.Open(own), state: "it is starting"})
		own.VisitAll(func(f *flag.Flag) {
			if f.Name == "help" || f.Name == "h" || c.Flags().Lookup(f.Name) != nil || s.flags.Lookup(f.Name) != nil {
				panic(fmt.Sprintf("the role %q: there is a flag --%s already", r.Name, f.Name))
			}
			c.Flags().AddFlag(pflag.PFlagFromGoFlag(f))
			setting(c.Flags(), f.Name)
			c.Flags().SetAnnotation(f.Name, ownMark, nil) //nolint:errcheck // there is such a flag
		})
		if i == 0 {
			c.Long += "\n\nBeside it run, where their flags are given:\n"
		}
		c.Long += fmt.Sprintf("\n    %-12s %s", r.Name, r.About)
	}
	return b
}

// start runs the roles beside a node, until [besides.end].
func (b *besides) start(ctx context.Context, n *node) {
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, r := range b.all {
		log := n.log.With("role", r.name)
		at := &role.Site{
			Tenant: n.tenant, Logger: log, Client: n.client(), Transport: n.bus, Store: n.store, Agents: n.online, Leads: n.leads,
			Ready: func() { r.tell(true, "") }, Listeners: len(b.all) + 1,
		}
		b.group.Go(func() error {
			if err := r.keep(ctx, at, log); err != nil {
				b.failed <- fmt.Errorf("%s: %w", r.name, err)
			}
			return nil
		})
	}
}

// keep runs a role repeatedly until ctx ends, or the role has nothing to do or cannot continue.
func (r *beside) keep(ctx context.Context, at *role.Site, log *slog.Logger) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: rolePause, MaxInterval: maxRolePause, Multiplier: 2, RandomizationFactor: 0.25}
	for {
		began := time.Now()
		err := r.once(ctx, at, log)
		switch {
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, context.Canceled) {
				log.Warn("role has not ended well", "err", oneLine(err))
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
		r.tell(true, fmt.Sprintf("it has failed and is run again: %s", oneLine(err)))
		log.Error("role has failed", "err", oneLine(err), "again_in", pause.Round(time.Millisecond))
		if rest.For(ctx, pause) != nil {
			return nil
		}
	}
}

// once runs a role, and closes the listeners that it left open, so that its next run can listen again. A panic counts as a failure.
func (r *beside) once(ctx context.Context, at *role.Site, log *slog.Logger) (err error) {
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
func (r *beside) tell(ready bool, state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready, r.state = ready, state
}

// trouble returns a line for each role that does not work. The error names a role that has not started yet.
func (b *besides) trouble() (lines []string, starting error) {
	for _, r := range b.all {
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

// end ends the roles, and waits a bounded time for them.
func (b *besides) end(log *slog.Logger) {
	if b.stop == nil {
		return // none were started
	}
	b.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.group.Wait() //nolint:errcheck // it has none
	}()
	select {
	case <-ended:
	case <-time.After(role.Grace):
		log.Error("a role does not end, and is left behind")
	}
}

// online returns the cards of the agents that can be given work.
func (n *node) online() []*a2a.AgentCard {
	var cards []*a2a.AgentCard
	for _, r := range n.Registry.Snapshot().Routable() {
		cards = append(cards, r.Card)
	}
	return cards
}
