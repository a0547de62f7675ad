package conversation

import (
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A task is tried again, under the same id and with a higher attempt number, when its deadline passes, when its agent is gone, and when the
// agent reports a failure, provided that its card says retrying is of use or that the report came only after the deadline. The rules:
//
//   - The same agent gets the task again while it is present and its card allows more retries (max_retries). The default is none: an agent
//     that missed a deadline would most likely miss it again.
//   - A task that waited in the orchestrator's queue until its deadline was never begun. It goes to other agents first, no rule about that
//     agent keeps it from them, and the rules do not count it as an attempt.
//   - Then other agents get it, the more confident ones first: those that run, have a skill with that id, accept the task's input, may be
//     asked by the requester without a confirmation, are below their in-flight limit, and were not tried.
//   - Only a task that names a skill goes to other agents. A task that continued after a question stays with its agent, which alone
//     understands the reply; so does a task that the user confirmed, since the yes was for that agent.
//   - The number of attempts is bounded by policy.MaxAttempts, and by lower limits of rules. After the last one the task fails, and the
//     decider sees all attempts.
//   - The first result from the agent that has the task now counts; later results of earlier attempts are ignored.
//
// The entry that gives an attempt up records which agent tries the task next.

// MaxExtension bounds how far progress can move a task's deadline, as a multiple of its timeout.
const MaxExtension = 4

// MaxWhy bounds the reason why an attempt was given up, in characters.
const MaxWhy = 160

const maxTriedAgent = 64 // characters of the agent's id beside the reason

// Retry names the agent that tries a task again.
type Retry struct {
	Agent string `json:"agent"`
	Terms Terms  `json:"terms,omitzero"`
	Why   string `json:"why"` // why the previous attempt was given up, for people
}

// Attempt is an attempt at a task that was given up.
type Attempt struct {
	Agent     string
	SentSeq   uint64 // the entry that sent the task
	SentIndex int
	EndedSeq  uint64 // the entry that gave the attempt up
	Why       string
	Waited    bool `json:",omitempty"` // the agent never got the task
	Market    bool `json:",omitempty"` // see [Terms]
}

// TriedBy returns the first given up attempt of an agent, or nil.
func (t *Task) TriedBy(agent string) *Attempt {
	if i := slices.IndexFunc(t.Tried, func(a Attempt) bool { return a.Agent == agent }); i >= 0 {
		return &t.Tried[i]
	}
	return nil
}

// attemptEndedBy returns the attempt that entry seq replaced by the present one, or nil.
func (t *Task) attemptEndedBy(seq uint64) *Attempt {
	if n := len(t.Tried); n > 0 && t.Tried[n-1].EndedSeq == seq {
		return &t.Tried[n-1]
	}
	return nil
}

// whyIgnored says why a result from an agent that does not have the task is ignored.
func (t *Task) whyIgnored(agent string) string {
	if a := t.TriedBy(agent); a != nil {
		return "too late: the task was given to " + t.Agent + " instead (" + a.Why + ")"
	}
	return "the task was given to " + t.Agent
}

// isOfGivenUpAttempt reports whether result e belongs to an attempt that was given up, although the same agent has the task again.
func (c *Conversation) isOfGivenUpAttempt(t *Task, e *transport.Event) bool {
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

// extended returns the deadline of t after a report of progress at time now.
func (t *Task) extended(now time.Time) time.Time {
	if at := now.Add(t.Timeout); at.Before(t.Latest) {
		return at
	}
	return t.Latest
}

// movesDeadline reports whether progress at time now changes t's deadline by at least a quarter of its timeout, or to its end. Smaller moves get no
// entry, which bounds a task to a dozen of them, however often its agent reports.
func (t *Task) movesDeadline(now time.Time) bool {
	at := t.extended(now)
	by := at.Sub(t.Deadline)
	return by > 0 && (by >= t.Timeout/4 || at.Equal(t.Latest))
}

// HasWaited reports whether t reaches its deadline with the entry while it is still in the orchestrator's queue.
func (e *Entry) HasWaited(t *Task) bool { return slices.Contains(e.Waited, t.ID) }

// Missing says, for people, why t has no result at its deadline, which is the cause of the entry.
func (e *Entry) Missing(t *Task) string {
	took := t.Deadline.Sub(t.Sent).Round(time.Millisecond).String()
	switch {
	case e.HasWaited(t):
		return "it waited " + took + " and was never handed to " + prompt.Clean(t.Agent, maxTriedAgent) + ", which has more to do than it can take"
	case t.Gone:
		return "the agent has gone"
	case slices.Contains(e.Unfetched, t.ID):
		return "no result within " + took + ", and the task still waits to be fetched"
	}
	return "no result within " + took
}

// afterWaiting says what to do about a task that never reached its agent.
const afterWaiting = "; ask again later, raise the agent's max_concurrent_tasks, or start one more of it"

// result applies what t's agent reports.
func (c *Conversation) result(e *Entry, t *Task, r result) {
	switch {
	case r.State == a2a.TaskStateWorking:
		t.move(Working)
		t.Gone, t.TimedSeq = false, e.Seq
		t.Deadline = t.extended(e.Time)
	case e.Rejected != "":
		c.settle(e, t, Failed, t.explained(e.Rejected), nil)
	case r.State == a2a.TaskStateFailed:
		c.retryOrFail(e, t, r.Text, r.Artifacts)
	default:
		c.settle(e, t, phaseOf(r.State), r.Text, r.Artifacts)
	}
}

// retryOrFail tries t again if the entry says so, and fails it otherwise.
func (c *Conversation) retryOrFail(e *Entry, t *Task, why string, artifacts []prompt.Artifact) {
	r, ok := e.Retries[t.ID]
	if !ok || !t.Running() {
		to := Failed
		if e.HasWaited(t) { // not a failure of the agent
			to, why = Canceled, why+afterWaiting
		}
		c.settle(e, t, to, t.explained(why), artifacts)
		return
	}
	if turn := c.Turn(t.Turn); turn != nil && r.Agent != t.Agent && t.TriedBy(r.Agent) == nil {
		c.countTask(turn, r.Agent)
	}
	t.Tried = append(t.Tried, Attempt{Agent: t.Agent, SentSeq: t.SentSeq, SentIndex: t.SentIndex, EndedSeq: e.Seq, Why: r.Why, Waited: e.HasWaited(t), Market: t.Terms.Market})
	t.Agent, t.Terms = r.Agent, r.Terms
	t.Attempt++
	c.send(e, t)
}

// explained returns why the last attempt at t failed, followed by why the earlier ones were given up.
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

// runningAt returns the tasks that an agent has and that are not marked Gone yet.
func (c *Conversation) runningAt(agent string) []*Task {
	return slices.DeleteFunc(c.Running(), func(t *Task) bool { return t.Agent != agent || t.Gone })
}

// expireTasksOf moves the deadlines of an agent's tasks to now. What becomes of the tasks is decided when the timer fires, which it does at once,
// separately for each turn.
func (c *Conversation) expireTasksOf(e *Entry, agent string) {
	for _, t := range c.runningAt(agent) {
		t.Gone, t.TimedSeq = true, e.Seq
		if t.Deadline.IsZero() || t.Deadline.After(e.Time) {
			t.Deadline = e.Time
		}
	}
}

// Lapsing returns the tasks that the entry's cause ends without a result and that may be tried again, the earliest deadline first.
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
