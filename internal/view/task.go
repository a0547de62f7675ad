package view

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	scanned  = 1000    // conversations at most are searched for tasks, the latest first
	maxBrief = 4 << 10 // bytes at most of a text that a list shows the beginning of
	maxAhead = 8 << 20 // bytes of whole tasks that are kept until their turn in a list
)

// Task is a task of a conversation in JSON output. One that waits for consent has not been sent.
type Task struct {
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

func newTask(contextID string, t *conversation.Task) Task {
	j := Task{contextID, t.ID, t.Agent, t.State(), max(t.Attempt, 1), []string{}, t.Text, t.Sent, t.Deadline, t.Settled, t.Result}
	for _, a := range t.Tried {
		j.Tried = append(j.Tried, a.Agent)
	}
	return j
}

// Brief returns t as lists show it: with the beginnings of its text and its result, so that the whole ones are not kept in memory.
func (t Task) Brief() Task {
	t.Text, t.Result = shorten.To(t.Text, maxBrief), shorten.To(t.Result, maxBrief)
	return t
}

// openOf lists the tasks that are with their agents or wait for the user.
func openOf(conv *conversation.Conversation) []Task {
	var list []Task
	for _, t := range slices.Concat(conv.Running(), conv.Asking(), conv.Held()) {
		list = append(list, newTask(conv.ContextID, t))
	}
	return list
}

// Remembered lists the tasks of the turns that conv still holds, also those that are done. A task that asked the user is in the turn of each reply,
// too: it is listed once, with what was asked first, as it was in the last of them.
func Remembered(conv *conversation.Conversation) []Task {
	var list, kept []Task
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
					list = append(list, Task{
						ContextID: conv.ContextID, TaskID: t.ID, Agent: t.Agent, State: t.State, Tried: []string{}, Text: t.Text, Sent: t.Sent,
						Settled: t.Settled, Result: t.Result,
					})
				}
			}
		}
	}
	return append(list, kept...)
}

// Latest loads the latest conversations and calls f for each, with the time of its last change, until f returns false. It returns how many are
// damaged, whose tasks are unknown.
func Latest(ctx context.Context, r *Reader, f func(*conversation.Conversation, time.Time) bool) (damaged int, err error) {
	n := 0
	for info, err := range r.Store.Contexts(ctx, r.Tenant) {
		if err != nil {
			return damaged, err
		}
		if n++; n > scanned {
			return damaged, nil
		}
		conv, err := storage.Load(ctx, r.Store, r.Tenant, info.ContextID)
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

// OpenTasks calls f for each open task of the latest conversations, until f returns false.
func OpenTasks(ctx context.Context, r *Reader, f func(Task) bool) (damaged int, err error) {
	return Latest(ctx, r, func(conv *conversation.Conversation, _ time.Time) bool {
		return !slices.ContainsFunc(openOf(conv), func(t Task) bool { return !f(t) })
	})
}

// LastTasks returns the tasks that were sent last, done or not, the last one first: most of them, and whether there are more. Without whole they are
// brief, see [Whole].
func LastTasks(ctx context.Context, r *Reader, most int, whole bool) (list []Task, more bool, damaged int, err error) {
	list = []Task{}
	damaged, err = Latest(ctx, r, func(conv *conversation.Conversation, updated time.Time) bool {
		if len(list) > most && list[most].Sent.After(updated) {
			return false // all others were sent earlier
		}
		for _, t := range Remembered(conv) {
			if !whole {
				t = t.Brief()
			}
			list = append(list, t)
		}
		slices.SortStableFunc(list, func(a, b Task) int { return b.Sent.Compare(a.Sent) })
		list = list[:min(len(list), max(most, most+1))] // one more shows that there are more; without a limit there is no such number
		return true
	})
	more = len(list) > most
	return list[:min(len(list), most)], more, damaged, err
}

// Whole reads brief tasks again, with their whole texts and results, without those that are forgotten or damaged by now. It keeps one conversation at a
// time, and of those that it has read before, up to [maxAhead] of what comes next: in a list by time, conversations take turns.
func Whole(ctx context.Context, r *Reader, brief []Task) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		var read []Task // of the conversation with the id of
		of := ""
		ahead, room := map[int]*Task{}, maxAhead // by places in brief; nil: forgotten or damaged by now
		for i, b := range brief {
			t, kept := ahead[i]
			if !kept && (i == 0 || b.ContextID != of) {
				read, of = nil, b.ContextID
				switch conv, err := storage.Load(ctx, r.Store, r.Tenant, of); {
				case err == nil:
					read = Remembered(conv)
				case !errors.Is(err, conversation.ErrDamaged):
					yield(Task{}, err)
					return
				}
				for j := i + 1; j < len(brief); j++ {
					if brief[j].ContextID != of {
						continue
					}
					next := find(read, brief[j].TaskID)
					if room -= next.size(); room < 0 {
						room += next.size()
						break
					}
					ahead[j] = next
				}
			}
			if !kept {
				t = find(read, b.TaskID)
			} else {
				delete(ahead, i)
				room += t.size()
			}
			if t != nil && !yield(*t, nil) {
				return
			}
		}
	}
}

// find returns a copy of the task with this id, or nil.
func find(list []Task, id a2a.TaskID) *Task {
	i := slices.IndexFunc(list, func(t Task) bool { return t.TaskID == id })
	if i < 0 {
		return nil
	}
	t := list[i]
	return &t
}

// size estimates the memory that t takes, in bytes.
func (t *Task) size() int {
	if t == nil {
		return 0
	}
	return len(t.Text) + len(t.Result)
}
