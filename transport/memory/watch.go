package memory

import (
	"context"
	"fmt"

	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.InboxWatcher = (*Bus)(nil)

// inboxWatch is a watch of inboxes. Guarded by b.w.mu, except the channels.
type inboxWatch struct {
	b      *Bus
	closed chan struct{}
	news   chan struct{} // has an element when roused is not empty
	over   bool
	served bool
	topics map[transport.Topic]struct{}
	roused map[transport.Topic]struct{}
}

// WatchInboxes implements [transport.InboxWatcher].
func (b *Bus) WatchInboxes(ctx context.Context) (transport.InboxWatch, error) {
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.w.mu.Unlock()
	w := &inboxWatch{
		b: b, closed: make(chan struct{}), news: make(chan struct{}, 1),
		topics: map[transport.Topic]struct{}{}, roused: map[transport.Topic]struct{}{},
	}
	b.watches[w] = struct{}{}
	return w, nil
}

// Add implements [transport.InboxWatch].
func (w *inboxWatch) Add(ctx context.Context, inboxes ...transport.Topic) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range inboxes {
		if err := checkTopic(t); err != nil || t.Kind != transport.KindInbox {
			return fmt.Errorf("%w: watch %v: it is no inbox", transport.ErrInvalid, t)
		}
	}
	world := w.b.w
	world.mu.Lock()
	defer world.mu.Unlock()
	if w.over {
		return transport.ErrClosed
	}
	for _, t := range inboxes {
		w.topics[t] = struct{}{}
		if world.watches[t] == nil {
			world.watches[t] = map[*inboxWatch]struct{}{}
		}
		world.watches[t][w] = struct{}{}
		if in := world.inboxes[t]; in != nil && in.size > 0 {
			w.rouse(t)
		}
	}
	return nil
}

// Remove implements [transport.InboxWatch].
func (w *inboxWatch) Remove(inboxes ...transport.Topic) {
	w.b.w.mu.Lock()
	defer w.b.w.mu.Unlock()
	for _, t := range inboxes {
		w.remove(t)
	}
}

func (w *inboxWatch) remove(t transport.Topic) {
	delete(w.topics, t)
	delete(w.roused, t)
	all := w.b.w.watches
	if delete(all[t], w); len(all[t]) == 0 {
		delete(all, t)
	}
}

// rouse makes Serve report t; w.mu of the world is held.
func (w *inboxWatch) rouse(t transport.Topic) {
	w.roused[t] = struct{}{}
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Serve implements [transport.InboxWatch].
func (w *inboxWatch) Serve(ctx context.Context, wake func(transport.Topic)) error {
	w.b.w.mu.Lock()
	served := w.served
	w.served = true
	w.b.w.mu.Unlock()
	if served {
		return errServed
	}
	for {
		select {
		case <-w.closed:
			return transport.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-w.news:
		}
		w.b.w.mu.Lock()
		roused := w.roused
		w.roused = map[transport.Topic]struct{}{}
		w.b.w.mu.Unlock()
		for t := range roused {
			wake(t)
		}
	}
}

// Close implements [transport.InboxWatch].
func (w *inboxWatch) Close() error {
	w.b.w.mu.Lock()
	defer w.b.w.mu.Unlock()
	w.end()
	return nil
}

func (w *inboxWatch) end() {
	if w.over {
		return
	}
	w.over = true
	close(w.closed)
	for t := range w.topics {
		w.remove(t)
	}
	delete(w.b.watches, w)
}
