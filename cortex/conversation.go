package cortex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what a Conversation keeps.
const (
	maxSeen    = 2048    // event ids by which a repeated event is recognised
	maxWindow  = 64      // answered turns; when more, the older half is left out, so that the prompt's prefix changes rarely
	maxWaiting = 32      // questions that wait for the user; when more, the oldest is given up
	maxWeight  = 1 << 20 // bytes of text in them; likewise
)

// Conversation is the fold of a conversation's log: what the entries so far mean. It is a cache; the log is the truth.
// It is not safe for concurrent use.
type Conversation struct {
	Tenant    string
	ContextID string
	Version   Version // of the last entry applied
	Seq       uint64  // its place in the conversation
	Turns     []*Turn // open turns and a window of answered ones, in the order they began
	Omitted   int     // answered turns that have left the window
	Tasks     map[a2a.TaskID]*Task
	Seen      []SeenEvent // the newest events, a ring that begins at SeenAt once full
	SeenAt    int

	seen   map[string]uint64
	cached int // weight when it was put into the cache
}

// SeenEvent says which entry an event led to.
type SeenEvent struct {
	ID  string
	Seq uint64
}

// Turn goes from a user's message to its answer.
type Turn struct {
	ID        string // the id of the message
	From      string // who sent it
	Hops      int    // how many agents handed the request on before it came here
	Ancestors []string
	User      string
	Began     time.Time
	Steps     []Step
	Decisions int

	Answer    string
	AnswerSeq uint64 // the entry that answered; 0 while the turn is open
	Answered  time.Time
	Kind      llm.Kind // of the decision that answered; empty for a failure
	Failed    bool
	Reason    string
	Model     string
	Usage     llm.Usage // over all its decisions
	// Past is what prompts show of the turn once it is answered, frozen then, so that the history only grows at its end.
	Past *prompt.Turn
}

// Open reports whether the turn has not been answered.
func (t *Turn) Open() bool { return t.AnswerSeq == 0 }

// Step is one decision to delegate.
type Step struct {
	Say    string
	Reason string
	Tasks  []a2a.TaskID
}

// Task is one delegation.
type Task struct {
	ID        a2a.TaskID
	Turn      string // the turn it works for
	Agent     string
	Skill     string
	Text      string
	Input     json.RawMessage `json:",omitempty"` // else a snapshot would turn nil into null
	DependsOn []a2a.TaskID

	State      a2a.TaskState
	SentSeq    uint64 // the entry that sent it, last; 0 while it waits for others
	SentIndex  int
	Sent       time.Time
	Deadline   time.Time
	SettledSeq uint64 // the entry that settled it, last
	Settled    time.Time
	Stopped    bool // settled by Cortex while the agent still had it: the agent is told
	Result     string
	Artifacts  []prompt.Artifact
}

// Running reports whether the task is with its agent.
func (t *Task) Running() bool {
	return t.SentSeq != 0 && !t.State.Terminal() && t.State != a2a.TaskStateInputRequired
}

// NewConversation returns the fold of an empty log.
func NewConversation(tenant, contextID string) *Conversation {
	return &Conversation{Tenant: tenant, ContextID: contextID, Tasks: map[a2a.TaskID]*Task{}, seen: map[string]uint64{}}
}

// Apply folds the next entry of the log into c. An error means that the entry does not fit: c is then unusable.
func (c *Conversation) Apply(e *Entry) error {
	if err := c.applyCause(e); err != nil {
		return err
	}
	c.applyDecision(e)
	c.Version = e.Version
	return nil
}

// applyCause is the first half of Apply: what follows from the event alone. Between the two halves it can be seen
// whether a decision is needed.
func (c *Conversation) applyCause(e *Entry) error {
	if e.Seq != c.Seq+1 {
		return fmt.Errorf("conversation %s: entry %d follows entry %d", c.ContextID, e.Seq, c.Seq)
	}
	if e.Cause == nil {
		return fmt.Errorf("conversation %s: entry %d has no cause", c.ContextID, e.Seq)
	}
	c.forget()
	c.Seq = e.Seq
	c.remember(eventKey(e.Cause), e.Seq)
	if m, ok := userMessage(e.Cause); ok {
		c.Turns = append(c.Turns, newTurn(e, m))
	} else if r, ok := resultOf(e.Cause); ok {
		if t := c.Tasks[r.TaskID]; t != nil {
			c.settle(e, t, r.State, r.Text, r.Artifacts)
		}
	}
	switch p := e.Cause.Payload.(type) {
	case *transport.Deadline:
		for _, t := range c.expired(p, e.Time) {
			if t.Turn != e.Turn {
				continue
			}
			if t.State == a2a.TaskStateInputRequired {
				c.settle(e, t, a2a.TaskStateCanceled, "nobody replied in time", nil)
			} else {
				c.settle(e, t, a2a.TaskStateFailed, fmt.Sprintf("no result within %v", t.Deadline.Sub(t.Sent).Round(time.Millisecond)), nil)
			}
		}
	case *transport.Cancel:
		c.cancel(e, p)
	}
	return nil
}

