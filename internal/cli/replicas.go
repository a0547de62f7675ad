package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

func (e *env) newReplicas() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "replicas",
		Short: "List the processes that share the work",
		Long: `List the Cortex processes that serve the tenant, and which of the four partitions of conversations each owns. The work is
shared by whoever uses the same server: start another with ` + "`cortex serve --nats URL`" + `, and it takes its part; when one ends
or is killed, the others take over.`,
		Example: "  cortex replicas\n  cortex replicas --nats nats://127.0.0.1:4222 --json",
		Args:    typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.listReplicas(ctx, l, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (e *env) listReplicas(ctx context.Context, l *link, asJSON bool) error {
	o, err := ability[transport.Owners](l.bus, "this transport does not tell who owns what")
	if err != nil {
		return err
	}
	owners, err := o.Owners(ctx, transport.Inbox(l.tenant, transport.Cortex))
	if err != nil {
		return err
	}
	if asJSON {
		list := make([]view.ReplicaJSON, len(owners))
		for i, o := range owners {
			list[i] = view.NewReplicaJSON(&o)
		}
		return writeJSON(e, list)
	}
	if len(owners) == 0 {
		e.say("%s", l.absent)
		return nil
	}
	return e.showReplicas(owners)
}

func (e *env) showReplicas(owners []transport.Owner) error {
	now := time.Now()
	t := table.New("REPLICA", "PROCESS", "SINCE", "OWNS", "PARTITIONS")
	owned := 0
	for _, o := range owners {
		owned += len(o.Partitions)
		t.Row(o.ID, o.Label, table.Ago(o.Since, now), fmt.Sprintf("%d of %d", len(o.Partitions), transport.Partitions), view.Ranges(o.Partitions))
	}
	if err := e.show(t); err != nil {
		return err
	}
	if free := transport.Partitions - owned; free > 0 {
		screen.Print(e.stderr, "%d partitions change their owner just now", free)
	}
	return nil
}

// processLabel returns the name of this process in the list of replicas.
func processLabel() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", prompt.Clean(host, 64), os.Getpid())
}
