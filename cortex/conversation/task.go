package conversation

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// delegate adds the tasks of a decision, and sends those that depend on no other.
func (c *Conversation) delegate(e *Entry, turn *Turn, d *llm.Decision) {
	step := Step{Say: d.Say, Reason: d.Reason}
	if e.Patterns != nil {
		step.Swarm = e.Patterns.Swarm
	}
	ids := c.TaskIDs(e.Seq, turn, d)
	for i, del := range d.Delegations {
		id := ids[del.ID]
		t := c.Tasks[id]
		if t == nil {
			t = &Task{ID: id, Agent: del.Agent, Terms: e.Terms[del.ID], Attempt: 1}
			c.Tasks[id] = t
		}
		t.Turn, t.Skill, t.Text, t.Input = turn.ID, del.Skill, strings.ToValidUTF8(del.Task, "\uFFFD"), del.Input
		t.Result, t.Artifacts, t.Files, t.SentIndex, t.DependsOn = "", nil, nil, i, nil
		if del.Files == nil {
			t.Along = nil
		} else {
			t.Along = c.Along(turn, &d.Delegations[i])
		}
		t.Continued = t.Continued || t.SentSeq != 0
		for _, dep := range del.DependsOn {
			t.DependsOn = append(t.DependsOn, ids[dep])
		}
		step.Tasks = append(step.Tasks, id)
		c.countTask(turn, t.Agent)
		if e.Consent != "" {
			t.hold(e)
			continue
		}
		if t.Phase != Blocked {
			t.move(Blocked)
		}
		t.SentSeq, t.SettledSeq = 0, 0
		if len(t.DependsOn) == 0 {
			c.send(e, t)
		}
	}
	turn.Steps = append(turn.Steps, step)
}

// TaskIDs returns the task of each delegation that entry seq decides for turn, by the delegation's id: new tasks, and tasks that continue.
func (c *Conversation) TaskIDs(seq uint64, turn *Turn, d *llm.Decision) map[string]a2a.TaskID {
	ids := map[string]a2a.TaskID{}
	for i, del := range d.Delegations {
		id := a2a.TaskID(del.ID)
		if w := c.Tasks[id]; w != nil && (w.Phase == Asking || w.Phase == Held && turn.Confirms(id)) {
			ids[del.ID] = id
			continue
		}
		ids[del.ID] = a2a.TaskID(c.ID(seq, "task", i))
	}
	return ids
}

func (c *Conversation) send(e *Entry, t *Task) {
	t.move(Given)
	for at := MaxParallel; c.sentAs(e.Seq, t.SentIndex, t); at++ { // one deadline has tasks of several steps tried again
		t.SentIndex = at
	}
	t.SentSeq, t.Sent, t.Deadline = e.Seq, e.Sent, e.Deadline
	if t.Sent.IsZero() {
		t.Sent = e.Time
	}
	if t.Terms.Timeout > 0 {
		t.Deadline = t.Sent.Add(t.Terms.Timeout)
	}
	var until time.Time
	if turn := c.Turn(t.Turn); turn != nil {
		until = turn.Until
	}
	t.Deadline = earlier(t.Deadline, until)
	t.Gone, t.Timeout, t.Latest = false, max(t.Deadline.Sub(t.Sent), 0), time.Time{}
	if t.Timeout > 0 {
		t.Latest = earlier(t.Sent.Add(MaxExtension*t.Timeout), until)
	}
}

// sentAs reports whether entry seq sends another task than t under this index, by which its events would have t's ids.
func (c *Conversation) sentAs(seq uint64, index int, t *Task) bool {
	for _, o := range c.Tasks {
		if o != t && o.SentSeq == seq && o.SentIndex == index {
			return true
		}
	}
	return false
}

// earlier returns the earlier of at and until; a zero until means never.
func earlier(at, until time.Time) time.Time {
	if !until.IsZero() && until.Before(at) {
		return until
	}
	return at
}

// settle ends a task, or makes it wait for the user's reply, and then sends or fails the tasks that depend on it. The first end wins.
func (c *Conversation) settle(e *Entry, t *Task, to Phase, result string, artifacts []prompt.Artifact) {
	asked := t.Phase == Held
	if !t.move(to) {
		return
	}
	r, ok := ResultOf(e.Cause)
	if own := ok && r.TaskID == t.ID; own && e.Rejected == "" {
		t.Files = r.Files
		c.assignKeys(t.Files)
	} else if !own && to != Completed {
		t.Stopped = t.SentSeq != 0
	}
	t.Result, t.Artifacts, t.SettledSeq, t.Settled = result, artifacts, e.Seq, e.Time
	if asked {
		c.amendHistory(t)
	}
	if to == Asking {
		t.Deadline = e.ReplyBy
		if oldest := c.taskToCancel(c.Asking(), t); oldest != nil {
			c.settle(e, oldest, Canceled, "too many questions wait for an answer", nil)
		}
		return
	}
	turn := c.Turn(t.Turn)
	if turn == nil || !turn.Open() {
		return
	}
	for _, w := range c.TasksOf(turn) {
		if w.Phase != Blocked || !slices.Contains(w.DependsOn, t.ID) {
			continue
		}
		switch {
		case to != Completed:
			c.settle(e, w, Failed, "not started, because the work of "+t.Agent+" that it needs was not done", nil)
		case !slices.ContainsFunc(w.DependsOn, func(id a2a.TaskID) bool {
			d := c.Tasks[id]
			return d == nil || d.Phase != Completed
		}):
			if why := e.Withheld[w.ID]; why != "" {
				c.settle(e, w, Failed, "not started: "+why, nil)
				continue
			}
			c.send(e, w)
		}
	}
}

