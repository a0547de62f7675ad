package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// On an external NATS server there is no data folder that shows whether an orchestrator runs. So each orchestrator announces itself like an agent,
// under an id that agents may not have.
const (
	presenceTTL   = 15 * time.Second
	presenceEvery = 3 * time.Second
)

// announce announces the orchestrator periodically until ctx ends, then announces its departure.
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
		} // on any other error the server is unavailable, and the next tick retries
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

// announced is implemented by transports that can look up one agent without reading all cards.
type announced interface {
	Announced(ctx context.Context, tenant, agent string) (bool, error)
}

// appears reports whether an orchestrator has announced itself, or does so within the time that users wait. It returns ErrUnavailable when nothing
// answered in time.
func appears(ctx context.Context, tr transport.Transport, tenant string) (bool, error) {
	var unheard error                    // why no announcement could be read
	if board, ok := tr.(announced); ok { // otherwise, and while none is found, all cards are read
		there := false
		ask := func() (err error) {
			there, err = board.Announced(ctx, tenant, transport.Cortex)
			return err
		}
		err := whileAway(ctx, ask(), ask)
		if err == nil && there {
			return true, nil
		}
		if errors.Is(err, transport.ErrUnavailable) {
			unheard = err
		}
	}
	sub, err := tr.Subscribe(ctx, transport.Cards(tenant), nil)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(syncTimeout, func() { cancel(datadir.ErrNoCortex) })
	defer late.Stop()
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		switch p := e.Payload.(type) {
		case *transport.Card:
			if p.AgentID == transport.Cortex && p.Gone == "" {
				cancel(errDone)
			}
		case *transport.Synced:
			unheard = nil
			late.Reset(2 * behindGateway) // by then all announcements were read, unless the server is very busy
		}
		return nil
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDone):
		return true, nil
	case errors.Is(cause, datadir.ErrNoCortex):
		return false, unheard
	}
	return false, err
}

// awaitCortex waits, for as long as users wait, for an orchestrator on a server that this process did not start. A chat or a question does not start
// one there itself: the inbox of that server has other people's events, and its operator decides who runs an orchestrator and with which policy.
func (l *link) awaitCortex(ctx context.Context) error {
	runs, err := appears(ctx, l.bus, l.tenant)
	switch {
	case err == nil && !runs:
		return l.absent
	case l.sender != "" && errors.Is(err, transport.ErrUnavailable):
		return unanswered(l.url, l.sender, err)
	}
	return err
}

// unanswered is the error when Cortex answers too late, or not at all.
func unanswered(url, who string, err error) error {
	return fmt.Errorf("the cortex at %s does not answer %s in time: it has too much to do, or too much was sent with this key, by this program or another: end what sends so much, and try again: %w",
		url, who, err)
}

// noCortex is the error when a reachable server has no orchestrator for a tenant. who is this process's identity there; nil when it is unknown.
func noCortex(tenant, url string, who *auth.Identity) error {
	of, command, with := "", "cortex serve"+tenantFlag(tenant)+" --nats "+shellWord(url), ""
	if tenant != "" {
		of = " for " + auth.TenantName(tenant)
	}
	switch {
	case who.Limited():
		with = " and the --creds of its orchestrator"
	case who != nil:
		command += " --creds " + shellWord(who.File)
	}
	return fmt.Errorf("%w%s at %s: start one with `%s`%s", datadir.ErrNoCortex, of, url, command, with)
}
