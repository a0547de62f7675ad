package conversation

import (
	"slices"
	"strings"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A decision that gives work to an agent which the policy wants a yes for is not carried out: its tasks wait, all of them, with
// the state auth-required, and the turn is answered with a question. These hold, by the log alone:
//
//   - At most one question is open for each person in a conversation: a new one cancels what the earlier one was about.
//   - What that person says next closes it. Exactly a yes lets the tasks go, in a turn of its own and as they were shown; a word that is neither
//     yes nor no, such as "what?", has the question asked once more, under the same tasks; everything else cancels them. So a yes to something
//     else never lets them go.
//   - A yes counts when it was said after the question was delivered and nothing was answered to that person since. Else the question
//     is asked once more, under the same tasks. What was said when is known by the order in the inbox, and not by anybody's clock:
//     behind the question Cortex sends itself a receipt, a Deadline by its type, and only what comes after the receipt was said after the question.
//   - What others say, people and agents, leaves it open. A cancellation, or the end of its time, closes it.
//   - A task leaves this state in the very entry that closes the question, and nothing but a yes has it sent.

// Words that are a reply when a message has nothing else in it.
var (
	yesWords = []string{"yes", "y", "yes please", "yes do it", "ok", "okay", "do it", "go ahead", "ja", "oui", "sí", "si", "sim"}
	noWords  = []string{"no", "n", "no thanks", "stop", "cancel", "don't", "do not", "nein", "non", "não", "nao"}
)

// Reply is what a message says to the question whether tasks may be done.
type Reply struct {
	Yes     bool // else no
	Unclear bool // it is neither, or the yes may have been meant for something else: the question is asked again
	Tasks   []a2a.TaskID
	Request string // what the user had asked for
}

// Asked returns the tasks that wait for the user's yes, the oldest question first.
func (c *Conversation) Asked() []*Task {
	return c.tasks(func(t *Task) bool { return t.Phase == Held }, func(t *Task) uint64 { return t.SettledSeq })
}

// question returns the turn that asked from for a yes, and the tasks that wait for it; nil when nothing is asked.
func (c *Conversation) question(from string) (asked *Turn, tasks []*Task) {
	for _, t := range c.Asked() {
		if turn := c.Turn(t.Turn); turn != nil && turn.From == from {
			asked, tasks = turn, append(tasks, t)
		}
	}
	return asked, tasks
}

// reply takes the message that began turn for what it says to the question that is open for whoever said it.
func (c *Conversation) reply(e *Entry, turn *Turn) {
	asked, tasks := c.question(turn.From)
	if asked == nil {
		return
	}
	r := &Reply{Request: asked.Request()}
	for _, t := range tasks {
		r.Tasks = append(r.Tasks, t.ID)
	}
	word := wordOf(turn.User)
	switch {
	case !tasks[0].Deadline.After(e.Time):
		c.cancelHeld(e, tasks, noYes)
	case turn.Direct != nil: // it is said to somebody else
		c.cancelHeld(e, tasks, "not confirmed")
	case slices.Contains(yesWords, word), e.Heard == heardYes, e.Heard == heardAgain:
		r.Yes = e.Heard != heardAgain
		r.Unclear = !r.Yes || c.unclear(asked)
		turn.Reply, turn.Direct = r, asked.Direct
		turn.Files = slices.Concat(asked.Files, turn.Files)
	case slices.Contains(noWords, word), e.Heard == heardNo:
		turn.Reply = r
		c.cancelHeld(e, tasks, "the user said no")
	default:
		c.cancelHeld(e, tasks, "not confirmed")
	}
}

// noYes is the result of a task that was canceled at the end of its question's time.
const noYes = "nobody said yes in time"

// unclear reports whether a yes may have been said to something else than the question of turn asked.
func (c *Conversation) unclear(asked *Turn) bool {
	return !asked.Delivered || slices.ContainsFunc(c.Turns, func(t *Turn) bool {
		return !t.Open() && t.From == asked.From && t.AnswerSeq > asked.AnswerSeq
	})
}

// delivered returns the turn whose open question was delivered before e was sent, if e is the receipt that says so; else nil.
func (c *Conversation) delivered(e *transport.Event) *Turn {
	if _, ok := e.Payload.(*transport.Deadline); !ok {
		return nil
	}
	for _, t := range c.Turns {
		if !t.Asked.IsZero() && e.ID == c.deliveredID(t) && len(c.askedIn(t.ID)) > 0 {
			return t
		}
	}
	return nil
}

// deliveredID is the id of the receipt that says that turn's question was delivered.
func (c *Conversation) deliveredID(turn *Turn) string {
	return c.ID(turn.AnswerSeq, "told:"+turn.ID, 0)
}

// wordOf returns a short text in lower case, without the punctuation around it: a question mark stays, since "ok?" is no yes.
func wordOf(text string) string {
	if len(text) > 64 {
		return ""
	}
	text = strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(text), ",", " ")), " ")
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r) && !strings.ContainsRune(questionMarks, r)
	})
}

