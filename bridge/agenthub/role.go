package agenthub

import (
	"cmp"
	"context"
	"errors"
	"flag"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Role returns the role of `cortex serve` by which programs of AgentHub find Cortex.
func Role() role.Role {
	return role.Role{
		Name: "agenthub", About: "Programs of AgentHub connect to Cortex (--agenthub), or Cortex to their broker (--agenthub-broker).", Open: open,
	}
}

// options are the role's flags.
type options struct {
	hub, broker string // addresses
	id, prefix  string
}

// open adds the flags.
func open(f *flag.FlagSet) role.Run {
	o := options{}
	const example = "127.0.0.1:50051"
	kit.AddressFlag(f, "agenthub", &o.hub, example, "`ADDRESS`: where Cortex is AgentHub's broker, such as 127.0.0.1:50051")
	kit.AddressFlag(f, "agenthub-broker", &o.broker, example, "`ADDRESS`: of AgentHub's own broker, whose agents Cortex has work, and whose chats it answers")
	kit.WordFlag(f, "agenthub-id", &o.id, "`NAME`: of Cortex at --agenthub-broker, where a cortex may be already (default cortex)")
	kit.WordFlag(f, "agenthub-prefix", &o.prefix, "`TEXT`: what the names of AgentHub's agents begin with in Cortex, such as hub.")
	return o.run
}

func (o *options) run(ctx context.Context, at *role.Site) error {
	switch {
	case o.hub != "" && o.broker != "":
		return transport.Permanent(errors.New("--agenthub and --agenthub-broker: give one of them"))
	case o.hub != "":
		return o.runHub(ctx, at)
	case o.broker != "":
		return o.runBroker(ctx, at)
	}
	return nil
}

// runHub has Cortex be the broker.
func (o *options) runHub(ctx context.Context, at *role.Site) error {
	h, err := newHub(at, o.prefix, usual)
	if err != nil {
		return err
	}
	return h.run(ctx, func(ctx context.Context) error {
		l, err := at.Listen(ctx, o.hub)
		if err != nil {
			return err
		}
		at.Logger.Info("AgentHub's broker", "address", l.Addr().String())
		if !kit.IsLoopback(l.Addr().String()) {
			at.Logger.Warn("AgentHub has no keys: whoever reaches this address can ask Cortex, and be an agent of it", "address", l.Addr().String())
		}
		at.Ready()
		return h.serve(ctx, l)
	})
}

// runBroker has Cortex be a client of a broker.
func (o *options) runBroker(ctx context.Context, at *role.Site) error {
	b, err := newBroker(at, o.prefix, cmp.Or(o.id, transport.Cortex), usual)
	if err != nil {
		return err
	}
	return b.run(ctx, func(ctx context.Context) error {
		if !kit.IsLoopback(o.broker) {
			at.Logger.Warn("AgentHub has neither keys nor encryption: whoever is between here and its broker can read and change all", "address", o.broker)
		}
		at.Ready() // the broker may come later
		return b.connect(ctx, o.broker)
	})
}
