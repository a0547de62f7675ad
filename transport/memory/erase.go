package memory

import (
	"context"

	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.Eraser = (*Bus)(nil)

// Erase implements [transport.Eraser].
func (b *Bus) Erase(ctx context.Context, tenant, contextID string) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	for t, in := range b.w.inboxes {
		if t.Tenant == tenant {
			in.withdraw(contextID, func(*record) bool { return true })
			in.tidy()
		}
	}
	b.w.removeFiles(tenant, contextID)
	b.w.removeDead(tenant, func(d *deadLetter) bool { return d.r.envelope.ContextID == contextID })
	return nil
}
