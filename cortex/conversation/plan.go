package conversation

import (
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Plan is what an event means to a conversation at a time.
type Plan struct {
	Do   Action
	Seq  uint64 // Repeat: the entry that the event led to
	Why  string // Refuse and Ignore: the reason, for people
	Turn string // Work: the turn that the event belongs to; "" when it belongs to none or several
	// Heard is for the entry's Heard: how a message is read as a reply to an open question.
	Heard string
}

// Action is what to do with an event.
type Action int

const (
	Work   Action = iota // it changes the conversation: an entry is appended for it
	Repeat               // it came before: its effects are sent again
	Ignore               // it changes nothing
	Refuse               // its sender may not send it, it is invalid, or the log has no room for it: it is not logged
)

// Passive reports whether the event is acknowledged without an entry, based on the present state of the conversation.
func (p Plan) Passive() bool { return p.Do == Ignore || p.Do == Refuse }

// Plan returns what e means to the conversation at time now. With authenticated set, it refuses events of senders whom the conversation does
// not admit.
func (c *Conversation) Plan(e *transport.Event, now time.Time, authenticated bool) Plan {
	if seq, ok := c.SeenEntry(e); ok {
		return Plan{Do: Repeat, Seq: seq}
	}
	if authenticated {
		if why := c.WhyRefused(e); why != "" {
			return Plan{Do: Refuse, Why: why}
		}
	}
	m, ok := transport.Request(e)
	if ok && c.Seq >= MaxEntries {
		return Plan{Do: Refuse, Why: "This conversation is full. Begin another one with /new, and say it again there."}
	}
	if why := c.whyChainFull(e); why != "" {
		return Plan{Do: Refuse, Why: why}
	}
	if ok {
		if err := transport.CheckRequest(m); err != nil {
			return Plan{Do: Refuse, Why: "Nothing was done: " + err.Error() + "."}
		}
		if why := c.whyLate(e.From, m, now); why != "" {
			return Plan{Do: Refuse, Why: why}
		}
	}
	turn, why := c.meaning(e, now)
	if why != "" {
		return Plan{Do: Ignore, Why: why}
	}
	return Plan{Do: Work, Turn: turn, Heard: c.hear(e)}
}

// meaning returns the turn that e belongs to ("" for none or several), or why e changes nothing.
func (c *Conversation) meaning(e *transport.Event, now time.Time) (turn, why string) {
	if _, ok := transport.Request(e); ok {
		return transport.TurnID(c.Tenant, c.ContextID, e.From, e.ID), ""
	}
	if r, ok := ResultOf(e); ok {
		return c.meaningOfResult(e, r, now)
	}
	switch p := e.Payload.(type) {
	case *transport.Deadline:
		if asked := c.delivered(e); asked != nil {
			return asked.ID, ""
		}
		expired := c.Expired(p, now)
		if len(expired) == 0 {
			return "", "deadline of a finished task"
		}
		return expired[0].Turn, ""
	case *transport.Cancel:
		return c.meaningOfCancel(e.From, p)
	case *transport.Share:
		switch {
		case c.Seq == 0:
			return "", "nobody has begun this conversation"
		case c.Seq >= MaxEntries && len(p.With) > 0: // what is taken back again is bounded by what was given
			return "", "this conversation is full"
		}
		switch shared := c.sharedAfter(p); {
		case len(shared) > MaxShared:
			return "", "it would be shared with too many"
		case slices.Equal(c.Shared, shared):
			return "", "it is shared so already"
		}
	case *transport.Post:
		return "", c.meaningOfPost(e, p)
	case *transport.ReadBoard:
		return "", "what reads changes nothing"
	case *transport.AgentEvent:
		if len(c.runningAt(p.AgentID)) == 0 {
			return "", "the agent that has gone had no task"
		}
	}
	return "", ""
}

func (c *Conversation) meaningOfResult(e *transport.Event, r result, now time.Time) (turn, why string) {
	t := c.Tasks[r.TaskID]
	switch {
	case t == nil:
		return "", "unknown or finished task"
	case t.Agent != e.From && e.From != transport.Cortex: // Cortex says that a task cannot be sent
		return "", t.whyIgnored(e.From)
	case agentOfReport(e) != "" && agentOfReport(e) != t.Agent:
		return "", t.whyIgnored(agentOfReport(e))
	case t.Phase == Held:
		return "", "the task waits for the user's yes"
	case t.Phase == Blocked:
		return "", "the task was not sent yet"
	case t.Phase.Over():
		return "", "second result"
	case r.State == a2a.TaskStateWorking && t.Running() && t.movesDeadline(now):
	case !r.Settles():
		return "", "progress that moves no deadline belongs on the live topic"
	case r.State.Terminal() && r.State != a2a.TaskStateCompleted && c.isOfGivenUpAttempt(t, e):
		return "", "an attempt at the task failed that was given up before"
	case t.Phase == Asking && r.State == a2a.TaskStateInputRequired:
		return "", "the question was asked already"
	}
	return t.Turn, ""
}

func (c *Conversation) meaningOfCancel(from string, p *transport.Cancel) (turn, why string) {
	if p.TaskID != "" {
		t := c.Tasks[p.TaskID]
		if t == nil || t.Phase.Over() {
			return "", "nothing to cancel: unknown or finished task"
		}
		if turn := c.Turn(t.Turn); !MayCancel(from, "") && (turn == nil || !MayCancel(from, turn.From)) {
			return "", "an agent cancels what it did not ask for"
		}
		return t.Turn, ""
	}
	for _, t := range c.Turns {
		if t.Open() && (p.Turn == "" || t.ID == p.Turn) && MayCancel(from, t.From) {
			return "", ""
		}
	}
	if p.Turn == "" && MayCancel(from, "") && len(c.Asking())+len(c.Held()) > 0 {
		return "", ""
	}
	return "", "nothing to cancel"
}

// MayCancel reports whether sender may cancel a turn of owner: people and the operator of Cortex may cancel any, an agent only its own.
func MayCancel(sender, owner string) bool {
	return !IsAgent(sender) || sender == transport.Cortex || sender == owner
}

// agentOfReport returns the agent whose task ended according to an event of Cortex, or "".
func agentOfReport(e *transport.Event) string {
	if t, ok := e.Payload.(*a2a.Task); ok && e.From == transport.Cortex {
		return transport.MetaString(t, transport.MetaAgentID)
	}
	return ""
}
