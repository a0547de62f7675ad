package rockbot

import (
	"context"
	"encoding/json"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// dataOf returns the values that agents have given back for the turn of a direct request.
func dataOf(ctx context.Context, at *role.Site, turn client.Turn) (values []json.RawMessage, err error) {
	begun := false
	for e, err := range at.Store.Load(ctx, at.Tenant, turn.ContextID, 0) {
		if err != nil {
			return nil, err
		}
		switch p := e.Cause.Payload.(type) {
		case *a2a.Message:
			begun = p.ID == turn.MessageID || begun && p.Role != a2a.MessageRoleUser
		case *a2a.Task:
			if begun && p.Status.State == a2a.TaskStateCompleted {
				values = append(values, valuesOf(p)...)
			}
		}
	}
	return values, nil
}

func valuesOf(t *a2a.Task) (values []json.RawMessage) {
	for _, p := range kit.Parts(t) {
		if d, ok := p.Content.(a2a.Data); ok {
			if b, err := transport.EncodeValue(d.Value); err == nil {
				values = append(values, b)
			}
		}
	}
	return values
}
