package cli

import (
	"context"
	"iter"
	"log/slog"
	"os"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/traces"
)

// agentTracer starts the traces of an agent in its own process, likewise; nil: none are asked for.
func (e *env) agentTracer(ctx context.Context, name string, log *slog.Logger) (agents.Tracer, func(), error) {
	if !traces.Wanted(os.Getenv) {
		return nil, func() {}, nil
	}
	return traces.OpenAgent(ctx, name, traces.Options{
		Version: buildVersion(), Instance: processLabel(), Tenant: e.settings.tenant, Getenv: os.Getenv, Logger: log,
	})
}

// openTraces starts the traces that OpenTelemetry's standard environment asks for; nil: it asks for none. running returns the node, nil until it is
// ready.
func (e *env) openTraces(ctx context.Context, log *slog.Logger, running func() *node) (*traces.Traces, error) {
	if !traces.Wanted(os.Getenv) {
		return nil, nil
	}
	return traces.Open(ctx, traces.Options{
		Version: buildVersion(), Instance: processLabel(), Tenant: e.settings.tenant, Getenv: os.Getenv, Logger: log,
		Load: func(ctx context.Context, k conversation.Key) iter.Seq2[*conversation.Entry, error] {
			if n := running(); n != nil {
				return n.store.Load(ctx, k.Tenant, k.ContextID, 0)
			}
			return func(func(*conversation.Entry, error) bool) {}
		},
	})
}
