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

// Turn goes from a user's message to its answer.
type Turn struct {
	ID        string // see [transport.TurnID]; in old logs the id of the message
	Message   string // the id of the message, which its sender chose
	From      string // the sender of the message
	Root      string // the turn that its chain began with, see [Chain]
	Behalf    string `json:",omitempty"` // the sender of the root, see [Conversation.Requester]; empty when the turn is the root
	Trace     Trace  // of the message; all events that follow from the turn carry it
	Within    *Asker `json:",omitempty"` // whose question the message replies to; nil: it is no reply, or does not say so
	Hops      int    // how many agents handed the request on before
	Ancestors []string
	ByClient  bool   `json:",omitempty"` // see [transport.MetaByClient]
	TimeZone  string `json:",omitempty"` // of the user, and the Locale; see [transport.MetaTimeZone]
	Locale    string `json:",omitempty"`
	User      string
	Files     []*a2a.Part `json:",omitempty"` // of the message; for a yes also those of the turn that asked
	Direct    *Direct     `json:",omitempty"` // the agent that the message names; nil when it names none
	Reply     *Reply      // how the message answers a question for a yes; nil when it is no reply
	Began     time.Time
	Until     time.Time `json:",omitzero"` // when the agent that asked needs the answer no longer; zero: never
	Seq       uint64    // the entry that began it
	Steps     []Step
	Decisions int

	Answer    string
	Out       []*a2a.Part `json:",omitempty"` // the files of the answer
	AnswerSeq uint64      // the entry that answered; 0 while the turn is open
	Answered  time.Time
	Settled   bool      `json:",omitempty"` // no task of it waited for the user when it was answered; false in snapshots of builds that did not know
	Asked     time.Time // when the answer asked for a yes; zero when it did not
	Delivered bool      `json:"Told"` // the receipt of that question has arrived: later messages were sent after it
	Kind      llm.Kind  // of the decision that answered; empty for a failure
	Failed    bool
	Reason    string
	Model     string
	Usage     llm.Usage // of all its decisions, failed ones included, and of the summaries made for them
	// Past is what prompts show of the turn, frozen when it is answered, so that the history only grows at its end. It has no updates, which
	// are in Conversation.Changes. It is nil while the turn is open, and again when the turn has left the window.
	Past *prompt.Turn

	weighed    *prompt.Turn // the Past that pastWeight is of
	pastWeight int
}

// Trace is a W3C trace context.
type Trace struct {
	Parent string `json:",omitempty"`
	State  string `json:",omitempty"`
}

// Asker is the turn that asked first, when questions and replies followed each other.
type Asker struct {
	Turn  string
	Trace Trace
}

// asker returns who asked what turn asks.
func (t *Turn) asker() *Asker {
	if t.Within != nil && t.Trace.Parent == "" {
		return t.Within
	}
	return &Asker{Turn: t.ID, Trace: t.Trace}
}

// Open reports whether the turn has not been answered.
func (t *Turn) Open() bool { return t.AnswerSeq == 0 }

// Confirms reports whether the turn began with a yes to this task, or with a reply that has its question asked again.
func (t *Turn) Confirms(id a2a.TaskID) bool {
	return t.Reply != nil && (t.Reply.Yes || t.Reply.Unclear) && slices.Contains(t.Reply.Tasks, id)
}

// reasonOf returns why the task was given.
func (t *Turn) reasonOf(id a2a.TaskID) string {
	for _, step := range t.Steps {
		if slices.Contains(step.Tasks, id) {
			return step.Reason
		}
	}
	return ""
}

// Step is one decision to delegate.
type Step struct {
	Say    string
	Reason string
	Tasks  []a2a.TaskID
	Swarm  *Swarm `json:",omitempty"` // the round that it is; nil: none
}

