package nats

import (
	"context"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// pullAgain is the pause before the next request when the server does not yet have a route to a consumer; wayTimeout is how long that may last.
const (
	pullAgain  = 10 * time.Millisecond
	wayTimeout = 2 * time.Second
)

// pull delivers messages of a consumer without acknowledgements. Unlike the client's own pull it repeats a request without responders at once: in a
// cluster, the answer that a consumer was made can arrive before the route to its server exists. Only one goroutine may use it.
type pull struct {
	bus     *Bus
	subject string
	sub     *natsgo.Subscription
	msgs    chan *natsgo.Msg

	asked   int       // messages that were requested and have not arrived
	heard   time.Time // when the last message of any kind arrived
	unheard time.Time // since when requests have had no responder; zero: the last one had
}

// newPull starts to pull from a consumer. The caller ends it with close.
func (b *Bus) newPull(stream, consumer string) (*pull, error) {
	msgs := make(chan *natsgo.Msg, 2*cardPulls) // the messages and the server's statuses
	sub, err := b.nc.ChanSubscribe(b.nc.NewInbox(), msgs)
	if err != nil {
		return nil, err
	}
	return &pull{
		bus: b, subject: jsAPI + "CONSUMER.MSG.NEXT." + stream + "." + consumer, sub: sub, msgs: msgs, heard: time.Now(),
	}, nil
}

func (p *pull) close() { _ = p.sub.Unsubscribe() }

// next waits for a message. It returns ctx's error when ctx ends; after any other error the pull is unusable.
func (p *pull) next(ctx context.Context) (*natsgo.Msg, error) {
	for {
		if p.asked <= cardPulls/2 {
			if err := p.ask(); err != nil {
				return nil, err
			}
		}
		var m *natsgo.Msg
		select {
		case m = <-p.msgs:
		case <-ctx.Done():
			if time.Since(p.heard) > 2*pullHeartbeat {
				return nil, errMissedHeartbeat
			}
			return nil, ctx.Err()
		}
		status := statusOf(m)
		if status == unheard {
			if err := p.unanswered(ctx); err != nil {
				return nil, err
			}
			continue
		}
		p.heard, p.unheard = time.Now(), time.Time{}
		switch status {
		case "":
			p.asked--
			return m, nil
		case heartbeat:
			continue
		}
		left, ok := unserved(m)
		if !ok {
			return nil, fmt.Errorf("%s %s", status, m.Header.Get("Description"))
		}
		p.asked -= left
	}
}

// ask requests as many messages as there is room for.
func (p *pull) ask() error {
	n := cardPulls - p.asked
	req := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, int64(pullExpires), int64(pullHeartbeat))
	if err := p.bus.nc.PublishRequest(p.subject, p.sub.Subject, req); err != nil {
		return err
	}
	p.asked += n
	return nil
}

// unanswered handles a request without responders. After wayTimeout it returns natsgo.ErrNoResponders: the consumer is gone.
func (p *pull) unanswered(ctx context.Context) error {
	p.asked = 0
	if p.unheard.IsZero() {
		p.unheard = time.Now()
	}
	if time.Since(p.unheard) > wayTimeout {
		return natsgo.ErrNoResponders
	}
	p.bus.pause(ctx, pullAgain)
	return ctx.Err()
}

// Statuses that a server sends about a pull.
const (
	heartbeat = "100" // no message at the moment
	unheard   = "503" // no responders
)

// statusOf returns the status in m, or "" when m is a message of the stream: those have a reply subject for their acknowledgement, whatever their
// headers are.
func statusOf(m *natsgo.Msg) string {
	if m.Reply != "" {
		return ""
	}
	return m.Header.Get("Status")
}

// unserved returns how many messages of an ended pull were not delivered. ok is false for a status that does not end a pull regularly: the consumer
// is gone, or its leader has changed.
func unserved(m *natsgo.Msg) (int, bool) {
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	return left, err == nil
}
