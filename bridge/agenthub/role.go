package agenthub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Role returns the role of `cortex serve` by which programs of AgentHub find Cortex.
func Role() role.Role {
	return role.Role{
		Name: "agenthub", About: "Programs of AgentHub connect to Cortex (--agenthub), or Cortex to their broker (--agenthub-broker).", Open: open,
	}
}

// open adds the flags.
func open(f *flag.FlagSet) role.Run {
	var at, prefix string
	address(f, "agenthub", &at, "`ADDRESS`: where Cortex is AgentHub's broker, such as 127.0.0.1:50051")
	f.Func("agenthub-prefix", "`TEXT`: what the names of AgentHub's agents begin with in Cortex, such as hub.", func(text string) error {
		if err := transport.CheckID(text); text != "" && err != nil {
			return err
		}
		prefix = text
		return nil
	})
	return func(ctx context.Context, site *role.Site) error {
		if at == "" {
			return nil
		}
		h, err := newHub(site, prefix, usual)
		if err != nil {
			return err
		}
		return h.run(ctx, func(ctx context.Context) error {
			l, err := site.Listen(ctx, at)
			if err != nil {
				return err
			}
			site.Logger.Info("AgentHub's broker", "address", l.Addr().String())
			if !isLoopback(l.Addr()) {
				site.Logger.Warn("AgentHub has no keys: whoever reaches this address can ask Cortex, and be an agent of it", "address", l.Addr().String())
			}
			site.Ready()
			return h.serve(ctx, l)
		})
	}
}

// address adds a flag for the address host:port. The host has to be given, so that nobody listens to a network by chance.
func address(f *flag.FlagSet, name string, to *string, about string) {
	f.Func(name, about, func(text string) error {
		host, _, err := net.SplitHostPort(text)
		switch {
		case text == "" || text == "none":
			*to = ""
			return nil
		case err != nil:
			return errors.New("want host:port, such as 127.0.0.1:50051")
		case host == "":
			return fmt.Errorf("want a host as well: 127.0.0.1%s for programs on this machine, 0.0.0.0%s for all networks, without keys", text, text)
		}
		*to = text
		return nil
	})
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
