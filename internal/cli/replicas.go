package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/table"
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
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.listReplicas(ctx, l, asJSON) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

type replicaJSON struct {
	ID         string    `json:"id"`
	Process    string    `json:"process"`
	Since      time.Time `json:"since"`
	Partitions []int     `json:"partitions"`
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
		list := make([]replicaJSON, len(owners))
		for i, o := range owners {
			list[i] = replicaJSON{o.ID, o.Label, o.Since, append([]int{}, o.Partitions...)}
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
		t.Row(o.ID, o.Label, table.Ago(o.Since, now), fmt.Sprintf("%d of %d", len(o.Partitions), transport.Partitions), ranges(o.Partitions))
	}
	if err := e.show(t); err != nil {
		return err
	}
	if free := transport.Partitions - owned; free > 0 {
		printText(e.stderr, "%d partitions change their owner just now", free)
	}
	return nil
}

// ranges formats ordered numbers as ranges: 0-15, 32-47.
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		part := strconv.Itoa(n[i])
		if j > i {
			part += "-" + strconv.Itoa(n[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// processLabel returns the name of this process in the list of replicas.
func processLabel() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", prompt.Clean(host, 64), os.Getpid())
}
