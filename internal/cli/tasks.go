package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

func (e *env) newTasks() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var most limit
		var all bool
		c.Args = typed.Exact()
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := most.check(); err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error { return e.listTasks(ctx, b, most, all, asJSON) })
		}
		c.Flags().BoolVar(&all, "all", false, "also what is done, the last one first")
		most.add(c.Flags())
		return c
	}
	c := list(&cobra.Command{
		Use: "tasks", Short: "List what agents are working on", Example: "  cortex tasks\n  cortex tasks --all -n 10\n  cortex tasks show 5f0c2a54\n  cortex tasks cancel 5f0c2a54",
	})
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "as JSON")
	c.AddCommand(
		list(&cobra.Command{Use: "list", Short: "List what agents are working on", Example: "  cortex tasks list"}),
		e.newTaskShow(&asJSON),
		&cobra.Command{
			Use: "cancel ID", Short: "Cancel a task", Example: "  cortex tasks cancel 5f0c2a54", Args: typed.Exact("ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.cancelTask(ctx, l, args[0], asJSON) })
			},
			ValidArgsFunction: first(e.completeIDs(taskIDs)),
		},
	)
	return c
}

// taskInfo returns the row of a task in a list.
func taskInfo(t *view.Task) repl.TaskInfo {
	info := repl.TaskInfo{ID: t.TaskID, Agent: t.Agent, State: t.State, Attempt: t.Attempt, Text: t.Text, Started: t.Sent}
	if t.State.Terminal() {
		info.Ended = t.Settled
	}
	return info
}

// tellDamaged prints how many conversations are damaged, since their tasks are not listed.
func (e *env) tellDamaged(damaged int) {
	if damaged > 0 {
		e.say("%d of the conversations are damaged, and their tasks are not known: see `cortex doctor`", damaged)
	}
}

func (e *env) listTasks(ctx context.Context, b *backend, most limit, all, asJSON bool) error {
	n := e.most(most, asJSON)
	list, more := []view.Task{}, false
	var damaged int
	var err error
	if all {
		list, more, damaged, err = view.LastTasks(ctx, b.reader(), n, asJSON)
	} else {
		damaged, err = view.OpenTasks(ctx, b.reader(), func(t view.Task) bool { list = append(list, t); return true })
		list, more = list[:min(n, len(list))], n < len(list)
	}
	if err != nil {
		return err
	}
	defer e.tellDamaged(damaged)
	switch {
	case asJSON:
		return writeJSON(e, list)
	case len(list) == 0 && all:
		e.say("no agent has been given anything yet")
		return nil
	case len(list) == 0:
		e.say("no agent is working on anything: `cortex tasks --all` lists what is done, too")
		return nil
	}
	alike, err := b.lookalikes(ctx)
	if err != nil {
		return err
	}
	infos := make([]repl.TaskInfo, len(list))
	for i := range list {
		alike.Add(list[i].Agent) // the agent may be gone
		infos[i] = taskInfo(&list[i])
	}
	if err := e.show(repl.TaskTable(infos, alike.Named, time.Now())); err != nil {
		return err
	}
	e.sayMore(more)
	return nil
}

var errNoTask = errors.New("no such open task: `cortex tasks` lists them")

// findTask returns the task whose id is or begins with given, see [whole], of those that each calls of with while it returns true; else none.
func (e *env) findTask(given string, none error, each func(of func(view.Task) bool) (damaged int, err error)) (t view.Task, err error) {
	all := map[string]view.Task{}
	damaged := 0
	id, err := whole("task", given, func(yield func(string, error) bool) {
		more := true
		var err error
		damaged, err = each(func(t view.Task) bool {
			if id := string(t.TaskID); strings.HasPrefix(id, given) {
				all[id] = t
				more = yield(id, nil)
			}
			return more
		})
		if err != nil && more {
			yield("", err)
		}
	})
	if err != nil {
		return t, err
	}
	t, ok := all[id]
	if !ok {
		e.tellDamaged(damaged)
		return t, fmt.Errorf("%s: %w", id, none)
	}
	return t, nil
}

func (e *env) cancelTask(ctx context.Context, l *link, given string, asJSON bool) error {
	found, err := e.findTask(given, errNoTask, func(of func(view.Task) bool) (int, error) { return view.OpenTasks(ctx, l.reader(), of) })
	if err != nil {
		return err
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
	if asJSON {
		return writeJSON(e, found)
	}
	e.tell("canceling what %s does in conversation %s", found.Agent, found.ContextID)
	return nil
}