// taskToCancel returns the task to cancel when t, the newest task that waits for a reply, is one too many; nil when there is room. It is the oldest
// task of all when the conversation has too many, or else the oldest of the same asker, so that the questions for one person or agent do not
// push out those for others.
func (c *Conversation) taskToCancel(waiting []*Task, t *Task) *Task {
	if len(waiting) > maxQuestions {
		return waiting[0]
	}
	asker := c.askerOf(t)
	waiting = slices.DeleteFunc(waiting, func(w *Task) bool { return c.askerOf(w) != asker })
	if len(waiting) > maxAsking {
		return waiting[0]
	}
	return nil
}

// askerOf returns the sender of the request that a task is done for; "" when its turn has been dropped.
func (c *Conversation) askerOf(t *Task) string {
	if turn := c.Turn(t.Turn); turn != nil {
		return turn.From
	}
	return ""
}

// Asking returns the tasks whose agent waits for the user's reply, the oldest question first.
func (c *Conversation) Asking() []*Task {
	return c.tasks(func(t *Task) bool { return t.Phase == Asking }, func(t *Task) uint64 { return t.SettledSeq })
}

// Running returns the tasks that are with their agents, the oldest first.
func (c *Conversation) Running() []*Task {
	return c.tasks((*Task).Running, func(t *Task) uint64 { return t.SentSeq })
}

func (c *Conversation) tasks(want func(*Task) bool, seq func(*Task) uint64) []*Task {
	var tasks []*Task
	for _, t := range c.Tasks {
		if want(t) {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *Task) int {
		if d := int(seq(a)) - int(seq(b)); d != 0 {
			return d
		}
		if d := a.SentIndex - b.SentIndex; d != 0 {
			return d
		}
		return strings.Compare(string(a.ID), string(b.ID)) // tasks of several decisions: a map has no order
	})
	return tasks
}

// Expired returns the open tasks whose deadline has passed when deadline d arrives at time now, the earliest first. It returns none for a
// deadline that arrives too early, from a clock that is ahead.
func (c *Conversation) Expired(d *transport.Deadline, now time.Time) []*Task {
	if d.At.Before(now) {
		now = d.At
	}
	tasks := slices.Concat(c.Running(), c.Asking(), c.Held())
	tasks = slices.DeleteFunc(tasks, func(t *Task) bool { return t.Deadline.IsZero() || t.Deadline.After(now) })
	slices.SortStableFunc(tasks, func(a, b *Task) int { return a.Deadline.Compare(b.Deadline) })
	return tasks
}

// NextDeadline returns the earliest deadline of an open task, or zero.
func (c *Conversation) NextDeadline() time.Time {
	var next time.Time
	for _, t := range c.Tasks {
		if t.Phase.Waits() && !t.Deadline.IsZero() && (next.IsZero() || t.Deadline.Before(next)) {
			next = t.Deadline
		}
	}
	return next
}

// Terms are what an agent's card asked for and promised for one of its skills when the task was given.
type Terms struct {
	Type    string          `json:"type,omitempty"`    // the task's type when it is not the skill
	Timeout time.Duration   `json:"timeout,omitempty"` // how long the agent takes at most; 0: not specified
	Output  json.RawMessage `json:"output,omitempty"`  // JSON Schema of the result; nil: any
	Retries int             `json:"retries,omitempty"` // how often the agent may be given a task again
	Once    bool            `json:"once,omitempty"`    // whether no other agent may be given a task that was sent to this one
	Board   bool            `json:"board,omitempty"`   // whether the agent may use the board of the task
	Market  bool            `json:"market,omitempty"`  // whether the agent bids for tasks, so that how it does them is recorded
	// Evaluators are the names that the card gives of those that are to check the result.
	Evaluators []string `json:"evaluators,omitempty"`
}

// taskType returns the type by which the task's agent recognises the work.
func (t *Task) taskType() string {
	return cmp.Or(t.Terms.Type, t.Skill)
}
