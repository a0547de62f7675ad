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

// scanned bounds the conversations that are searched for tasks, the latest first.
const scanned = 1000

func (e *env) newTasks() *cobra.Command {
	var asJSON bool
	list := func(c *cobra.Command) *cobra.Command {
		var most limit
		var all bool
		c.Args = exactArgs()
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
			Use: "cancel ID", Short: "Cancel a task", Example: "  cortex tasks cancel 5f0c2a54", Args: exactArgs("ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.withLink(cmd.Context(), func(ctx context.Context, l *link) error { return e.cancelTask(ctx, l, args[0], asJSON) })
			},
			ValidArgsFunction: first(e.completeIDs(taskIDs)),
		},
	)
	return c
}

// task is a task of a conversation in JSON output. One that waits for consent has not been sent.
type task struct {
	ContextID string        `json:"contextId"`
	TaskID    a2a.TaskID    `json:"taskId"`
	Agent     string        `json:"agent"`
	State     a2a.TaskState `json:"state"`
	Attempt   int           `json:"attempt,omitempty"` // from 1; 0 is unknown
	Tried     []string      `json:"tried"`             // the agents of earlier attempts, in order
	Text      string        `json:"text"`
	Sent      time.Time     `json:"sent"`
	Deadline  time.Time     `json:"deadline,omitzero"`
	Settled   time.Time     `json:"settled,omitzero"`
	Result    string        `json:"result,omitempty"`
}

func newTask(contextID string, t *conversation.Task) task {
	j := task{contextID, t.ID, t.Agent, t.State(), max(t.Attempt, 1), []string{}, t.Text, t.Sent, t.Deadline, t.Settled, t.Result}
	for _, a := range t.Tried {
		j.Tried = append(j.Tried, a.Agent)
	}
	return j
}

// info returns the row of a list.
func (t *task) info() repl.TaskInfo {
	info := repl.TaskInfo{ID: t.TaskID, Agent: t.Agent, State: t.State, Attempt: t.Attempt, Text: t.Text, Started: t.Sent}
	if t.State.Terminal() {
		info.Ended = t.Settled
	}
	return info
}

// open lists the tasks that are with their agents or wait for the user.
func open(conv *conversation.Conversation) []task {
	var list []task
	for _, t := range slices.Concat(conv.Running(), conv.Asking(), conv.Held()) {
		list = append(list, newTask(conv.ContextID, t))
	}
	return list
}

// remembered lists the tasks of the turns that conv still holds, also those that are done. A task that asked the user is in the turn of each reply,
// too: it is listed once, with what was asked first, as it was in the last of them.
func remembered(conv *conversation.Conversation) []task {
	var list, kept []task
	held := map[a2a.TaskID]int{} // the places in kept
	for _, t := range conv.TaskList() {
		held[t.ID] = len(kept)
		kept = append(kept, newTask(conv.ContextID, t))
	}
	listed := map[a2a.TaskID]int{} // the places in list, -1 for one that is in kept
	for _, turn := range conv.Turns {
		if turn.Past == nil {
			continue
		}
		for _, step := range turn.Past.Steps {
			for _, t := range step.Tasks {
				if t.State == a2a.TaskStateAuthRequired { // a task that waited for consent is listed in the turn of the reply
					continue
				}
				if t.Sent.IsZero() { // answered by a build that did not keep it
					t.Sent = turn.Began
				}
				at, again := listed[t.ID]
				i, isHeld := held[t.ID]
				switch {
				case again && at >= 0:
					old := &list[at]
					old.State, old.Sent, old.Settled, old.Result = t.State, t.Sent, t.Settled, t.Result
				case again:
				case isHeld:
					listed[t.ID], kept[i].Text = -1, t.Text
				default:
					listed[t.ID] = len(list)
					list = append(list, task{
						ContextID: conv.ContextID, TaskID: t.ID, Agent: t.Agent, State: t.State, Tried: []string{}, Text: t.Text, Sent: t.Sent,
						Settled: t.Settled, Result: t.Result,
					})
				}
			}
		}
	}
	return append(list, kept...)
}

// latest loads the latest conversations and calls f for each, with the time of its last change, until f returns false. It returns how many are
// damaged, whose tasks are unknown.
func latest(ctx context.Context, l *link, f func(*conversation.Conversation, time.Time) bool) (damaged int, err error) {
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
		if !f(conv, info.Updated) {
			return damaged, nil
		}
	}
	return damaged, nil
}

// openTasks calls f for each open task of the latest conversations, until f returns false.
func openTasks(ctx context.Context, l *link, f func(task) bool) (damaged int, err error) {
	return latest(ctx, l, func(conv *conversation.Conversation, _ time.Time) bool {
		for _, t := range open(conv) {
			if !f(t) {
				return false
			}
		}
		return true
	})
}

// lastTasks returns the tasks that were sent last, done or not, the last one first: most of them, and whether there are more.
func lastTasks(ctx context.Context, l *link, most int) (list []task, more bool, damaged int, err error) {
	list = []task{}
	damaged, err = latest(ctx, l, func(conv *conversation.Conversation, updated time.Time) bool {
		if len(list) > most && list[most].Sent.After(updated) {
			return false // all others were sent earlier
		}
		list = append(list, remembered(conv)...)
		slices.SortStableFunc(list, func(a, b task) int { return b.Sent.Compare(a.Sent) })
		list = list[:min(len(list), max(most, most+1))] // one more shows that there are more; without a limit there is no such number
		return true
	})
	more = len(list) > most
	return list[:min(len(list), most)], more, damaged, err
}

// tellDamaged prints how many conversations are damaged, since their tasks are not listed.
func (e *env) tellDamaged(damaged int) {
	if damaged > 0 {
		e.say("%d of the conversations are damaged, and their tasks are not known: see `cortex doctor`", damaged)
	}
}

func (e *env) listTasks(ctx context.Context, b *backend, most limit, all, asJSON bool) error {
	n := e.most(most, asJSON)
	list, more := []task{}, false
	var damaged int
	var err error
	if all {
		list, more, damaged, err = lastTasks(ctx, b.link, n)
	} else {
		damaged, err = openTasks(ctx, b.link, func(t task) bool { list = append(list, t); return true })
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
		infos[i] = list[i].info()
	}
	if err := e.show(repl.TaskTable(infos, alike.Named, time.Now())); err != nil {
		return err
	}
	e.sayMore(more)
	return nil
}

var errNoTask = errors.New("no such open task: `cortex tasks` lists them")

func (e *env) cancelTask(ctx context.Context, l *link, given string, asJSON bool) error {
	all := map[string]task{}
	damaged := 0
	id, err := whole("task", given, func(yield func(string, error) bool) {
		var err error
		more := true
		damaged, err = openTasks(ctx, l, func(t task) bool {
			all[string(t.TaskID)] = t
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
	found, ok := all[id]
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
	if asJSON {
		return writeJSON(e, found)
	}
	e.tell("canceling what %s does in conversation %s", found.Agent, found.ContextID)
	return nil
}
