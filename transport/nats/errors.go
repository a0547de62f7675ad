package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// translate adds the sentinel of package transport that fits to an error of the client, and keeps the cause.
func translate(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsgo.ErrConnectionClosed), errors.Is(err, natsgo.ErrConnectionDraining):
		return fmt.Errorf("%w: %w", transport.ErrClosed, err)
	case errors.Is(err, natsgo.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return fmt.Errorf("%w: %w: the server's limit is lower than Cortex's; raise its max_payload to 8MB: %w", transport.ErrInvalid, transport.ErrTooLarge, err)
	case away(err):
		return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	case errors.As(err, &api) && (api.Code == codeForbidden || api.ErrorCode == 0 && kindOf(api.Code) != nil):
		return fmt.Errorf("%w: %s", kindOf(api.Code), oneLine(api.Description, 500))
	case errors.As(err, &api):
		// What the server cannot do now: no leader, disk or stream full.
		if api.Code >= 500 {
			return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		}
	}
	return err
}

// What is in the answers of a gateway to what it does not let through, where the server's own have a code more.
const (
	codeForbidden   = 403
	codeInvalid     = 400
	codeNotFound    = 404
	codeTooLarge    = 413
	codeTooMuch     = 429
	codeFull        = 507
	codeUnavailable = 503
	codeFilesFull   = 509 // an older build takes it for unavailable
)

var (
	// errTooMuch is for a caller that asks for more than its share.
	errTooMuch = fmt.Errorf("%w: too much at once", transport.ErrUnavailable)
	// errTooLarge is what Publish says of such an event.
	errTooLarge = fmt.Errorf("%w: %w", transport.ErrInvalid, transport.ErrTooLarge)
)

// refusals are the kinds of a gateway's refusals, each before those that it is one of, and their codes.
var refusals = []struct {
	kind error
	code int
}{
	{transport.ErrForbidden, codeForbidden},
	{transport.ErrTooLarge, codeTooLarge},
	{transport.ErrInvalid, codeInvalid},
	{transport.ErrNotFound, codeNotFound},
	{transport.ErrFull, codeFull},
	{transport.ErrFilesFull, codeFilesFull},
	{errTooMuch, codeTooMuch},
}

// codeOf returns the code that stands for err.
func codeOf(err error) int {
	for _, r := range refusals {
		if errors.Is(err, r.kind) {
			return r.code
		}
	}
	return codeUnavailable
}

// kindOf returns what a code stands for; nil when it is none of a gateway's refusals.
func kindOf(code int) error {
	for _, r := range refusals {
		if r.code == code {
			if r.code == codeTooLarge {
				return errTooLarge
			}
			return r.kind
		}
	}
	return nil
}

// whyAway says more of why no answer came than err does, where more is known.
func (b *Bus) whyAway(err error) error {
	none := errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrJetStreamNotEnabled)
	failed := b.nc.failed.Load()
	switch {
	case !b.nc.IsConnected() && failed != nil:
		return b.whyBarred(*failed)
	case errors.Is(err, natsgo.ErrReconnectBufExceeded): // which is how the client says it
		return fmt.Errorf("the connection to the NATS server is lost: %w", natsgo.ErrDisconnected)
	case none && b.who.Limited():
		return fmt.Errorf("no Cortex runs for %s, who reaches the server through one only: start it with `cortex serve`: %w", b.who, natsgo.ErrNoResponders)
	}
	return err
}

// whyBarred says why the connection is not made again, though a server is there.
func (b *Bus) whyBarred(err error) error {
	if errors.Is(err, errUnasked) {
		return fmt.Errorf("%w: the NATS server that answers now is not gone on with: %w, so it is not the one that there are keys for", transport.ErrForbidden, err)
	}
	return b.notLetIn(err)
}

// notLetIn says why a server that has come back does not let the connection be made again, and what to do.
func (b *Bus) notLetIn(err error) error {
	if b.anonymous {
		return fmt.Errorf("%w: the NATS server came back with keys, as with --auth, and wants to know who this is, which has joined without credentials: start it again with --creds (`cortex auth` makes them): %w",
			transport.ErrForbidden, err)
	}
	return fmt.Errorf("%w: the NATS server does not accept the credentials any more: make new ones, and start it again: %w", transport.ErrForbidden, err)
}

// mayBe returns an error when the credentials are for somebody else than id, unless that is empty, or for another tenant: the gateway
// would not let it through, and what is live would be lost without a word.
func (b *Bus) mayBe(id, tenant string) error {
	switch {
	case !b.who.Limited():
		return nil
	case b.who.Tenant != tenant:
		return fmt.Errorf("%w: the credentials are for %s, not for tenant %q: give --tenant, or others with --creds", transport.ErrForbidden, b.who, tenant)
	case id != "" && b.who.ID != id:
		return fmt.Errorf("%w: the credentials are for %s, not for %q: give others with --creds", transport.ErrForbidden, b.who, id)
	}
	return nil
}

// Errors of the server's API that pass by themselves and have no name in the client: a cluster elects a leader, or the same
// event is on its way to the other servers already.
var passing = []jetstream.ErrorCode{
	10008,          // JetStream system temporarily unavailable
	10009,          // JetStream cluster can not handle request
	errNoResources, // another server of a cluster may have some
	10158,          // duplicate message id is in process
	10163,          // expected last sequence per subject temporarily unavailable
	10167,          // too many requests
}

// errNoResources is in the answers of a server that may store no more.
const errNoResources jetstream.ErrorCode = 10023

// exhausted are the errors of the server's API that say that it, or this account, has stored as much as it may.
var exhausted = []jetstream.ErrorCode{
	10002, // resource limits exceeded for account
	errNoResources,
	10047, // insufficient storage resources
}

// hasNoRoom reports whether err says that the server stores no more until something is deleted, or its limits are raised.
func hasNoRoom(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(exhausted, api.ErrorCode)
}

// away reports whether err says that the server did not answer, or not yet; it may later.
func away(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(passing, api.ErrorCode) {
		return true
	}
	for _, e := range []error{
		context.DeadlineExceeded, natsgo.ErrTimeout, natsgo.ErrNoResponders, natsgo.ErrNoServers, natsgo.ErrDisconnected, natsgo.ErrReconnectBufExceeded,
		natsgo.ErrConnectionReconnecting, natsgo.ErrStaleConnection, jetstream.ErrNoStreamResponse, jetstream.ErrNoHeartbeat, jetstream.ErrServerShutdown,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var broken *net.OpError
	return errors.As(err, &broken) && broken.Op == "write" // the connection has ended, which its reader has not noticed yet
}
