package nats

import (
	"context"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// pullAgain is the pause before a server is asked again that does not know the way to a consumer, and wayTimeout how long it may
// not know it.
const (
	pullAgain  = 10 * time.Millisecond
	wayTimeout = 2 * time.Second
)

// pull is the flow from a consumer whose messages are not acknowledged. Unlike the client's own it asks again at once when nobody
// has heard it: in a cluster the answer that a consumer was made can be here before the way to the server that has it. It is for one
// goroutine.
type pull struct {
	bus     *Bus
	subject string
	sub     *natsgo.Subscription
	msgs    chan *natsgo.Msg

	asked   int       // messages that were asked for and have not come
	heard   time.Time // last message of any kind
	unheard time.Time // since then nobody has heard what was asked; zero: somebody has
}

// newPull begins the flow from a consumer. The caller ends it with close.
func (b *Bus) newPull(stream, consumer string) (*pull, error) {
	msgs := make(chan *natsgo.Msg, 2*cardPulls) // what is asked for, and what is said of it
	sub, err := b.nc.ChanSubscribe(b.nc.NewInbox(), msgs)
	if err != nil {
		return nil, err
	}
	return &pull{
		bus: b, subject: jsAPI + "CONSUMER.MSG.NEXT." + stream + "." + consumer, sub: sub, msgs: msgs, heard: time.Now(),
	}, nil
}

func (p *pull) close() { _ = p.sub.Unsubscribe() }

// next waits for a message until ctx ends, whose error it returns then. Any other error ends the flow.
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

// ask asks for as many messages as there is room for.
func (p *pull) ask() error {
	n := cardPulls - p.asked
	req := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, int64(pullExpires), int64(pullHeartbeat))
	if err := p.bus.nc.PublishRequest(p.subject, p.sub.Subject, req); err != nil {
		return err
	}
	p.asked += n
	return nil
}

// unanswered takes notice that nobody has heard what was asked. When it has been so for too long, the consumer is gone.
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

// What a server says of a pull, rather than sending a message for it.
const (
	heartbeat = "100" // there is none at the moment
	unheard   = "503" // nobody is there to be asked
)

// statusOf returns what a server says of a pull with m, or "" when m is a message for it: that has an address for its acknowledgement,
// whatever its sender has put into its header.
func statusOf(m *natsgo.Msg) string {
	if m.Reply != "" {
		return ""
	}
	return m.Header.Get("Status")
}

// unserved returns how many messages of a pull that has ended did not come. It reports false for a status that says nothing of a pull:
// the consumer is gone, or its leader has changed.
func unserved(m *natsgo.Msg) (int, bool) {
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	return left, err == nil
}
