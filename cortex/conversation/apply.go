package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Apply folds the next entry of the log into c. It returns [ErrDamaged] for an entry that does not fit; c is then unusable.
func (c *Conversation) Apply(e *Entry) error {
	if err := c.Begin(e); err != nil {
		return err
	}
	c.Finish(e)
	c.Version = e.Version
	return nil
}

// Begin is the first half of Apply: it applies what follows from the event alone. The caller then knows whether a decision is needed.
func (c *Conversation) Begin(e *Entry) error {
	if e.Seq != c.Seq+1 {
		return fmt.Errorf("%w: conversation %s: entry %d follows entry %d", ErrDamaged, c.ContextID, e.Seq, c.Seq)
	}
	if e.Cause == nil {
		return fmt.Errorf("%w: conversation %s: entry %d has no cause", ErrDamaged, c.ContextID, e.Seq)
	}
	c.dropSettledTasks()
	c.Seq, c.at = e.Seq, e.Time
	if e.Seq == 1 {
		c.Life, c.Owner, c.Began = e.Life, e.Cause.From, e.Time
	}
	c.remember(EventKey(e.Cause), e.Seq)
	c.expirePosts(e.Time)
	if m, ok := transport.Request(e.Cause); ok {
		turn := newTurn(e, m)
		c.assignKeys(turn.Files)
		c.join(turn, e.Cause, m)
		c.Turns = append(c.Turns, turn)
		c.Begun++
		turn.Within = c.named(turn, m)
		c.reply(e, turn, m)
	} else if r, ok := ResultOf(e.Cause); ok {
		if t := c.Tasks[r.TaskID]; t != nil {
			c.result(e, t, r)
		}
	}
	switch p := e.Cause.Payload.(type) {
	case *transport.Deadline:
		if asked := c.delivered(e.Cause); asked != nil {
			asked.Delivered = true
		}
		for _, t := range c.Expired(p, e.Time) {
			if t.Turn != e.Turn {
				continue
			}
			switch t.Phase {
			case Asking:
				c.settle(e, t, Canceled, "nobody replied in time", nil)
			case Held:
				c.settle(e, t, Canceled, resultNotConfirmed, nil)
			default:
				c.retryOrFail(e, t, e.Missing(t), nil)
			}
		}
	case *transport.AgentEvent:
		c.expireTasksOf(e, p.AgentID)
	case *transport.Cancel:
		c.cancel(e, p)
	case *transport.Share:
		shared := c.sharedAfter(p)
		c.Shared = shared[:min(len(shared), MaxShared)] // what is more is refused now, and was cut off in older logs
	case *transport.Post:
		c.post(e, p)
	}
	return nil
}

// Due sets when the question of e expires: timeout after now, unless ReplyBy is set already. The caller appends e next.
func (e *Entry) Due(now time.Time, timeout time.Duration) {
	if e.Consent == "" {
		return
	}
	e.Asked = now
	if e.ReplyBy.IsZero() {
		e.ReplyBy = now.Add(timeout)
	}
}

// Finish is the second half of Apply: it applies what was decided.
func (c *Conversation) Finish(e *Entry) {
	c.applySummary(e)
	c.applyRoster(e)
	turn, spent := c.Turn(e.Turn), e.Spent()
	c.Usage = c.Usage.Add(spent)
	if turn == nil || !turn.Open() {
		return
	}
	turn.Usage = turn.Usage.Add(spent)
	chain := c.counts(turn)
	chain.Usage = chain.Usage.Add(spent)
	if d := e.Decision; d != nil {
		turn.Decisions++
		turn.Model = d.Model
		if d.Kind.Delegates() {
			c.delegate(e, turn, d)
			if e.Consent != "" {
				c.putQuestion(e, turn, d)
			}
			return
		}
		turn.Kind, turn.Reason = d.Kind, d.Reason
		turn.Failed = c.allFailed(turn)
		c.answer(e, turn, d.Say)
	} else if e.Failure != "" {
		turn.Failed = true
		c.answer(e, turn, e.Failure)
	}
	c.closeReply(e, turn)
}

// cancel settles one task, or ends one open turn or all of them.
func (c *Conversation) cancel(e *Entry, p *transport.Cancel) {
	reason := cmp.Or(p.Reason, "by the user")
	if p.TaskID != "" {
		if t := c.Tasks[p.TaskID]; t != nil {
			if t.Phase == Held { // a question is about all of its turn's tasks or none
				c.cancelHeld(e, c.heldIn(t.Turn), reason)
			}
			c.settle(e, t, Canceled, reason, nil)
		}
		return
	}
	for _, turn := range slices.Clone(c.Turns) {
		if !turn.Open() || (p.Turn != "" && turn.ID != p.Turn) || !MayCancel(e.Cause.From, turn.From) {
			continue
		}
		for _, t := range c.TasksOf(turn) {
			c.settle(e, t, Canceled, reason, nil)
		}
		turn.Failed = true
		c.answer(e, turn, AnswerCanceled)
	}
	if p.Turn == "" && MayCancel(e.Cause.From, "") {
		for _, t := range append(c.Asking(), c.Held()...) {
			c.settle(e, t, Canceled, reason, nil)
		}
	}
}

// AnswerCanceled is the answer of a turn that the user canceled.
const AnswerCanceled = "Canceled."

// answer ends turn with text as its answer.
func (c *Conversation) answer(e *Entry, turn *Turn, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD") // transports refuse invalid UTF-8
	turn.Answer, turn.AnswerSeq, turn.Answered = text, e.Seq, e.Time
	turn.Settled = true
	for _, t := range c.TasksOf(turn) {
		if t.Phase == Asking || t.Phase == Held { // these may go on in a later turn
			turn.Settled = false
			continue
		}
		c.settle(e, t, Canceled, "the turn was answered without it", nil)
	}
	turn.Out = c.results(turn)
	c.trimFiles()
	c.dropChain(turn.Root)
	turn.Past = &prompt.Turn{User: turn.User, Files: promptFiles(turn.Files), Steps: c.promptSteps(turn), Kind: string(turn.Kind), Answer: text, Reason: turn.Reason}
	c.appendToHistory(turn)
	c.cutWindow()
}
