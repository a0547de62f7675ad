package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	floorCortex = "bench.floor.cortex"
	floorAgent  = "bench.floor.agent"
)

// floor is the path of a turn without its work: user → cortex → agent → cortex → user, as two nested requests of core NATS, on the connections of a
// node. Nothing is stored or decided.
type floor struct {
	user *nats.Conn
	subs []*nats.Subscription
	data []byte
}

// newFloor starts to answer on a node's connections, until Close.
func newFloor(n *node) (*floor, error) {
	f := &floor{user: n.userBus.Conn(), data: bytes.Repeat([]byte("f"), payload)}
	agent, orch := n.agentBus.Conn(), n.bus.Conn()
	for _, answer := range []struct {
		conn    *nats.Conn
		subject string
		handle  nats.MsgHandler
	}{
		{agent, floorAgent, func(m *nats.Msg) { m.Respond(m.Data) }}, //nolint:errcheck // the request tells
		{orch, floorCortex, func(m *nats.Msg) {
			go func() { // concurrent requests wait for the agent
				if answer, err := orch.Request(floorAgent, m.Data, defaultWait); err == nil {
					m.Respond(answer.Data) //nolint:errcheck // the request tells
				}
			}()
		}},
	} {
		sub, err := answer.conn.Subscribe(answer.subject, answer.handle)
		if err == nil {
			f.subs = append(f.subs, sub)
			err = answer.conn.FlushTimeout(startTimeout)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("floor: %w", err)
		}
	}
	return f, nil
}

// Close stops answering.
func (f *floor) Close() {
	for _, s := range f.subs {
		s.Unsubscribe() //nolint:errcheck // or the connection is closed
	}
}

// turn makes one round trip.
func (f *floor) turn(context.Context, int) (time.Duration, error) {
	begin := time.Now()
	if _, err := f.user.Request(floorCortex, f.data, defaultWait); err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	return time.Since(begin), nil
}