// applyDecision is the second half of Apply.
func (c *Conversation) applyDecision(e *Entry) {
	turn := c.turn(e.Turn)
	if turn == nil || !turn.Open() {
		return
	}
	if d := e.Decision; d != nil {
		turn.Decisions++
		turn.Usage = turn.Usage.Add(d.Usage)
		turn.Model = d.Model
		if d.Kind == llm.KindDelegate {
			c.delegate(e, turn, d)
			return
		}
		turn.Kind, turn.Reason = d.Kind, d.Reason
		turn.Failed = c.allFailed(turn)
		c.answer(e, turn, d.Say)
	} else if e.Failure != "" {
		turn.Failed = true
		c.answer(e, turn, e.Failure)
	}
}

// allFailed reports whether the last step of turn had tasks and none of them was done.
func (c *Conversation) allFailed(turn *Turn) bool {
	if len(turn.Steps) == 0 {
		return false
	}
	for _, id := range turn.Steps[len(turn.Steps)-1].Tasks {
		if t := c.Tasks[id]; t == nil || t.State == a2a.TaskStateCompleted || t.State == a2a.TaskStateInputRequired {
			return false
		}
	}
	return true
}

func newTurn(e *Entry, m *a2a.Message) *Turn {
	t := &Turn{ID: e.Cause.ID, From: e.Cause.From, User: partsText(m.Parts), Began: e.Time}
	if hops, ok := m.Metadata[transport.MetaHops].(float64); ok {
		t.Hops = int(max(0, min(hops, MaxHops)))
	}
	if list, ok := m.Metadata[transport.MetaAncestors].([]any); ok {
		for _, a := range list[:min(len(list), MaxHops)] {
			if id, ok := a.(string); ok && transport.CheckID(id) == nil {
				t.Ancestors = append(t.Ancestors, id)
			}
		}
	}
	return t
}

// delegate adds the tasks of a decision, and sends those that wait for nothing.
func (c *Conversation) delegate(e *Entry, turn *Turn, d *llm.Decision) {
	step := Step{Say: d.Say, Reason: d.Reason}
	ids := map[string]a2a.TaskID{}
	for i, del := range d.Delegations {
		if w := c.Tasks[a2a.TaskID(del.ID)]; w != nil && w.State == a2a.TaskStateInputRequired {
			ids[del.ID] = w.ID
			continue
		}
		ids[del.ID] = a2a.TaskID(deriveID(c.Tenant, c.ContextID, e.Seq, "task", i))
	}
	for i, del := range d.Delegations {
		id := ids[del.ID]
		t := c.Tasks[id]
		if t == nil {
			t = &Task{ID: id, Agent: del.Agent}
			c.Tasks[id] = t
		}
		t.Turn, t.Skill, t.Text, t.Input = turn.ID, del.Skill, strings.ToValidUTF8(del.Task, "\uFFFD"), del.Input
		t.State, t.Result, t.Artifacts, t.SentSeq, t.SentIndex = a2a.TaskStateSubmitted, "", nil, 0, i
		t.DependsOn = nil
		for _, dep := range del.DependsOn {
			t.DependsOn = append(t.DependsOn, ids[dep])
		}
		step.Tasks = append(step.Tasks, id)
		if len(t.DependsOn) == 0 {
			c.send(e, t)
		}
	}
	turn.Steps = append(turn.Steps, step)
}

func (c *Conversation) send(e *Entry, t *Task) {
	t.SentSeq, t.Sent, t.Deadline = e.Seq, e.Time, e.Deadline
}

