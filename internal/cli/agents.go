package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newAgents() *cobra.Command {
	var asJSON bool
	list := func(cmd *cobra.Command, _ []string) error {
		return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.listAgents(b, asJSON) })
	}
	c := &cobra.Command{
		Use:     "agents",
		Short:   "List the agents that are online",
		Example: "  cortex agents\n  cortex agents show agent_echo\n  cortex agents watch",
		Args:    exactArgs(),
		RunE:    list,
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "as JSON")
	c.PersistentFlags().StringVar(&e.settings.node.wellKnown, "well-known", "", "JSON `FILE` of agents that are listed also while they do not run")
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the agents that are online", Example: "  cortex agents list --json", Args: exactArgs(), RunE: list},
		&cobra.Command{
			Use: "show ID", Short: "Show an agent's card", Example: "  cortex agents show agent_echo", Args: exactArgs("ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.showAgent(b, args[0], asJSON) })
			},
		},
		&cobra.Command{
			Use: "watch", Short: "Print agents as they join, change and leave", Example: "  cortex agents watch --json", Args: exactArgs(),
			RunE: func(cmd *cobra.Command, _ []string) error { return e.watchAgents(cmd.Context(), asJSON) },
		},
	)
	return c
}

// withBackend calls f with what the running Cortex knows.
func (e *env) withBackend(ctx context.Context, f func(context.Context, *backend) error) error {
	log := e.settings.logger(e.stderr, slog.LevelError)
	l, err := e.settings.mustJoin(ctx, "look", log, nil)
	if err != nil {
		return err
	}
	b, closeAll, err := e.settings.watch(ctx, l, log)
	if err != nil {
		return err
	}
	err = f(ctx, b)
	if cerr := closeAll(); err == nil {
		err = cerr
	}
	return err
}

func (e *env) listAgents(b *backend, asJSON bool) error {
	records := b.registry.Snapshot().Agents()
	if asJSON {
		return writeJSON(e, recordsJSON(records))
	}
	if len(records) == 0 {
		fmt.Fprintln(e.stderr, "no agent is online: start one with `cortex agent echo`")
		return nil
	}
	now := time.Now()
	t := newTable(e.stdout, "AGENT", "STATE", "INSTANCES", "SEEN", "DESCRIPTION")
	for _, r := range records {
		t.row(r.ID, string(r.State), fmt.Sprint(len(r.Instances)), r.LastSeenText(now), r.Card.Description)
	}
	return t.flush()
}

func (e *env) showAgent(b *backend, id string, asJSON bool) error {
	r, ok := b.registry.Snapshot().Get(id)
	if !ok {
		return fmt.Errorf("no agent %s is known: `cortex agents` lists those that are", id)
	}
	j := recordsJSON([]*registry.Record{r})[0]
	if asJSON {
		return writeJSON(e, j)
	}
	out, err := yaml.Marshal(j)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(e.stdout, repl.Sanitize(string(out)))
	return err
}

func (e *env) watchAgents(ctx context.Context, asJSON bool) error {
	log := e.settings.logger(e.stderr, slog.LevelError)
	l, err := e.settings.mustJoin(ctx, "watch", log, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	wellKnown, err := e.settings.loadWellKnown()
	if err != nil {
		return err
	}
	r := registry.New(registry.Config{Tenant: l.tenant, WellKnown: wellKnown, Logger: log, OnChange: func(c registry.Change) {
		if asJSON {
			json.NewEncoder(e.stdout).Encode(changeJSON(c)) //nolint:errcheck // a reader that went away ends the process
			return
		}
		fmt.Fprintf(e.stdout, "%s  %-9s %s\n", time.Now().Format(time.TimeOnly), c.Kind, repl.Sanitize(c.AgentID))
	}})
	if err := r.Run(ctx, l.bus); ctx.Err() == nil {
		return err
	}
	return nil
}

func writeJSON(e *env, v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
