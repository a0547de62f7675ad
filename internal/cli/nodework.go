package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/garbage"
	"github.com/cortex-orchestrator/cortex/internal/policyfile"
	"github.com/cortex-orchestrator/cortex/internal/retain"
	"github.com/cortex-orchestrator/cortex/transport"
)

// runRegistry runs the registry, and waits until it knows the agents that are there.
func (n *node) runRegistry(ctx context.Context) error {
	n.watch.run(func(ctx context.Context) error {
		garbage.Gather(ctx)
		return nil
	})
	unwatched := make(chan error, 1)
	n.watch.run(func(ctx context.Context) error {
		err := persist(ctx, func(ctx context.Context) error { return n.Registry.Run(ctx, n.bus) })
		unwatched <- err
		return err
	})
	n.work.run(func(ctx context.Context) error {
		select {
		case err := <-unwatched: // not that of watch, whose other part ends only when the node does
			return err
		case <-ctx.Done():
			return nil
		}
	})
	if err := awaitCards(ctx, n.Registry.Synced(), n.Registry.Heard); !errors.Is(err, errUnlisted) {
		return err
	}
	return fmt.Errorf("%w: is the NATS server overloaded?", errUnlisted)
}

// errUnlisted is returned when the agents that are there are not known.
var errUnlisted = fmt.Errorf("the list of agents did not arrive within %v", syncTimeout)

// awaitCards waits until the list of agents has arrived. It returns ctx's error, or errUnlisted when nothing more of the list has arrived for syncTimeout: all of a
// long one takes longer on a busy machine, and a service that gave up would never start. After maxSyncs times that it is errUnlisted whatever has arrived, since
// agents announce themselves again and again.
func awaitCards(ctx context.Context, arrived <-chan struct{}, heard func() uint64) error {
	last := uint64(0)
	for range maxSyncs {
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(syncTimeout):
		}
		n := heard()
		if n == last {
			break
		}
		last = n
	}
	return errUnlisted
}

// runWork runs the orchestrator, and what keeps the store, the files and the folder.
func (n *node) runWork(s *settings, rules *policyfile.File) error {
	run := func(part func(context.Context)) {
		n.work.run(func(ctx context.Context) error {
			part(ctx)
			return nil
		})
	}
	n.work.run(func(ctx context.Context) error { return persist(ctx, n.orchestrator.Run) })
	run(rules.Watch)
	n.work.run(func(ctx context.Context) error { return announce(ctx, n.bus, s.tenant) })
	run(func(ctx context.Context) { n.returns.watch(ctx, n.bus, s.tenant) })
	if n.claim != nil {
		n.work.run(n.watchFolder)
	}
	if n.server != nil {
		run(func(ctx context.Context) { n.server.Watch(ctx, n.store) })
		n.work.run(n.watchServer)
	}
	run(n.clock.Watch)
	if keeper, ok := n.bus.(transport.FileKeeper); ok {
		run(func(ctx context.Context) {
			retain.Files(ctx, n.leads, func() bool { return n.lacks(s.data) }, n.store, keeper, s.tenant, n.clock, n.left, n.log)
		})
	}
	store, bus, err := n.erasers()
	if err == nil {
		run(func(ctx context.Context) {
			retain.Deletions(ctx, n.leads, &erase.Deletions{Store: store, Bus: bus, Tenant: s.tenant}, s.data, n.log)
		})
	}
	if n.clock.Retain > 0 {
		if err != nil {
			return s.wrong("retain", ": %w", err)
		}
		run(func(ctx context.Context) {
			retain.Conversations(ctx, n.leads, store, bus, s.tenant, s.data, n.clock, n.log)
		})
	}
	return nil
}

// watchFolder returns an error when the data folder is not this process's any more.
func (n *node) watchFolder(ctx context.Context) error {
	err := n.claim.Watch(ctx)
	if err != nil {
		n.log.Error("the data folder is lost", "err", err)
	}
	return err
}

// watchServer returns an error when the server has given up its store: the supervisor of this process restarts it.
func (n *node) watchServer(ctx context.Context) error {
	select {
	case err := <-n.server.Broken():
		err = whyBroken(err)
		n.broken.Store(&err)
		return err
	case <-ctx.Done():
		return nil
	}
}

// leaveAddress writes where others find the embedded server, if others can reach it.
func (n *node) leaveAddress(s *settings) error {
	if n.server == nil || n.server.URL() == "" {
		return nil
	}
	a := datadir.Address{URL: n.server.URL(), Server: n.server.ID(), Version: buildVersion(), PID: os.Getpid(), Passing: s.node.passing, LLM: s.describeLLM(), Node: n.set}
	if err := datadir.LeaveAddress(s.data, a); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	datadir.KeepPort(s.data, n.server.URL())
	if n.claim != nil {
		n.work.run(func(ctx context.Context) error {
			n.claim.KeepAddress(ctx, a, n.log)
			return nil
		})
	}
	return nil
}
