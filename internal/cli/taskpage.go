package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newTaskShow(asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what is known of a task, also of one that is done", Example: "  cortex tasks show 5f0c2a54", Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.showTask(ctx, b, args[0], *asJSON) })
		},
		ValidArgsFunction: first(e.completeIDs(taskIDs)),
	}
}

// taskJSON is a task in JSON output, with its result.
type taskJSON struct {
	openTask
	Settled time.Time `json:"settled,omitzero"`
	Result  string    `json:"result,omitempty"`
}

func (e *env) showTask(ctx context.Context, b *backend, given string, asJSON bool) error {
	found := map[string]taskJSON{}
	damaged := 0
	id, err := whole("task", given, func(yield func(string, error) bool) {
		n := 0
		for info, err := range b.store.Contexts(ctx, b.tenant) {
			if n++; err != nil || n > scanned {
				if err != nil {
					yield("", err)
				}
				return
			}
			conv, err := storage.Load(ctx, b.store, b.tenant, info.ContextID)
			if errors.Is(err, conversation.ErrDamaged) {
				damaged++
				continue
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, t := range conv.TaskList() {
				id := string(t.ID)
				if !strings.HasPrefix(id, given) {
					continue
				}
				found[id] = taskJSON{newOpenTask(info.ContextID, t), t.Settled, t.Result}
				if !yield(id, nil) {
					return
				}
			}
		}
	})
	if err != nil {
		return err
	}
	t, ok := found[id]
	if !ok {
		e.tellDamaged(damaged)
		return fmt.Errorf("%s: no such task is remembered: `cortex tasks` lists the open ones, `cortex conversations history` what came of others", id)
	}
	if asJSON {
		return writeJSON(e, t)
	}
	alike, err := b.lookalikes(ctx)
	if err != nil {
		return err
	}
	alike.Add(t.Agent)
	return e.show(taskPage(&t, alike.Named, time.Now()))
}

// taskPage returns the page of a task.
func taskPage(t *taskJSON, named func(string) string, now time.Time) *table.Table {
	p := &table.Table{Columns: make([]table.Column, 2), Wrap: true}
	field := func(name, text string) {
		if text != "" {
			p.Row(name, text)
		}
	}
	when := func(name string, at time.Time) {
		if !at.IsZero() {
			field(name, at.Local().Format(time.DateTime))
		}
	}
	field("task", string(t.TaskID))
	field("conversation", t.ContextID)
	field("agent", named(t.Agent))
	field("asked", t.Text)
	field("state", repl.StateName(t.State))
	for i, agent := range t.Tried {
		field(fmt.Sprintf("attempt %d", i+1), named(agent))
	}
	when("sent", t.Sent)
	if t.Settled.IsZero() {
		when("deadline", t.Deadline)
	} else {
		when("ended", t.Settled)
	}
	field("result", t.Result)
	return p
}
