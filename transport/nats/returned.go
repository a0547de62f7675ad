package nats

import (
	"context"
	"encoding/json"
	"errors"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.ReturnWatcher = (*Bus)(nil)

const (
	// nakAdvisory begins the subjects on which the server tells of each message that a consumer's client hands back, which costs nothing while nobody listens.
	nakAdvisory = "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED."
	// returnedOften is how many deliveries of an event are told of: a subscriber that leaves hands back what it has, once.
	returnedOften = 10
	// returnedWaiting bounds the advisories that wait; further ones are left out.
	returnedWaiting = 4096
	// returnedKnown bounds the events of which it is known what they are.
	returnedKnown = 1024
)

// WatchReturned implements [transport.ReturnWatcher].
func (b *Bus) WatchReturned(ctx context.Context, tenant string, tell func(transport.Returned)) error {
	heard := make(chan *natsgo.Msg, returnedWaiting)
	// A callback, since the library reports what a full channel of a subscription loses, each time, as a fault of the connection.
	sub, err := b.nc.Subscribe(nakAdvisory+inboxStream+".>", func(m *natsgo.Msg) {
		select {
		case heard <- m:
		default:
		}
	})
	if err != nil {
		return translate(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection is closed
	known := map[uint64]transport.Returned{}
	for {
		var m *natsgo.Msg
		select {
		case <-ctx.Done():
			return nil
		case <-b.done:
			return transport.ErrClosed
		case m = <-heard:
		}
		var said struct {
			Seq        uint64 `json:"stream_seq"`
			Deliveries int    `json:"deliveries"`
		}
		if json.Unmarshal(m.Data, &said) != nil || said.Deliveries < returnedOften {
			continue
		}
		r, ok := known[said.Seq]
		if !ok {
			if r, err = b.returned(ctx, said.Seq); err != nil {
				continue // it was handled meanwhile, or will be told of again
			}
			if len(known) >= returnedKnown {
				clear(known)
			}
			known[said.Seq] = r
		}
		if r.Times = said.Deliveries; r.Inbox.Tenant == tenant {
			tell(r)
		}
	}
}

// returned returns what is known of the event with a sequence in the inboxes' stream.
func (b *Bus) returned(ctx context.Context, seq uint64) (r transport.Returned, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	m, err := b.get(ctx, inboxStream, map[string]any{"seq": seq})
	if err != nil {
		return r, err
	}
	at, err := parseInboxSubject(m.Subject)
	if err != nil {
		return r, errors.Join(transport.ErrInvalid, err)
	}
	return transport.Returned{Inbox: transport.Inbox(at.tenant, at.to), Stored: m.Time}, nil
}
