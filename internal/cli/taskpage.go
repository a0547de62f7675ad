package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
)

func (e *env) newTaskShow(asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what is known of a task, also of one that is done", Example: "  cortex tasks show 5f0c2a54", Args: typed.Exact("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.showTask(ctx, b, args[0], *asJSON) })
		},
		ValidArgsFunction: first(e.completeIDs(taskIDs)),
	}
}

var errForgotten = errors.New("no such task is remembered: `cortex tasks --all` lists those that are")

func (e *env) showTask(ctx context.Context, b *backend, given string, asJSON bool) error {
	t, err := e.findTask(given, errForgotten, func(of func(view.Task) bool) (int, error) {
		return view.Latest(ctx, b.reader(), func(conv *conversation.Conversation, _ time.Time) bool {
			return !slices.ContainsFunc(view.Remembered(conv), func(t view.Task) bool { return !of(t) })
		})
	})
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(e, t)
	}
	alike, err := b.lookalikes(ctx)
	if err != nil {
		return err
	}
	alike.Add(t.Agent)
	return e.show(taskPage(&t, alike.Named))
}

// taskPage returns the page of a task.
func taskPage(t *view.Task, named func(string) string) *table.Table {
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
	field("state", client.StateName(t.State))
	for i, agent := range t.Tried {
		field(fmt.Sprintf("attempt %d", i+1), named(agent))
	}
	when("sent", t.Sent)
	switch {
	case t.Settled.IsZero():
		when("deadline", t.Deadline)
	case t.State.Terminal():
		when("ended", t.Settled)
	default: // it waits for the user's yes or reply
		when("waits since", t.Settled)
	}
	field("result", t.Result)
	return p
}
