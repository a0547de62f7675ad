package cortex

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// controlled handles an event of the orchestrator's control topic. A Cancel interrupts the decision of its turn; the same Cancel
// arrives through the inbox too, and cancels the turn's tasks. A Forget says what was deleted from the store: its conversation, or
// what was learned about an agent. A Bid answers a tender of this process or of another one.
func (o *Orchestrator) controlled(_ context.Context, e *transport.Event) error {
	switch p := e.Payload.(type) {
	case *transport.Forget:
		if p.AgentID == "" {
			key := conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID}
			o.folds.Take(key)
			o.deleted(key)
			o.queue.withdraw(e.ContextID, "")
			o.outlines.forget(e.ContextID)
		}
		o.learner.Forget(e, p)
	case *transport.Bid:
		if e.Tenant == o.cfg.Tenant {
			o.maker.Bid(e.From, p)
		}
	case *transport.Cancel:
		if p.TaskID == "" {
			o.maker.Interrupt(conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID}, e)
		}
	}
	return nil
}
