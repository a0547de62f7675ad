package cli

import (
	"flag"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/internal/roles"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// addRoles adds the flags of the program's roles to a command, and returns the roles.
func (s *settings) addRoles(c *cobra.Command) *roles.Group {
	var all []roles.Role
	for i, r := range s.program.Roles {
		own := flag.NewFlagSet(r.Name, flag.ContinueOnError)
		all = append(all, roles.Role{Name: r.Name, Run: r.Open(own)})
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
	return roles.New(oneLine, all...)
}

// site returns what a role of the program works with.
func (n *node) site() *role.Site {
	return &role.Site{Tenant: n.tenant, Logger: n.log, Client: n.client(), Transport: n.bus, Store: n.store, Agents: n.online, Keyed: n.keyed, Leads: n.leads}
}

// keyed returns the ids of the agents that have keys of their own, as far as their folder is here.
func (n *node) keyed() ([]string, error) {
	if n.keys == "" {
		return nil, nil
	}
	ids, err := auth.AgentIDs(n.keys, n.tenant)
	if err != nil {
		n.unread.Do(func() {
			n.log.Warn("whose names have keys cannot be read: those count that were read last", "err", oneLine(err))
		})
	}
	return ids, err
}

// online returns the cards of the agents that can be given work.
func (n *node) online() []*a2a.AgentCard {
	var cards []*a2a.AgentCard
	for _, r := range n.Registry.Snapshot().Routable() {
		cards = append(cards, r.Card)
	}
	return cards
}
