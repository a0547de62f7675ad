package cli

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
)

// usage describes what a conversation has cost so far.
func (b *backend) usage(ctx context.Context, contextID string) (string, error) {
	conv, err := storage.Load(ctx, b.store, b.tenant, contextID)
	if err != nil {
		return "", err
	}
	if conv.Usage == (llm.Usage{}) {
		return "no model was asked in this conversation yet", nil
	}
	return view.UsageLine(conv.Usage), nil
}
