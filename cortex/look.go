package cortex

import (
	"context"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// maxOverdues bounds the conversations that are read at a time for overdue tasks. After a restart all that waited may be overdue, and their conversations be
// large. Nobody waits for what comes of it.
const maxOverdues = 4

// lookedAt is what those share who look at a conversation. They are one person's, since the reads of a person wait for one another.
type lookedAt struct {
	contextID, requester string
	overdue              bool
}

// looked is a conversation that several tasks look at.
type looked struct {
	mu   sync.Mutex
	conv *conversation.Conversation
}

// look calls f with the conversation of a task that waits in the queue, as the log says it now. Those who ask for it at the same time share a reading: of one
// conversation there may be hundreds of tasks. f changes nothing, keeps nothing that may change, and is quick.
func (o *Orchestrator) look(ctx context.Context, t *queuedTask, overdue bool, f func(*conversation.Conversation)) error {
	is, err := o.looks.Get(ctx, lookedAt{t.contextID, t.requester, overdue}, func(ctx context.Context) (*looked, error) {
		if overdue {
			select {
			case o.overdues <- struct{}{}:
				defer func() { <-o.overdues }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		conv, err := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, t.contextID)
		return &looked{conv: conv}, err
	})
	if err != nil {
		return err
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	f(is.conv)
	return nil
}
