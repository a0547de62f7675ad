package cortex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// saidOfGivenUp is the answer of a turn that an event of Cortex's own was to move, which was given up.
const saidOfGivenUp = "Cortex failed again and again to go on with this request, so it ends here: its log and `cortex dead` say why. Ask again."

// endWithout ends what waits for an event of Cortex's own that is given up: a deadline comes once, and nothing else ends a turn whose agent
// is silent. The turn ends in its log, or, where that is what fails, with an answer beside it.
func (o *Orchestrator) endWithout(ctx context.Context, e *transport.Event, reason error) error {
	switch e.Payload.(type) {
	case *transport.Opaque: // nobody knows what it was; a deadline that comes too early is set again
		now := o.cfg.Now()
		return o.wake(ctx, e, now, now)
	case *transport.Cancel, *transport.Share, *transport.AgentEvent:
		return nil // the deadlines hold
	}
	err := transport.Call(ctx, o.log, func(ctx context.Context, e *transport.Event) error { return o.take(ctx, e, saidOfGivenUp) }, e)
	if err == nil || transport.IsTemporary(err) {
		return err
	}
	o.log.Error("turn cannot be ended in its log", "context_id", e.ContextID, "err", err)
	return o.endUnlogged(ctx, e, reason)
}

// endUnlogged answers the turns that wait for e, as far as their log can be read, and those that would have come behind it in time.
func (o *Orchestrator) endUnlogged(ctx context.Context, e *transport.Event, reason error) error {
	conv, whole, err := o.legible(ctx, e.ContextID)
	if err != nil {
		return err
	}
	now := o.cfg.Now()
	over := conv.Expired(&transport.Deadline{At: now}, now)
	if r, ok := conversation.ResultOf(e); ok && conv.Tasks[r.TaskID] != nil {
		over = append(over, conv.Tasks[r.TaskID])
	}
	why := saidOfGivenUp
	if errors.Is(reason, conversation.ErrDamaged) {
		why = saidOfDamaged
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

// legible folds what can be read of a conversation's log, and says whether that is all of it.
func (o *Orchestrator) legible(ctx context.Context, contextID string) (conv *conversation.Conversation, whole bool, err error) {
	conv = conversation.NewConversation(o.cfg.Tenant, contextID)
	defer func() {
		if recover() != nil { // it was logged when the event was handled
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

// wake sets a deadline of e's conversation, in the place of e.
func (o *Orchestrator) wake(ctx context.Context, e *transport.Event, at, due time.Time) error {
	id := conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+conversation.EventKey(e)+" "+at.UTC().Format(time.RFC3339Nano), 0)
	return o.tell(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: at, DeliverAt: due, From: transport.Cortex, To: transport.Cortex, Tenant: o.cfg.Tenant, ContextID: e.ContextID,
		Payload: &transport.Deadline{At: at},
	})
}
