package conversation

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A decision that gives work to an agent for which the policy wants a confirmation is not carried out: all of its tasks wait, in the state
// auth-required, and the turn is answered with a question. The rules, which follow from the log alone:
//
//   - A person has at most one open question in a conversation: a new one cancels the tasks of the earlier one.
//   - The person's next message closes it. Only a plain yes releases the tasks, in a new turn and as they were shown. A word that is neither
//     yes nor no, such as "what?", has the question asked again, with the same tasks. Any other message cancels them, so that a yes to
//     something else never releases them.
//   - A yes counts if it was sent after the question was delivered and the person got no other answer since. Otherwise the question is asked
//     again, with the same tasks. The order in the inbox decides, not a clock: Cortex sends itself a receipt after the question, of type
//     Deadline, and a message that arrives after the receipt was sent after the question.
//   - A message may name the turn that it replies to. A yes then counts for that turn's question only, whatever came since: another one is asked
//     again. When the named question is not waited for any more, a yes or a no is refused.
//   - Messages of other people and of agents leave the question open. A cancellation closes it, and so does its deadline.
//   - A task leaves this state in the entry that closes the question, and only a yes has it sent.

// Words that are a reply when a message contains nothing else.
var (
	yesWords = []string{"yes", "y", "yes please", "yes do it", "ok", "okay", "do it", "go ahead", "ja", "oui", "sí", "si", "sim"}
	noWords  = []string{"no", "n", "no thanks", "stop", "cancel", "don't", "do not", "nein", "non", "não", "nao"}
)

// Reply is how a message answers the question whether tasks may be done.
type Reply struct {
	Yes     bool // else no
	Unclear bool // neither yes nor no, or the yes may be for something else: the question is asked again
	Tasks   []a2a.TaskID
	Request string // what the user had asked for
}

// Held returns the tasks that wait for the user's yes, the oldest question first.
func (c *Conversation) Held() []*Task {
	return c.tasks(func(t *Task) bool { return t.Phase == Held }, func(t *Task) uint64 { return t.SettledSeq })
}

// WaitsFor returns a task of a turn with which its answer leaves the user: it waits for a yes, or for the reply to its agent's question. It returns
// nil when there is none, or no answer yet.
func (c *Conversation) WaitsFor(turnID string) *Task {
	turn := c.Turn(turnID)
	if turn == nil || turn.Open() {
		return nil
	}
	for _, t := range slices.Concat(c.Held(), c.Asking()) {
		if t.Turn == turn.ID {
			return t
		}
	}
	return nil
}

// question returns the turn whose question from has to answer, and the tasks that wait for it; nil when no question is open.
func (c *Conversation) question(from string) (asked *Turn, tasks []*Task) {
	for _, t := range c.Held() {
		if turn := c.Turn(t.Turn); turn != nil && turn.From == from {
			asked, tasks = turn, append(tasks, t)
		}
	}
	return asked, tasks
}

// reply reads the message that began turn as the reply to its sender's open question, if there is one.
func (c *Conversation) reply(e *Entry, turn *Turn, m *a2a.Message) {
	asked, tasks := c.question(turn.From)
	if asked == nil {
		return
	}
	r := &Reply{Request: asked.Request()}
	for _, t := range tasks {
		r.Tasks = append(r.Tasks, t.ID)
	}
	word, to := replyWord(turn.User), transport.MetaString(m, transport.MetaReplyTo)
	switch {
	case !tasks[0].Deadline.After(e.Time):
		c.cancelHeld(e, tasks, resultNotConfirmed)
	case to != asked.ID && slices.ContainsFunc(c.Asking(), func(t *Task) bool { return t.Turn == to }): // the reply to an agent's question
		c.cancelHeld(e, tasks, "not confirmed")
	case turn.Direct != nil: // addressed to an agent
		c.cancelHeld(e, tasks, "not confirmed")
	case slices.Contains(yesWords, word), e.Heard == heardYes, e.Heard == heardAgain:
		r.Yes = e.Heard != heardAgain
		r.Unclear = !r.Yes || to != asked.ID && (to != "" || c.unclear(asked))
		turn.Reply, turn.Direct, turn.Within = r, asked.Direct, asked.asker()
		turn.Files = slices.Concat(asked.Files, turn.Files)
	case slices.Contains(noWords, word), e.Heard == heardNo:
		turn.Reply, turn.Within = r, asked.asker()
		c.cancelHeld(e, tasks, "the user said no")
	default:
		c.cancelHeld(e, tasks, "not confirmed")
	}
}

// named returns who asked an agent's question to which the message that began turn replies, as it says itself; nil when it does not.
func (c *Conversation) named(turn *Turn, m *a2a.Message) *Asker {
	asked := c.Turn(transport.MetaString(m, transport.MetaReplyTo))
	if asked == nil || asked.From != turn.From || !slices.ContainsFunc(c.Asking(), func(t *Task) bool { return t.Turn == asked.ID }) {
		return nil
	}
	return asked.asker()
}

