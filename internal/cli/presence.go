package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// On an external NATS server there is no data folder by which a chat could find out whether an orchestrator runs. So each
// orchestrator announces itself like an agent, under the id that no agent may have.
const (
	presenceTTL   = 15 * time.Second
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

// announced is a transport that tells of one agent without reading the cards of all.
type announced interface {
	Announced(ctx context.Context, tenant, agent string) (bool, error)
}

// appears reports whether an orchestrator has announced itself, or does so before people stop waiting for it. The error is ErrUnavailable when
// that cannot be told, since nothing was answered in time.
func appears(ctx context.Context, tr transport.Transport, tenant string) (bool, error) {
	var unheard error                    // why it is not known who has
	if board, ok := tr.(announced); ok { // else, and while none is there, all cards are read
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
	late := time.AfterFunc(syncTimeout, func() { cancel(errNoCortex) })
	defer late.Stop()
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		switch p := e.Payload.(type) {
		case *transport.Card:
			if p.AgentID == transport.Cortex && p.Gone == "" {
				cancel(errDone)
			}
		case *transport.Synced:
			unheard = nil
			late.Reset(2 * behindGateway) // all who are there were seen, but for one whose server is very busy
		}
		return nil
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDone):
		return true, nil
	case errors.Is(cause, errNoCortex):
		return false, unheard
	}
	return false, err
}

// awaitCortex waits for a Cortex to run on a server that this process has not started, for as long as people wait. Who runs one
// there, and by which rules, is not for a chat or a question to decide: what waits in its inbox is other people's.
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

// unanswered is the error for who is heard by a Cortex too late, or not at all.
func unanswered(url, who string, err error) error {
	return fmt.Errorf("the cortex at %s does not answer %s in time: it has too much to do, or too much was sent with this key, by this program or another: end what sends so much, and try again: %w",
		url, who, err)
}

var errNoCortex = errors.New("no cortex runs")

// noCortex is the error for who needs a Cortex of a tenant on a server that is there. who has connected; nil when that is not known.
func noCortex(tenant, url string, who *auth.Identity) error {
	of, command, with := "", "cortex serve"+tenantFlag(tenant)+" --nats "+shellWord(url), ""
	if tenant != "" {
		of = " for " + tenantName(tenant)
	}
	switch {
	case who.Limited():
		with = " and the --creds of its orchestrator"
	case who != nil:
		command += " --creds " + shellWord(who.File)
	}
	return fmt.Errorf("%w%s at %s: start one with `%s`%s", errNoCortex, of, url, command, with)
}
