package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

func (e *env) newAgents() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var flags listFlags
		flags.add(c.Flags())
		c.Args = typed.Exact()
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			q, err := flags.filter()
			if err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(_ context.Context, b *backend) error { return e.listAgents(b, q, flags.limit, asJSON) })
		}
		return c
	}
	c := list(&cobra.Command{
		Use:   "agents",
		Short: "List the agents that are online",
		Long:  `List the agents that are online: all of them, or those that fit every flag that is given.`,
		Example: `  cortex agents
  cortex agents --ability product.search --version '>=1.2.0 <2.0.0'
  cortex agents show agent_echo
  cortex agents watch`,
	})
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "as JSON")
	c.PersistentFlags().StringVar(&e.settings.node.wellKnown, "well-known", "", "`FILE`: JSON list of agents that are shown even while they do not run")
	c.PersistentFlags().BoolVar(&e.settings.node.strict, "strict-abilities", false, "with --nats: the Cortex there has this flag")
	setting(c.PersistentFlags(), "well-known", "strict-abilities")
	c.AddCommand(
		list(&cobra.Command{
			Use: "list", Short: "List the agents that are online, or those that fit",
			Example: "  cortex agents list --tag tier=core --tag search\n  cortex agents list --text 'invoice customer' --state active --json",
		}),
		e.newAbilities(&asJSON),
		&cobra.Command{
			Use: "show ID", Short: "Show what is known of an agent", Example: "  cortex agents show agent_echo", Args: typed.Exact("ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
					id, err := b.agent(ctx, args[0])
					if err != nil {
						return err
					}
					return e.showAgent(b, id, asJSON)
				})
			},
			ValidArgsFunction: first(e.completeIDs(agentIDs)),
		},
		e.newWatch(&asJSON),
		e.newForget(&asJSON),
	)
	return c
}

func (e *env) newAbilities(asJSON *bool) *cobra.Command {
	var most limit
	c := &cobra.Command{
		Use: "abilities", Short: "List what the agents can do, and who offers it", Example: "  cortex agents abilities --json", Args: typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := most.check(); err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(_ context.Context, b *backend) error { return e.listAbilities(b, most, *asJSON) })
		},
	}
	most.add(c.Flags())
	return c
}

// withBackend joins the running Cortex and calls f with a backend on it.
func (e *env) withBackend(ctx context.Context, f func(context.Context, *backend) error) error {
	log := e.commandLog(slog.LevelError)
	l, err := e.settings.mustJoin(ctx, "look", log, nil)
	if err != nil {
		return err
	}
	b, closeAll, err := e.settings.watch(ctx, l, log)
	if err != nil {
		return err
	}
	if _, err = b.known(ctx); err == nil {
		err = f(ctx, b)
	}
	if cerr := closeAll(); err == nil {
		err = cerr
	}
	return err
}

func writeJSON(e *env, v any) error {
	return view.WriteJSON(e.stdout, v)
}
