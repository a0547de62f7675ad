package conversation

import (
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A task whose agent does not do it is tried again, under the same id and with a higher number of attempt: when its deadline passes
// or its agent has gone; and when the agent reports a failure, if its card says that trying again is of use, or the failure came only
// with the deadline. These hold:
//
//   - The same agent gets it again while it is there and has not had it more often than its card allows (max_retries). A card that
//     says nothing allows nothing: who let a deadline pass would do so again.
//   - What an agent never got, since it waited in the orchestrator's queue until its deadline, nobody has begun: others come first then,
//     no rule about that agent keeps them from it, and it is no attempt that a rule counts.
//   - Then others get it, one after the other: those that run, have a skill with that id, take the task's input, may be asked for it
//     by whoever asks, without a yes, have room for it, and were not tried. The more confident ones come first.
//   - Only a task that names a skill goes to others: one without is for its agent. So is one that went on after a question, which
//     only its agent understands, and one that the user said yes to, since the yes was for that agent.
//   - There are so many in all (policy.MaxAttempts), fewer where a rule says so. Then the task fails, and the decider is told of all attempts.
//   - The first result from the agent that has the task now counts; what earlier ones say of it comes too late.
//
// Who tries what again is in the entry that gives the earlier attempt up.

const MaxExtension = 4 // progress can move a task's deadline to so many times its timeout

const MaxWhy = 160 // characters of the reason why an attempt was given up

const maxTriedAgent = 64 // characters of an agent's id beside it

// Retry says who tries a task again.
type Retry struct {
	Agent string `json:"agent"`
	Terms Terms  `json:"terms,omitzero"`
	Why   string `json:"why"` // the attempt before was given up, for people
}

// Attempt is one at a task that was given up.
type Attempt struct {
	Agent     string
	SentSeq   uint64 // the entry that sent it
	SentIndex int
	EndedSeq  uint64 // the entry that gave it up
	Why       string
	Waited    bool `json:",omitempty"` // the agent never got it
}

// TriedBy returns an earlier attempt of an agent, or nil.
func (t *Task) TriedBy(agent string) *Attempt {
	if i := slices.IndexFunc(t.Tried, func(a Attempt) bool { return a.Agent == agent }); i >= 0 {
		return &t.Tried[i]
	}
	return nil
}

// again returns the attempt that entry seq gave up for the present one, or nil.
func (t *Task) again(seq uint64) *Attempt {
	if n := len(t.Tried); n > 0 && t.Tried[n-1].EndedSeq == seq {
		return &t.Tried[n-1]
	}
	return nil
}

// notFrom says why a result from an agent that does not have the task counts for nothing.
func (t *Task) notFrom(agent string) string {
	if a := t.TriedBy(agent); a != nil {
		return "too late: the task was given to " + t.Agent + " instead (" + a.Why + ")"
	}
	return "the task was given to " + t.Agent
}

// gaveUp reports whether result e is of an attempt that was given up, though its agent has the task again.
func (c *Conversation) gaveUp(t *Task, e *transport.Event) bool {
	message := ""
	switch p := e.Payload.(type) {
	case *a2a.Task:
		message = transport.MetaString(p, transport.MetaOriginalMessage)
	case *a2a.TaskStatusUpdateEvent:
		message = transport.MetaString(p, transport.MetaOriginalMessage)
	}
	return message != "" && slices.ContainsFunc(t.Tried, func(a Attempt) bool {
		return message == c.ID(a.SentSeq, "message", a.SentIndex)
	})
}

// extended returns when t, which is at work at time now, has to be done.
func (t *Task) extended(now time.Time) time.Time {
	if at := now.Add(t.Timeout); at.Before(t.Latest) {
		return at
	}
	return t.Latest
}

// moves reports whether progress at time now moves t's deadline by so much that it is worth an entry. So a task has no more than a
// dozen of them, however much its agent talks.
func (t *Task) moves(now time.Time) bool {
	at := t.extended(now)
	by := at.Sub(t.Deadline)
	return by > 0 && (by >= t.Timeout/4 || at.Equal(t.Latest))
}

// HasWaited reports whether the time of t ends with the entry while it waits in the queue.
func (e *Entry) HasWaited(t *Task) bool { return slices.Contains(e.Waited, t.ID) }

// Missing says what became of t at its deadline, which is the cause of the entry.
func (e *Entry) Missing(t *Task) string {
	took := t.Deadline.Sub(t.Sent).Round(time.Millisecond).String()
	switch {
	case e.HasWaited(t):
		return "it waited " + took + " and was never handed to " + prompt.Clean(t.Agent, maxTriedAgent) + ", which has more to do than it can take"
	case t.Gone:
		return "the agent has gone"
	case slices.Contains(e.Unfetched, t.ID):
		return "no result within " + took + ", the task was never fetched"
	}
	return "no result within " + took
}

// afterWaiting is what to do about a task that its agent never got.
const afterWaiting = "; ask again later, raise the agent's max_concurrent_tasks, or start one more of it"

// result takes what t's agent says.
func (c *Conversation) result(e *Entry, t *Task, r result) {
	switch {
	case r.State == a2a.TaskStateWorking:
		t.move(Working)
		t.Gone, t.TimedSeq = false, e.Seq
		t.Deadline = t.extended(e.Time)
	case e.Rejected != "":
		c.settle(e, t, Failed, t.explained(e.Rejected), nil)
	case r.State == a2a.TaskStateFailed:
		c.lapse(e, t, r.Text, r.Artifacts)
	default:
		c.settle(e, t, phaseOf(r.State), r.Text, r.Artifacts)
	}
}

// lapse has t tried again if the entry says so, else it fails.
func (c *Conversation) lapse(e *Entry, t *Task, why string, artifacts []prompt.Artifact) {
	r, ok := e.Retries[t.ID]
	if !ok || !t.Running() {
		to := Failed
		if e.HasWaited(t) { // it is no failure of the agent's
			to, why = Canceled, why+afterWaiting
		}
		c.settle(e, t, to, t.explained(why), artifacts)
		return
	}
	if turn := c.Turn(t.Turn); turn != nil && r.Agent != t.Agent && t.TriedBy(r.Agent) == nil {
		c.give(turn, r.Agent)
	}
	t.Tried = append(t.Tried, Attempt{Agent: t.Agent, SentSeq: t.SentSeq, SentIndex: t.SentIndex, EndedSeq: e.Seq, Why: r.Why, Waited: e.HasWaited(t)})
	t.Agent, t.Terms = r.Agent, r.Terms
	t.Attempt++
	c.send(e, t)
}

// explained is why the last attempt at t failed, with what became of those before.
func (t *Task) explained(why string) string {
	if len(t.Tried) == 0 {
		return why
	}
	var before []string
	for _, a := range t.Tried {
		before = append(before, prompt.Clean(a.Agent, maxTriedAgent)+": "+a.Why)
	}
	return why + " (tried before: " + strings.Join(before, "; ") + ")"
}

// left returns the tasks that an agent has, unless it is known already that it has gone.
func (c *Conversation) left(agent string) []*Task {
	return slices.DeleteFunc(c.Running(), func(t *Task) bool { return t.Agent != agent || t.Gone })
}

// gone ends the time that the tasks of an agent have. What becomes of them is decided when the deadline comes, which it does at
// once, in each turn on its own.
func (c *Conversation) gone(e *Entry, agent string) {
	for _, t := range c.left(agent) {
		t.Gone, t.TimedSeq = true, e.Seq
		if t.Deadline.IsZero() || t.Deadline.After(e.Time) {
			t.Deadline = e.Time
		}
	}
}

// Lapsing returns the tasks that end with an entry's cause and may be tried again, the one that is due first first.
func (c *Conversation) Lapsing(entry *Entry) []*Task {
	if r, ok := ResultOf(entry.Cause); ok {
		t := c.Tasks[r.TaskID]
		if t == nil || r.State != a2a.TaskStateFailed || !t.Running() || (t.Terms.Retries == 0 && entry.Time.Before(t.Deadline)) {
			return nil
		}
		return []*Task{t}
	}
	p, ok := entry.Cause.Payload.(*transport.Deadline)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(c.Expired(p, entry.Time), func(t *Task) bool { return t.Turn != entry.Turn || !t.Running() })
}
