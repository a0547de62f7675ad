package cli

import (
	"context"
	"errors"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// On an external NATS server there is no data folder by which a chat could find out whether an orchestrator runs. So each
// orchestrator announces itself like an agent, under the id that no agent may have.
const (
	presenceTTL   = 10 * time.Second
	presenceEvery = 3 * time.Second
)

// announce keeps saying that an orchestrator runs, until ctx ends; then it says that it has gone.
func announce(ctx context.Context, tr transport.Transport, tenant string) error {
	instance := uuid.NewString()
	publish := func(ctx context.Context, gone transport.GoneReason) error {
		return tr.Publish(ctx, transport.Cards(tenant), &transport.Event{
			ID: uuid.NewString(), Time: time.Now(), From: transport.Cortex, Tenant: tenant,
			Payload: &transport.Card{
				AgentID: transport.Cortex, Instance: instance, TTL: presenceTTL, Gone: gone,
				Card: &a2a.AgentCard{Name: transport.Cortex, Description: "the orchestrator", Version: buildVersion()},
			},
		})
	}
	tick := time.NewTicker(presenceEvery)
	defer tick.Stop()
	for {
		if err := publish(ctx, ""); errors.Is(err, transport.ErrClosed) {
			return err
		} // any other error: the server is away, and the next tick tries again
		select {
		case <-tick.C:
		case <-ctx.Done():
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			publish(bye, transport.GoneLeft) //nolint:errcheck // else the TTL says it
			return nil
		}
	}
}

var errDone = errors.New("done")

// present reports whether an orchestrator has announced itself.
func present(ctx context.Context, tr transport.Transport, tenant string) (bool, error) {
	sub, err := tr.Subscribe(ctx, transport.Cards(tenant), nil)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := false
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		switch p := e.Payload.(type) {
		case *transport.Card:
			if p.AgentID == transport.Cortex && p.Gone == "" {
				found = true
				cancel(errDone)
			}
		case *transport.Synced:
			cancel(errDone)
		}
		return nil
	})
	if errors.Is(context.Cause(ctx), errDone) {
		err = nil
	}
	return found, err
}
