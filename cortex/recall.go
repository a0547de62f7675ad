package cortex

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// recallTimeout bounds the time that taking tasks back takes; what is not taken back is done in vain.
const recallTimeout = 2 * time.Second

// recall takes the tasks that entry seq stopped out of their agents' inboxes, where the transport can. So an agent that does not
// run, and misses the Cancel, does not do them when it starts. An agent that has begun is told by the Cancel.
func (o *Orchestrator) recall(ctx context.Context, conv *conversation.Conversation, seq uint64) {
	w, ok := o.cfg.Transport.(transport.Withdrawer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recallTimeout)
	defer cancel()
	for _, r := range conv.Withdrawals(seq) {
		inboxes := []string{r.Agent}
		if o.queue.backlog != nil {
			o.queue.withdraw(conv.ContextID, r.EventID)
			inboxes = []string{transport.Queue, r.Agent} // in the order in which a task goes through them
		}
		for _, inbox := range inboxes {
			if err := w.Withdraw(ctx, transport.Inbox(conv.Tenant, inbox), conv.ContextID, transport.Cortex, r.EventID); err != nil {
				o.log.Info("task not taken back", "context_id", conv.ContextID, "agent", r.Agent, "err", err)
			}
		}
	}
}