// settle moves a task to a terminal state, or to input-required, and lets go or fails those that waited for it. The first
// terminal state wins.
func (c *Conversation) settle(e *Entry, t *Task, state a2a.TaskState, result string, artifacts []prompt.Artifact) {
	if t.State.Terminal() {
		return
	}
	if _, ok := resultOf(e.Cause); !ok && state != a2a.TaskStateCompleted {
		t.Stopped = t.SentSeq != 0
	}
	t.State, t.Result, t.Artifacts, t.SettledSeq, t.Settled = state, result, artifacts, e.Seq, e.Time
	if state == a2a.TaskStateInputRequired {
		t.Deadline = e.ReplyBy
		if waiting := c.Waiting(); len(waiting) > maxWaiting {
			c.settle(e, waiting[0], a2a.TaskStateCanceled, "too many questions wait for an answer", nil)
		}
		return
	}
	turn := c.turn(t.Turn)
	if turn == nil || !turn.Open() {
		return
	}
	for _, w := range c.tasksOf(turn) {
		if w.SentSeq != 0 || w.State.Terminal() || !slices.Contains(w.DependsOn, t.ID) {
			continue
		}
		switch {
		case state != a2a.TaskStateCompleted:
			c.settle(e, w, a2a.TaskStateFailed, "not started, because the work of "+t.Agent+" that it needs was not done", nil)
		case !slices.ContainsFunc(w.DependsOn, func(id a2a.TaskID) bool {
			d := c.Tasks[id]
			return d == nil || d.State != a2a.TaskStateCompleted
		}):
			c.send(e, w)
		}
	}
}

// cancel settles one task, or ends one turn or all.
func (c *Conversation) cancel(e *Entry, p *transport.Cancel) {
	reason := p.Reason
	if reason == "" {
		reason = "by the user"
	}
	if p.TaskID != "" {
		if t := c.Tasks[p.TaskID]; t != nil {
			c.settle(e, t, a2a.TaskStateCanceled, reason, nil)
		}
		return
	}
	for _, turn := range slices.Clone(c.Turns) {
		if !turn.Open() || (p.Turn != "" && turn.ID != p.Turn) || !mayCancel(e.Cause.From, turn.From) {
			continue
		}
		for _, t := range c.tasksOf(turn) {
			c.settle(e, t, a2a.TaskStateCanceled, reason, nil)
		}
		turn.Failed = true
		c.answer(e, turn, Canceled)
	}
	if p.Turn == "" && !isAgent(e.Cause.From) {
		for _, t := range c.Waiting() {
			c.settle(e, t, a2a.TaskStateCanceled, reason, nil)
		}
	}
}

// Canceled is the answer of a turn that the user canceled.
const Canceled = "Canceled."

// answer ends a turn.
func (c *Conversation) answer(e *Entry, turn *Turn, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD") // or no transport would take it
	turn.Answer, turn.AnswerSeq, turn.Answered = text, e.Seq, e.Time
	for _, t := range c.tasksOf(turn) {
		if t.State != a2a.TaskStateInputRequired { // that one may go on in a later turn
			c.settle(e, t, a2a.TaskStateCanceled, "the turn was answered without it", nil)
		}
	}
	turn.Past = &prompt.Turn{User: turn.User, Steps: c.promptSteps(turn), Answer: text}
	c.shrink()
}

// forget lets go of the settled tasks of turns that the entry before answered: nothing refers to them any more.
func (c *Conversation) forget() {
	for _, turn := range c.Turns {
		if !turn.Open() && turn.AnswerSeq == c.Seq {
			for _, t := range c.tasksOf(turn) {
				if t.State.Terminal() {
					delete(c.Tasks, t.ID)
				}
			}
		}
	}
	for id, t := range c.Tasks { // a question that was settled after its turn
		if t.State.Terminal() && t.SettledSeq == c.Seq {
			if turn := c.turn(t.Turn); turn == nil || !turn.Open() {
				delete(c.Tasks, id)
			}
		}
	}
}

// answered returns the answered turns of the window in the order of their answers.
func (c *Conversation) answered() []*Turn {
	turns := slices.DeleteFunc(slices.Clone(c.Turns), (*Turn).Open)
	slices.SortStableFunc(turns, func(a, b *Turn) int { return int(a.AnswerSeq) - int(b.AnswerSeq) })
	return turns
}

