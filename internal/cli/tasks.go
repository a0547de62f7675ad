package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// scanned bounds the conversations that are searched for open tasks, the latest first.
const scanned = 1000

func (e *env) newTasks() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var most limit
		c.Args = exactArgs()
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := most.check(); err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.listTasks(ctx, b, most, asJSON) })
		}
		most.add(c.Flags())
		return c
	}
	c := list(&cobra.Command{
		Use: "tasks", Short: "List what agents are working on", Example: "  cortex tasks\n  cortex tasks show 5f0c2a54\n  cortex tasks cancel 5f0c2a54",
	})
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "as JSON")
	c.AddCommand(
		list(&cobra.Command{Use: "list", Short: "List what agents are working on", Example: "  cortex tasks list"}),
		e.newTaskShow(&asJSON),
		&cobra.Command{
			Use: "cancel ID", Short: "Cancel a task", Example: "  cortex tasks cancel 5f0c2a54", Args: exactArgs("ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.cancelTask(ctx, l, args[0]) })
			},
			ValidArgsFunction: first(e.completeIDs(taskIDs)),
		},
	)
	return c
}

// openTask is a task that is with its agent or waits for the user. A task that waits for consent has not been sent.
type openTask struct {
	ContextID string        `json:"contextId"`
	TaskID    a2a.TaskID    `json:"taskId"`
	Agent     string        `json:"agent"`
	State     a2a.TaskState `json:"state"`
	Attempt   int           `json:"attempt"` // from 1
	Tried     []string      `json:"tried"`   // the agents of earlier attempts, in order
	Text      string        `json:"text"`
	Sent      time.Time     `json:"sent"`
	Deadline  time.Time     `json:"deadline"`
}

func newOpenTask(contextID string, t *conversation.Task) openTask {
	o := openTask{contextID, t.ID, t.Agent, t.State(), max(t.Attempt, 1), []string{}, t.Text, t.Sent, t.Deadline}
	for _, a := range t.Tried {
		o.Tried = append(o.Tried, a.Agent)
	}
	return o
}

// openTasks calls f for each open task of the latest conversations, until f returns false. It returns how many conversations are damaged, whose tasks
// are unknown.
func openTasks(ctx context.Context, l *link, f func(openTask) bool) (damaged int, err error) {
	n := 0
	for info, err := range l.store.Contexts(ctx, l.tenant) {
		if err != nil {
			return damaged, err
		}
		if n++; n > scanned {
			return damaged, nil
		}
		conv, err := storage.Load(ctx, l.store, l.tenant, info.ContextID)
		if errors.Is(err, conversation.ErrDamaged) {
			damaged++
			continue
		}
		if err != nil {
			return damaged, err
		}
		for _, t := range slices.Concat(conv.Running(), conv.Waiting(), conv.Asked()) {
			if !f(newOpenTask(info.ContextID, t)) {
				return damaged, nil
			}
		}
	}
	return damaged, nil
}

// tellDamaged prints how many conversations are damaged, since their tasks are not listed.
func (e *env) tellDamaged(damaged int) {
	if damaged > 0 {
		fmt.Fprintf(e.stderr, "%d of the conversations are damaged, and their tasks are not known: see `cortex doctor`\n", damaged)
	}
}

func (e *env) listTasks(ctx context.Context, b *backend, most limit, asJSON bool) error {
	list := []openTask{}
	damaged, err := openTasks(ctx, b.link, func(t openTask) bool { list = append(list, t); return true })
	if err != nil {
		return err
	}
	defer e.tellDamaged(damaged)
	if asJSON {
		return writeJSON(e, list[:min(e.most(most, asJSON), len(list))])
	}
	if len(list) == 0 {
		fmt.Fprintln(e.stderr, "no agent is working on anything")
		return nil
	}
	alike, err := b.lookalikes(ctx)
	if err != nil {
		return err
	}
	shown := list[:min(e.most(most, asJSON), len(list))]
	infos := make([]repl.TaskInfo, len(shown))
	for i, o := range shown {
		alike.Add(o.Agent) // the agent may be gone
		infos[i] = repl.TaskInfo{ID: o.TaskID, Agent: o.Agent, State: o.State, Attempt: o.Attempt, Text: o.Text, Started: o.Sent}
	}
	if err := e.show(repl.TaskTable(infos, alike.Named, time.Now())); err != nil {
		return err
	}
	e.sayMore(len(shown) < len(list))
	return nil
}

var errNoTask = errors.New("no such open task: `cortex tasks` lists them")

func (e *env) cancelTask(ctx context.Context, l *link, given string) error {
	open := map[string]openTask{}
	damaged := 0
	id, err := whole("task", given, func(yield func(string, error) bool) {
		var err error
		more := true
		damaged, err = openTasks(ctx, l, func(t openTask) bool {
			open[string(t.TaskID)] = t
			more = yield(string(t.TaskID), nil)
			return more
		})
		if err != nil && more {
			yield("", err)
		}
	})
	if err != nil {
		return err
	}
	found, ok := open[id]
	if !ok {
		e.tellDamaged(damaged)
		return fmt.Errorf("%s: %w", id, errNoTask)
	}
	x, c := transport.Cancel{TaskID: found.TaskID}, l.operator()
	if l.sender != "" {
		conv, err := storage.Load(ctx, l.store, l.tenant, found.ContextID)
		if err != nil {
			return err
		}
		if why := conv.WhyRefused(&transport.Event{From: c.User, Payload: &x}); why != "" {
			return errors.New(inside(why))
		}
	}
	if err := c.Cancel(ctx, found.ContextID, x); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "canceling what %s does in conversation %s\n", found.Agent, found.ContextID)
	return nil
}