// Task is one delegation.
type Task struct {
	ID        a2a.TaskID
	Turn      string // the turn it works for
	Agent     string
	Skill     string
	Text      string
	Input     json.RawMessage `json:",omitempty"`     // so that a snapshot does not turn nil into null
	Along     []*a2a.Part     `json:"Given,omitzero"` // the files that the decision names; nil: those of the turn
	DependsOn []a2a.TaskID
	Terms     Terms

	Phase      Phase
	Attempt    int       // counted from 1
	Tried      []Attempt `json:",omitempty"` // earlier attempts, the oldest first
	Continued  bool      // it continued with its agent after a question
	SentSeq    uint64    // the entry that last sent it; 0 while it depends on others
	SentIndex  int
	Sent       time.Time
	Deadline   time.Time
	Timeout    time.Duration // how much time its agent was given
	Latest     time.Time     // how far progress may move the Deadline; zero: not at all
	TimedSeq   uint64        // the entry that last moved the Deadline
	Gone       bool          // no instance of its agent is left
	SettledSeq uint64        // the entry that last settled it
	Settled    time.Time
	Stopped    bool // settled by Cortex while the agent still had it: the agent is told to stop
	Result     string
	Artifacts  []prompt.Artifact
	Files      []*a2a.Part `json:",omitempty"` // of the result
}

// Running reports whether the task is with its agent.
func (t *Task) Running() bool { return t.Phase.Running() }

// allFailed reports whether the last step of turn had tasks and none of them was done.
func (c *Conversation) allFailed(turn *Turn) bool {
	if len(turn.Steps) == 0 {
		return false
	}
	for _, id := range turn.Steps[len(turn.Steps)-1].Tasks {
		if t := c.Tasks[id]; t == nil || t.Phase == Completed || t.Phase == Asking {
			return false
		}
	}
	return true
}

// maxTag bounds the name of a time zone or a locale, in bytes.
const maxTag = 48

// tag returns the name of a time zone or a locale from a message; "" for what cannot be one: it goes into prompts.
func tag(m *a2a.Message, key string) string {
	s := transport.MetaString(m, key)
	if len(s) > maxTag || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/_+-", r)
	}) {
		return ""
	}
	return s
}

func newTurn(e *Entry, m *a2a.Message) *Turn {
	t := &Turn{ID: cmp.Or(e.Turn, e.Cause.ID), Message: e.Cause.ID, Seq: e.Seq, From: e.Cause.From, User: wordsOf(m.Parts), Files: transport.FilesOf(m.Parts), Began: e.Time}
	t.Trace.Parent, t.Trace.State = e.Cause.Trace()
	t.Direct = directOf(m, t.User)
	t.ByClient = byClient(m)
	t.TimeZone, t.Locale = tag(m, transport.MetaTimeZone), tag(m, transport.MetaLocale)
	if hops, ok := transport.Float(m.Metadata[transport.MetaHops]); ok {
		t.Hops = int(max(0, min(hops, MaxHops)))
	}
	if until, err := time.Parse(time.RFC3339Nano, transport.MetaString(m, transport.MetaDeadline)); err == nil && IsAgent(t.From) {
		t.Until = until
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

// begunBy returns the newest turn that a sender's message with this id began, or nil.
func (c *Conversation) begunBy(from, messageID string) *Turn {
	for i := len(c.Turns) - 1; i >= 0; i-- {
		if t := c.Turns[i]; t.Message == messageID && t.From == from {
			return t
		}
	}
	return nil
}

// Turn returns the turn with this id, or nil when c does not know it, or no longer.
func (c *Conversation) Turn(id string) *Turn {
	for i := len(c.Turns) - 1; i >= 0; i-- {
		if c.Turns[i].ID == id {
			return c.Turns[i]
		}
	}
	return nil
}

// TasksOf returns the tasks that work for turn, in the order in which they were made.
func (c *Conversation) TasksOf(turn *Turn) []*Task {
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

// Outstanding reports whether turn still waits for an agent.
func (c *Conversation) Outstanding(turn *Turn) bool {
	return slices.ContainsFunc(c.TasksOf(turn), (*Task).Running)
}
