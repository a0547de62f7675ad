package cortex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// givenUp reports to whoever waits for e that e is a dead letter, and why. If e is an agent's result, its turn continues at once; the sender of a
// message gets a failed answer. It is called again after an error or a kill: everything that it sends has derived ids.
func (o *Orchestrator) givenUp(ctx context.Context, e *transport.Event, reason error) error {
	var err error
	e = transport.Original(e)
	switch {
	case e.From == "" || e.ContextID == "": // the transport does not know its sender or conversation
	case e.From == transport.Cortex:
		err = o.endWaitingTurns(ctx, e, reason)
	default:
		task := resultFor(e)
		if task == "" {
			task, err = o.guess(ctx, e)
		}
		if err != nil {
			return err
		}
		if task != "" {
			err = o.failTask(ctx, e, task, reason)
		} else if e.ID != "" && wantsAnswer(e) {
			err = o.refuse(ctx, e, givenUpText(e, reason))
		}
	}
	if err == nil {
		o.stats.Refused.Add(1)
	}
	return err
}

// resultKinds are the kinds of an agent's events about a task. An unreadable event of these kinds may be part of a result, without which the
// result is wrong; a damaged event may have no kind. An unknown kind may be progress of a newer agent.
var resultKinds = []string{"task", "status-update", "artifact-update", "message", ""}

// resultFor returns the task of which e is the result, even if e cannot be read; empty when e is no result.
func resultFor(e *transport.Event) a2a.TaskID {
	if r, ok := conversation.ResultOf(e); ok && r.Settles() {
		return r.TaskID
	}
	if p, ok := e.Payload.(*transport.Opaque); ok && conversation.IsAgent(e.From) && slices.Contains(resultKinds, p.Kind) {
		return e.TaskID
	}
	return ""
}

// guess returns the task that an agent's unreadable event is most likely about when nothing else says so: of the agent's tasks in the
// conversation the one whose id e contains, or the only one, if e is of a kind that is always about a task.
func (o *Orchestrator) guess(ctx context.Context, e *transport.Event) (a2a.TaskID, error) {
	p, ok := e.Payload.(*transport.Opaque)
	if !ok || !conversation.IsAgent(e.From) || !slices.Contains(resultKinds, p.Kind) {
		return "", nil
	}
	conv, err := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	if errors.Is(err, conversation.ErrDamaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	has := slices.DeleteFunc(conv.Running(), func(t *conversation.Task) bool { return t.Agent != e.From })
	named := slices.DeleteFunc(slices.Clone(has), func(t *conversation.Task) bool { return !bytes.Contains(p.Data, []byte(t.ID)) })
	switch {
	case len(named) == 1:
		return named[0].ID, nil
	case len(named) == 0 && len(has) == 1 && p.Kind != "message" && p.Kind != "":
		return has[0].ID, nil
	}
	return "", nil
}

// wantsAnswer reports whether e wants an answer, as far as that is known.
func wantsAnswer(e *transport.Event) bool {
	if _, ok := transport.Request(e); ok {
		return true
	}
	p, ok := e.Payload.(*transport.Opaque)
	return ok && (p.Kind == "message" || !conversation.IsAgent(e.From) && !transport.KnownKind(p.Kind)) // a newer client may wait for anything
}

// givenUpText returns the text for the sender of e that says why e is given up. It does not quote e.
func givenUpText(e *transport.Event, reason error) string {
	var words conversation.Failure
	p, opaque := e.Payload.(*transport.Opaque)
	switch {
	case errors.As(reason, &words):
		return string(words)
	case opaque && transport.KnownKind(p.Kind):
		return "Cortex cannot read this message, so nothing was done."
	case opaque:
		return "This Cortex does not know this kind of message, as a newer one may. Nothing was done."
	}
	return "Cortex could not handle this message and gave it up: its log and `cortex dead` say why. It can be tried again with `cortex dead replay`."
}

// failTask reports to Cortex itself that a task has failed because its agent's event is given up. The report ends the task in the log, as any
// result does, or has it tried again.
func (o *Orchestrator) failTask(ctx context.Context, e *transport.Event, task a2a.TaskID, reason error) error {
	now := o.cfg.Now()
	id := conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+conversation.EventKey(e), 0)
	if e.ID == "" { // the id could not be read
		id = conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+e.From+" "+string(task)+" "+conversation.Explain(reason), 0)
	}
	return o.publishOrDrop(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: now, From: transport.Cortex, To: transport.Cortex, Tenant: o.cfg.Tenant, ContextID: e.ContextID, TaskID: task,
		Payload: &a2a.Task{
			ID: task, ContextID: e.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Timestamp: &now, Message: &a2a.Message{
				ID: id, ContextID: e.ContextID, TaskID: task, Role: a2a.MessageRoleAgent,
				Parts: a2a.ContentParts{a2a.NewTextPart("Cortex cannot use what the agent sent: " + conversation.Explain(reason))},
			}},
			Metadata: map[string]any{transport.MetaAgentID: e.From},
		},
	})
}