// shrink leaves out the older half of the answered turns when there are too many or they are too long.
func (c *Conversation) shrink() {
	turns := c.answered()
	weight := 0
	for _, t := range turns {
		weight += turnWeight(t)
	}
	if len(turns) < 2 || (len(turns) <= maxWindow && weight <= maxWeight) {
		return
	}
	drop := turns[:len(turns)/2]
	c.Turns = slices.DeleteFunc(c.Turns, func(t *Turn) bool { return t.AnswerSeq != c.Seq && slices.Contains(drop, t) })
	c.Omitted += len(drop)
}

// weight estimates the memory that c takes, in bytes.
func (c *Conversation) weight() int {
	n := 1024 + 100*len(c.Seen)
	for _, t := range c.Turns {
		n += 512 + turnWeight(t)
	}
	for _, t := range c.Tasks {
		n += 512 + taskWeight(promptTask(t))
	}
	return n
}

func taskWeight(t prompt.Task) int {
	n := len(t.Text) + len(t.Result) + len(t.Input)
	for _, a := range t.Artifacts {
		n += len(a.Name) + len(a.Text)
	}
	return n
}

func turnWeight(t *Turn) int {
	n := len(t.User) + len(t.Answer)
	if t.Past == nil {
		return n
	}
	for _, s := range t.Past.Steps {
		for _, task := range s.Tasks {
			n += taskWeight(task)
		}
	}
	return n
}

func (c *Conversation) turn(id string) *Turn {
	for i := len(c.Turns) - 1; i >= 0; i-- {
		if c.Turns[i].ID == id {
			return c.Turns[i]
		}
	}
	return nil
}

// tasksOf returns the tasks that work for turn, in the order in which they were made.
func (c *Conversation) tasksOf(turn *Turn) []*Task {
	var tasks []*Task
	for _, step := range turn.Steps {
		for _, id := range step.Tasks {
			if t := c.Tasks[id]; t != nil && t.Turn == turn.ID {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// outstanding reports whether turn still waits for an agent.
func (c *Conversation) outstanding(turn *Turn) bool {
	return slices.ContainsFunc(c.tasksOf(turn), (*Task).Running)
}

// Waiting returns the tasks whose agent waits for the user's reply, the oldest question first.
func (c *Conversation) Waiting() []*Task {
	return c.tasks(func(t *Task) bool { return t.State == a2a.TaskStateInputRequired }, func(t *Task) uint64 { return t.SettledSeq })
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
		return a.SentIndex - b.SentIndex
	})
	return tasks
}

// expired returns the open tasks that are over by a deadline that came at time now, the earliest first. A deadline that
// came too early, by a clock that is ahead, is over for none.
func (c *Conversation) expired(d *transport.Deadline, now time.Time) []*Task {
	if d.At.Before(now) {
		now = d.At
	}
	tasks := append(c.Running(), c.Waiting()...)
	tasks = slices.DeleteFunc(tasks, func(t *Task) bool { return t.Deadline.IsZero() || t.Deadline.After(now) })
	slices.SortStableFunc(tasks, func(a, b *Task) int { return a.Deadline.Compare(b.Deadline) })
	return tasks
}

// nextDeadline returns the earliest deadline of an open task, or zero.
func (c *Conversation) nextDeadline() time.Time {
	var next time.Time
	for _, t := range c.Tasks {
		open := t.Running() || t.State == a2a.TaskStateInputRequired
		if open && !t.Deadline.IsZero() && (next.IsZero() || t.Deadline.Before(next)) {
			next = t.Deadline
		}
	}
	return next
}

// SeenEntry returns the place of the entry that an event led to, if the event is one of the newest.
func (c *Conversation) SeenEntry(e *transport.Event) (seq uint64, ok bool) {
	seq, ok = c.seen[eventKey(e)]
	return seq, ok
}

// eventKey names an event among those of its conversation. Two senders may choose the same id.
func eventKey(e *transport.Event) string { return e.From + " " + e.ID }

func (c *Conversation) remember(eventID string, seq uint64) {
	if len(c.Seen) < maxSeen {
		c.Seen = append(c.Seen, SeenEvent{eventID, seq})
	} else {
		delete(c.seen, c.Seen[c.SeenAt].ID)
		c.Seen[c.SeenAt] = SeenEvent{eventID, seq}
		c.SeenAt = (c.SeenAt + 1) % maxSeen
	}
	c.seen[eventID] = seq
}
