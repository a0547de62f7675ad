package nats

import (
	"context"
	"errors"
	"fmt"

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
	case errors.As(err, &api):
		// What the server cannot do now: no leader, disk or stream full.
		if api.Code >= 500 {
			return fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		}
	}
	return err
}

// away reports whether err says that the server did not answer; it may later.
func away(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, natsgo.ErrTimeout, natsgo.ErrNoResponders, natsgo.ErrNoServers, natsgo.ErrDisconnected, natsgo.ErrReconnectBufExceeded,
		natsgo.ErrConnectionReconnecting, natsgo.ErrStaleConnection, jetstream.ErrNoStreamResponse, jetstream.ErrNoHeartbeat, jetstream.ErrServerShutdown,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