// cancelHeld cancels tasks that wait for a yes.
func (c *Conversation) cancelHeld(e *Entry, tasks []*Task, why string) {
	for _, t := range tasks {
		if t.Phase == Held {
			c.settle(e, t, Canceled, why, nil)
		}
	}
}

// askedIn returns the tasks that wait for a yes to the question of a turn.
func (c *Conversation) askedIn(turnID string) []*Task {
	return slices.DeleteFunc(c.Asked(), func(t *Task) bool { return t.Turn != turnID })
}

// putQuestion ends turn with the entry's question about the tasks that were just made.
func (c *Conversation) putQuestion(e *Entry, turn *Turn, d *llm.Decision) {
	turn.Kind, turn.Reason, turn.Asked = llm.KindClarify, d.Reason, e.Asked
	c.answer(e, turn, e.Consent)
	for _, t := range c.Asked() {
		if before := c.Turn(t.Turn); before == nil || (before != turn && before.From == turn.From) {
			c.cancelHeld(e, []*Task{t}, "not confirmed before something else was asked")
		}
	}
	for asked := c.Asked(); len(asked) > maxAsked; asked = c.Asked() {
		c.cancelHeld(e, c.askedIn(asked[0].Turn), "too many questions wait for an answer")
	}
}

// hold lets a task wait for the yes that entry e asks for, until e.ReplyBy. SentSeq stays as it is: when no yes comes, an agent that had the
// task before is told to stop it.
func (t *Task) hold(e *Entry) {
	t.move(Held)
	t.Deadline, t.SettledSeq, t.Settled = e.ReplyBy, e.Seq, e.Time
}

// closeReply cancels what turn's yes should have let go and did not, whatever the reason.
func (c *Conversation) closeReply(e *Entry, turn *Turn) {
	if turn.Reply == nil {
		return
	}
	why := "not done"
	if turn.Reason != "" {
		why += ": " + turn.Reason
	}
	for _, id := range turn.Reply.Tasks {
		if t := c.Tasks[id]; t != nil && t.Turn != turn.ID {
			c.cancelHeld(e, []*Task{t}, why)
		}
	}
}

// amend shows in the history how a task ended that was waiting for a yes when its turn was answered.
func (c *Conversation) amend(t *Task) {
	turn := c.Turn(t.Turn)
	if turn == nil || turn.Past == nil {
		return
	}
	past := *turn.Past
	past.Steps = slices.Clone(past.Steps) // prompts have the old ones
	for i := range past.Steps {
		tasks := past.Steps[i].Tasks
		if at := slices.IndexFunc(tasks, func(p prompt.Task) bool { return p.ID == t.ID }); at >= 0 {
			past.Steps[i].Tasks = slices.Clone(tasks)
			past.Steps[i].Tasks[at] = PromptTask(t)
		}
	}
	turn.Past, c.past = &past, nil
}

// Request returns what the user asked for: of a turn that began with a yes, what the yes was said to.
func (t *Turn) Request() string {
	if t.Reply != nil {
		return t.Reply.Request
	}
	return t.User
}
