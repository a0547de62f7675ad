package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.InboxWatcher = (*Bus)(nil)

const (
	watchBuffer = 64 << 10 // buffered events; the next look at the stream finds those that do not fit
	watchLook   = time.Minute
	// watchPatience is how long looking may fail before it is a warning.
	watchPatience = time.Minute
)

// inboxWatch receives what is published to inboxes by plain subscriptions, which cost the server no consumers. What these miss, during a lost
// connection or when the buffer is full, it finds by looking into the stream.
type inboxWatch struct {
	bus    *Bus
	heard  chan *natsgo.Msg
	look   chan struct{} // holds one when the stream is to be read
	done   chan struct{}
	closed sync.Once

	mu     sync.Mutex
	served bool
	over   bool
	topics map[string]watchedInbox // by the beginning of their subjects
}

type watchedInbox struct {
	topic transport.Topic
	sub   *natsgo.Subscription
}

// WatchInboxes implements [transport.InboxWatcher].
func (b *Bus) WatchInboxes(ctx context.Context) (transport.InboxWatch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	if b.who.Limited() {
		return nil, fmt.Errorf("%w: many inboxes are watched with the orchestrator's credentials only", transport.ErrForbidden)
	}
	return &inboxWatch{
		bus: b, heard: make(chan *natsgo.Msg, watchBuffer), look: make(chan struct{}, 1), done: make(chan struct{}), topics: map[string]watchedInbox{},
	}, nil
}

// watchKey returns the beginning of the subjects of an inbox.
func watchKey(t transport.Topic) string { return strings.TrimSuffix(inboxFilter(t), ">") }

// Add implements [transport.InboxWatch].
func (w *inboxWatch) Add(ctx context.Context, inboxes ...transport.Topic) error {
	for _, t := range inboxes {
		if err := checkTopic(t); err != nil {
			return err
		}
		if t.Kind != transport.KindInbox {
			return fmt.Errorf("%w: watch %v: it is no inbox", transport.ErrInvalid, t)
		}
	}
	var last *natsgo.Subscription
	for _, t := range inboxes {
		sub, err := w.add(t)
		if err != nil {
			return translate(err)
		}
		if sub != nil {
			last = sub
		}
	}
	if last != nil {
		ctx, cancel := w.bus.asking(ctx)
		defer cancel()
		if err := w.bus.nc.flush(ctx, last); err != nil {
			return translate(err)
		}
	}
	w.lookSoon()
	return nil
}

// add returns the new subscription; nil when the inbox is watched already.
func (w *inboxWatch) add(t transport.Topic) (*natsgo.Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.bus.isClosed() {
		return nil, transport.ErrClosed
	}
	key := watchKey(t)
	if _, ok := w.topics[key]; ok {
		return nil, nil
	}
	sub, err := w.bus.nc.ChanSubscribe(inboxFilter(t), w.heard)
	if err != nil {
		return nil, err
	}
	w.topics[key] = watchedInbox{t, sub}
	return sub, nil
}

// Remove implements [transport.InboxWatch].
func (w *inboxWatch) Remove(inboxes ...transport.Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range inboxes {
		if s, ok := w.topics[watchKey(t)]; ok {
			_ = s.sub.Unsubscribe()
			delete(w.topics, watchKey(t))
		}
	}
}

func (w *inboxWatch) lookSoon() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// Serve implements [transport.InboxWatch].
func (w *inboxWatch) Serve(ctx context.Context, wake func(transport.Topic)) error {
	w.mu.Lock()
	served := w.served
	w.served = true
	w.mu.Unlock()
	if served {
		return errors.New("serve: called twice")
	}
	ticker := time.NewTicker(watchLook)
	defer ticker.Stop()
	var failing rest.Failing
	for {
		w.bus.mu.Lock()
		changed := w.bus.changed // of the connection
		w.bus.mu.Unlock()
		look := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.done:
			return transport.ErrClosed
		case <-w.bus.done:
			return transport.ErrClosed
		case m := <-w.heard:
			w.tell(m.Subject, wake)
		case <-changed:
			look = true
		case <-w.look:
			look = true
		case <-ticker.C:
			look = true
		}
		if !look {
			continue
		}
		err := w.lookAt(ctx, wake)
		if failing.Tell(err, watchPatience) && ctx.Err() == nil {
			w.bus.log.Warn("inboxes cannot be looked at: what came for their agents while nobody listened waits, and it is tried again", "err", err)
		}
		if err != nil && ctx.Err() == nil {
			w.bus.log.Debug("inboxes not looked at", "err", err)
			w.bus.pause(ctx, retryPause)
			w.lookSoon()
		}
	}
}

// tell wakes the inbox of a subject, if it is watched.
func (w *inboxWatch) tell(subject string, wake func(transport.Topic)) {
	rest, ok := strings.CutPrefix(subject, inboxPrefix)
	token := strings.SplitN(rest, ".", 3)
	if !ok || len(token) < 3 {
		return
	}
	w.mu.Lock()
	s, ok := w.topics[inboxPrefix+token[0]+"."+token[1]+"."]
	w.mu.Unlock()
	if ok {
		wake(s.topic)
	}
}

// lookAt wakes the watched inboxes that have events in the stream.
func (w *inboxWatch) lookAt(ctx context.Context, wake func(transport.Topic)) error {
	if _, err := w.bus.online(ctx); err != nil {
		return err
	}
	tenants := map[string]bool{}
	w.mu.Lock()
	for _, s := range w.topics {
		tenants[s.topic.Tenant] = true
	}
	w.mu.Unlock()
	ctx, cancel := w.bus.asking(ctx)
	defer cancel()
	for tenant := range tenants {
		stream, err := w.bus.js.Stream(ctx, inboxStream)
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(inboxPrefix+transport.Escape(tenant)+".>"))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			w.tell(subject, wake)
		}
	}
	return nil
}

// Close implements [transport.InboxWatch].
func (w *inboxWatch) Close() error {
	w.closed.Do(func() {
		close(w.done)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
		for key, s := range w.topics {
			_ = s.sub.Unsubscribe()
			delete(w.topics, key)
		}
	})
	return nil
}