// textGivenUp is the answer of a turn that ends because an event of Cortex's own was given up.
const textGivenUp = "Cortex failed repeatedly to continue this request, so it ends here: its log and `cortex dead` say why. Ask again."

// endWaitingTurns ends what waits for an event of Cortex's own that is given up: a deadline arrives once, and nothing else ends a turn whose agent
// is silent. The turn ends in its log, or, if the log is what fails, with an answer that is not logged.
func (o *Orchestrator) endWaitingTurns(ctx context.Context, e *transport.Event, reason error) error {
	switch e.Payload.(type) {
	case *transport.Opaque: // unknown; if it was a deadline, an early one is set again
		now := o.cfg.Now()
		return o.wake(ctx, e, now, now)
	case *transport.Cancel, *transport.Share, *transport.AgentEvent, *transport.Post, *transport.ReadBoard:
		return nil // the deadlines remain
	}
	err := transport.Call(ctx, o.log, func(ctx context.Context, e *transport.Event) error { return o.handleWith(ctx, e, textGivenUp) }, e)
	if err == nil || transport.IsTemporary(err) {
		return err
	}
	o.log.ErrorContext(ctx, "turn cannot be ended in its log", "context_id", e.ContextID, "err", err)
	return o.endUnlogged(ctx, e, reason)
}

// endUnlogged answers the turns that wait for e, as far as their log can be read, and sets the next deadline that e would have led to.
func (o *Orchestrator) endUnlogged(ctx context.Context, e *transport.Event, reason error) error {
	conv, whole, err := o.foldReadable(ctx, e.ContextID)
	if err != nil {
		return err
	}
	now := o.cfg.Now()
	over := conv.Expired(&transport.Deadline{At: now}, now)
	if r, ok := conversation.ResultOf(e); ok && conv.Tasks[r.TaskID] != nil {
		over = append(over, conv.Tasks[r.TaskID])
	}
	why := textGivenUp
	if errors.Is(reason, conversation.ErrDamaged) {
		why = textDamaged
	}
	for _, turn := range conv.Turns {
		if !turn.Open() || whole && !slices.ContainsFunc(over, func(t *conversation.Task) bool { return t.Turn == turn.ID }) {
			continue
		}
		asked := &transport.Event{ID: turn.Message, From: turn.From, ContextID: conv.ContextID}
		if err := o.answerUnlogged(ctx, asked, conv.Unlogged(turn, why, now), why, now); err != nil {
			return err
		}
	}
	for _, t := range over {
		t.Deadline = time.Time{}
	}
	if next := conv.NextDeadline(); whole && !next.IsZero() {
		return o.wake(ctx, e, next, next)
	}
	return nil
}

// foldReadable folds the readable part of a conversation's log, and reports whether that is the whole log.
func (o *Orchestrator) foldReadable(ctx context.Context, contextID string) (conv *conversation.Conversation, whole bool, err error) {
	conv = conversation.NewConversation(o.cfg.Tenant, contextID)
	defer func() {
		if recover() != nil { // the panic was logged when the event was handled
			whole, err = false, nil
		}
	}()
	for entry, err := range o.cfg.Store.Load(ctx, conv.Tenant, contextID, 0) {
		switch {
		case errors.Is(err, conversation.ErrDamaged):
			return conv, false, nil
		case err != nil:
			return nil, false, transport.Temporary(fmt.Errorf("load %s: %w", contextID, err))
		}
		if err := conv.Apply(entry); err != nil {
			return conv, false, nil
		}
	}
	return conv, true, nil
}

// wake sets a deadline for e's conversation, in place of e.
func (o *Orchestrator) wake(ctx context.Context, e *transport.Event, at, due time.Time) error {
	id := conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+conversation.EventKey(e)+" "+at.UTC().Format(time.RFC3339Nano), 0)
	return o.publishOrDrop(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: at, DeliverAt: due, From: transport.Cortex, To: transport.Cortex, Tenant: o.cfg.Tenant, ContextID: e.ContextID,
		Payload: &transport.Deadline{At: at},
	})
}
