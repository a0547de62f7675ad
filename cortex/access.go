package cortex

import (
	"context"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// bar refuses e. It is no dead letter: nothing about it would be another one when it is put back, and who floods a conversation that is
// not theirs would push out the letters that are worth it.
func (o *Orchestrator) bar(ctx context.Context, conv *loaded, e *transport.Event, why string, now time.Time) error {
	if _, ok := transport.Request(e); !ok {
		return o.ignore(ctx, conv, e, why, now)
	}
	o.stats.Refused.Add(1)
	o.log.Info("message refused", "context_id", e.ContextID, "from", e.From, "owner", conv.Owner)
	if err := o.refuse(ctx, e, why); err != nil {
		return err
	}
	o.cache.put(conv)
	return nil
}

// mayCancelTurn returns who may cancel turn at this time.
func (o *Orchestrator) mayCancelTurn(conv *conversation.Conversation, turn *conversation.Turn) func(from string) bool {
	owner, shared := conv.Owner, conv.Shared // what they are is not changed, the fold is
	return func(from string) bool {
		return conversation.MayCancel(from, turn.From) &&
			(!o.cfg.Authenticated || from == turn.From || from == transport.Cortex || from == owner || slices.Contains(shared, from))
	}
}