// resultNotConfirmed is the result of a task whose question was not answered before its deadline.
const resultNotConfirmed = "nobody said yes in time"

// whyLate returns why a message of from is no reply to the question that it names: nothing waits for a yes or a no to that any more; "" when
// something does, when it names none, and when it says more than yes or no.
func (c *Conversation) whyLate(from string, m *a2a.Message, now time.Time) string {
	id := transport.MetaString(m, transport.MetaReplyTo)
	if id == "" || id == transport.ReplyToNone || !isReply(replyWord(wordsOf(m.Parts))) {
		return ""
	}
	turn := c.Turn(id)
	waits := func(t *Task) bool { return t.Turn == id && t.Deadline.After(now) }
	switch {
	case (turn == nil || turn.From == from) && slices.ContainsFunc(slices.Concat(c.Held(), c.Asking()), waits):
		return ""
	case turn != nil && turn.From == from && turn.Asked.IsZero(): // it asked in words
		return ""
	}
	return "This question is not waited for any more: nothing was done."
}

// unclear reports whether a yes may have been meant for something else than the question of turn asked.
func (c *Conversation) unclear(asked *Turn) bool {
	return !asked.Delivered || slices.ContainsFunc(c.Turns, func(t *Turn) bool {
		return !t.Open() && t.From == asked.From && t.AnswerSeq > asked.AnswerSeq
	})
}

// delivered returns the turn with an open question whose receipt e is, or nil.
func (c *Conversation) delivered(e *transport.Event) *Turn {
	if _, ok := e.Payload.(*transport.Deadline); !ok {
		return nil
	}
	for _, t := range c.Turns {
		if !t.Asked.IsZero() && e.ID == c.deliveredID(t) && len(c.heldIn(t.ID)) > 0 {
			return t
		}
	}
	return nil
}

// deliveredID is the id of the receipt of turn's question.
func (c *Conversation) deliveredID(turn *Turn) string {
	return c.ID(turn.AnswerSeq, "told:"+turn.ID, 0)
}

// replyWord returns a short text in lower case without surrounding punctuation. A question mark stays, since "ok?" is no yes.
func replyWord(text string) string {
	if len(text) > 64 {
		return ""
	}
	text = strings.Join(strings.Fields(strings.ReplaceAll(strings.ToLower(text), ",", " ")), " ")
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r) && !strings.ContainsRune(questionMarks, r)
	})
}

// cancelHeld cancels those of tasks that wait for a yes.
func (c *Conversation) cancelHeld(e *Entry, tasks []*Task, why string) {
	for _, t := range tasks {
		if t.Phase == Held {
			c.settle(e, t, Canceled, why, nil)
		}
	}
}

// heldIn returns the tasks that wait for a yes to the question of a turn.
func (c *Conversation) heldIn(turnID string) []*Task {
	return slices.DeleteFunc(c.Held(), func(t *Task) bool { return t.Turn != turnID })
}

// putQuestion answers turn with the entry's question about the tasks that were just made.
func (c *Conversation) putQuestion(e *Entry, turn *Turn, d *llm.Decision) {
	turn.Kind, turn.Reason, turn.Asked = llm.KindClarify, d.Reason, e.Asked
	c.answer(e, turn, e.Consent)
	for _, t := range c.Held() {
		if before := c.Turn(t.Turn); before == nil || (before != turn && before.From == turn.From) {
			c.cancelHeld(e, []*Task{t}, "not confirmed before something else was asked")
		}
	}
	for asked := c.Held(); len(asked) > maxQuestions; asked = c.Held() {
		c.cancelHeld(e, c.heldIn(asked[0].Turn), "too many questions wait for an answer")
	}
}

// hold makes t wait until e.ReplyBy for the yes that entry e asks for. It keeps SentSeq: without a yes, an agent that had the task before is
// told to stop it.
func (t *Task) hold(e *Entry) {
	t.move(Held)
	t.Deadline, t.SettledSeq, t.Settled = e.ReplyBy, e.Seq, e.Time
}

// closeReply cancels the tasks that turn's reply was about and that turn did not continue, whatever the reason.
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

// amendHistory updates the history of an answered turn with the end of a task that waited for a yes.
func (c *Conversation) amendHistory(t *Task) {
	turn := c.Turn(t.Turn)
	if turn == nil || turn.Past == nil {
		return
	}
	past := *turn.Past
	past.Kept = nil
	past.Steps = slices.Clone(past.Steps) // earlier views share the old ones
	for i := range past.Steps {
		tasks := past.Steps[i].Tasks
		if at := slices.IndexFunc(tasks, func(p prompt.Task) bool { return p.ID == t.ID }); at >= 0 {
			past.Steps[i].Tasks = slices.Clone(tasks)
			past.Steps[i].Tasks[at] = PromptTask(t)
		}
	}
	turn.Past, c.historyCache = &past, nil
}

// Request returns what the user asked for. For a turn that began with a reply, that is the request which the question was about.
func (t *Turn) Request() string {
	if t.Reply != nil {
		return t.Reply.Request
	}
	return t.User
}
