package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

// patient is the transport of an agent. It reports once that the agent has joined, once that it waits because Cortex or its server is unavailable,
// and once that it continues.
type patient struct {
	transport.Transport
	joins func()           // called when its card is accepted for the first time
	tell  func(away error) // nil: available again

	mu     sync.Mutex
	joined bool
	down   bool // the connection is lost, which onConn reports
	away   bool
}

// whole returns p with those optional interfaces of its transport that agents use.
func (p *patient) whole() transport.Transport {
	files, f := p.Transport.(transport.Files)
	depth, d := p.Transport.(transport.InboxDepth)
	switch {
	case f && d:
		return struct {
			*patient
			transport.Files
			transport.InboxDepth
		}{p, files, depth}
	case f:
		return struct {
			*patient
			transport.Files
		}{p, files}
	case d:
		return struct {
			*patient
			transport.InboxDepth
		}{p, depth}
	}
	return p
}

// Publish implements [transport.Transport].
func (p *patient) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	err := p.Transport.Publish(ctx, t, e)
	p.learn(err)
	if err == nil && t.Kind == transport.KindCards {
		p.announced()
	}
	return err
}

// announced notes that a card was accepted.
func (p *patient) announced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.joined {
		p.joined = true
		p.joins()
	}
}

// Subscribe implements [transport.Transport].
func (p *patient) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s, err := p.Transport.Subscribe(ctx, t, o)
	p.learn(err)
	return s, err
}

// learn notes the result of a call.
func (p *patient) learn(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	away := errors.Is(err, transport.ErrUnavailable)
	if away == p.away || !away && err != nil || away && p.down {
		return
	}
	p.away = away
	p.tell(err)
}

// connected notes the state of the connection.
func (p *patient) connected(up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = !up
}
