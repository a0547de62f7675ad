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

// translate wraps an error of the client with the matching sentinel of package transport, and keeps the cause.
func translate(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsgo.ErrConnectionClosed), errors.Is(err, natsgo.ErrConnectionDraining):
		return fmt.Errorf("%w: %w", transport.ErrClosed, err)
	case errors.Is(err, natsgo.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return fmt.Errorf("%w: %w: the server's limit is lower than Cortex's; raise its max_payload to 8MB: %w", transport.ErrInvalid, transport.ErrTooLarge, err)
	case isUnavailable(err):
		return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
	case errors.As(err, &api) && (api.Code == codeForbidden || api.ErrorCode == 0 && kindOf(api.Code) != nil):
		return fmt.Errorf("%w: %s", kindOf(api.Code), oneLine(api.Description, 500))
	case errors.As(err, &api):
		// The server cannot do it now: no leader, or its disk or the stream is full.
		if api.Code >= 500 {
			return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		}
	}
	return err
}

// Codes in a gateway's refusals. Errors of the server itself have an error code as well.
const (
	codeForbidden   = 403
	codeInvalid     = 400
	codeNotFound    = 404
	codeTooLarge    = 413
	codeTooMuch     = 429
	codeFull        = 507
	codeUnavailable = 503
	codeFilesFull   = 509 // older versions treat it as unavailable
)

var (
	// errTooMuch is for a caller that exceeds its share.
	errTooMuch = fmt.Errorf("%w: too much at once", transport.ErrUnavailable)
	// errTooLarge is the error of Publish for such an event.
	errTooLarge = fmt.Errorf("%w: %w", transport.ErrInvalid, transport.ErrTooLarge)
)

// refusals are the kinds of a gateway's refusals with their codes. A kind comes before those that it also wraps.
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

// codeOf returns the code for err.
func codeOf(err error) int {
	for _, r := range refusals {
		if errors.Is(err, r.kind) {
			return r.code
		}
	}
	return codeUnavailable
}

// kindOf returns the error for a code; nil when no gateway uses the code.
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

// explainAbsence replaces err, the absence of an answer, by a clearer error where the cause is known.
func (b *Bus) explainAbsence(err error) error {
	none := errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrJetStreamNotEnabled)
	failed := b.nc.failed.Load()
	switch {
	case !b.nc.IsConnected() && failed != nil:
		return b.refusedError(*failed)
	case errors.Is(err, natsgo.ErrReconnectBufExceeded): // the client's error for a lost connection
		return fmt.Errorf("the connection to the NATS server is lost: %w", natsgo.ErrDisconnected)
	case none && b.who.Limited():
		return fmt.Errorf("no Cortex runs for %s, who reaches the server through one only: start it with `cortex serve`: %w", b.who, natsgo.ErrNoResponders)
	}
	return err
}

// refusedError returns the reason why the bus does not reconnect to a server that is running.
func (b *Bus) refusedError(err error) error {
	if isImpostor(err) {
		return fmt.Errorf("%w: the NATS server that answers now is not gone on with: %w, so it is not the one that there are keys for", transport.ErrForbidden, err)
	}
	return b.loginError(err)
}

// loginError returns the error for a running server that refuses the login, with advice.
func (b *Bus) loginError(err error) error {
	if b.anonymous {
		return fmt.Errorf("%w: the NATS server came back with keys, as with --auth, and wants to know who this is, which has joined without credentials: start it again with --creds (`cortex auth` makes them): %w",
			transport.ErrForbidden, err)
	}
	return fmt.Errorf("%w: the NATS server does not accept the credentials any more: make new ones in their file, and this goes on: %w", transport.ErrForbidden, err)
}

// checkSender returns ErrForbidden when the credentials are for another tenant, or for another id than id, unless id is empty. The gateway would refuse
// such events, and live ones would be lost silently.
func (b *Bus) checkSender(id, tenant string) error {
	switch {
	case !b.who.Limited():
		return nil
	case b.who.Tenant != tenant:
		return fmt.Errorf("%w: the credentials are for %s, not for tenant %q: give --tenant, or others with --creds", transport.ErrForbidden, b.who, tenant)
	case id != "" && b.who.ID != id:
		return fmt.Errorf("%w: the credentials are for %q, not for %q: give others with --creds", transport.ErrForbidden, b.who.ID, id)
	}
	return nil
}

// Errors of the server's API that pass by themselves and have no name in the client: a cluster elects a leader, or the same event is being
// replicated already.
var passing = []jetstream.ErrorCode{
	10008,          // JetStream system temporarily unavailable
	10009,          // JetStream cluster can not handle request
	errNoResources, // another server of a cluster may have some
	10158,          // duplicate message id is in process
	10163,          // expected last sequence per subject temporarily unavailable
	10167,          // too many requests
}

// errNoResources is the error of a server that may store no more.
const errNoResources jetstream.ErrorCode = 10023

// exhausted are the errors of the server's API for a server or an account that stores as much as it may.
var exhausted = []jetstream.ErrorCode{
	10002, // resource limits exceeded for account
	errNoResources,
	10047, // insufficient storage resources
}

// hasNoRoom reports whether err says that the server stores no more until data is deleted or its limits are raised.
func hasNoRoom(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(exhausted, api.ErrorCode)
}

// isUnavailable reports whether err says that the server did not answer, or cannot yet; a later attempt may succeed.
func isUnavailable(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && slices.Contains(passing, api.ErrorCode) {
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
	return errors.As(err, &broken) && broken.Op == "write" // the connection has ended, but its reader has not noticed
}
