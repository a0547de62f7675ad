package cortex

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// textCutOff is the answer to what was said in a conversation whose log has lost its end.
const textCutOff = "The record of this conversation has lost its end, so what was under way here is lost. What is left of it goes on: say it again. " +
	"`cortex doctor` tells whoever runs Cortex more."

// cutOff returns [conversation.ErrDamaged] when the log that conv was just loaded from ends before seen, which this process has read or stored before,
// and nobody has deleted the conversation since. Its first caller answers the turns that were open in seen, which nothing else would end. A later event
// goes on from what is left.
func (o *Orchestrator) cutOff(ctx context.Context, e *transport.Event, conv, seen *conversation.Conversation) error {
	if seen == nil || conv.Version >= seen.Version {
		return nil
	}
	if _, ok := o.cfg.Store.(storage.Notes); !ok {
		return nil // whether it was deleted is not known
	}
	erased, err := storage.ErasedAt(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	if err != nil {
		return err
	}
	if !erased.IsZero() && !erased.Before(seen.Began.Add(-clocksApart)) {
		return nil
	}
	now := o.cfg.Now()
	for _, turn := range seen.Turns {
		if !turn.Open() || turn.Message == e.ID && turn.From == e.From { // the sender of e is answered when e is given up
			continue
		}
		asked := &transport.Event{ID: turn.Message, From: turn.From, ContextID: seen.ContextID}
		err := o.answerUnlogged(ctx, asked, seen.Unlogged(turn, textCutOff, now), textCutOff, now)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil: // at the next delivery nobody would know of the turn
			o.log.ErrorContext(ctx, "a turn could not be told that it has ended", "context_id", e.ContextID, "turn", turn.ID, "err", err)
		}
	}
	o.stats.CutOff.Add(1)
	o.log.ErrorContext(ctx, "the log of a conversation has lost its end: what was open in it has ended, and it goes on from what is left", "context_id", e.ContextID,
		"tenant", o.cfg.Tenant, "version", conv.Version, "lost", seen.Version, "entries", conv.Seq, "began", seen.Began.UTC().Format(time.RFC3339))
	return transport.Permanent(fmt.Errorf("%w: it ends at version %d, and had version %d: %w", conversation.ErrDamaged, conv.Version, seen.Version,
		conversation.Failure(textCutOff)))
}
