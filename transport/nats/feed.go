package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

const (
	pullExpires   = time.Minute
	pullHeartbeat = 5 * time.Second
	pullBytes     = 32 << 20 // at most in one pull: more would wait in the client's memory
	waitingEach   = 16       // events of an ordered inbox that may be held, as a multiple of its conversations
	maxHeldBytes  = 64 << 20 // nothing more is asked for while this much is queued or being handled

	tick = 500 * time.Millisecond // of what is done regularly: signs of life, the keep message
)

var (
	errMissedHeartbeat = errors.New("the server has fallen silent")
	errReconnected     = errors.New("the connection was made again")
	errPeerLeft        = errors.New("the other subscriber has left")
)

// feed is the flow of an inbox's events to one subscriber during one uninterrupted connection. It asks for as many as
// there is room for, and when anything about it becomes doubtful, it ends, and the next one starts from what the server
// says.
type feed struct {
	in    *inbox
	reply string // where events come to
	conn  uint64 // number of the connection

	// Guarded by the inbox's mu.
	asked   int       // events that were asked for and have not come
	heard   time.Time // last message of any kind
	waiting bool      // what comes is put into early
	early   []*natsgo.Msg

	broken chan error // gets the first reason for its end
}

// feeds runs one feed after the other until ctx ends.
func (in *inbox) feeds(ctx context.Context) {
	for failed := 0; ctx.Err() == nil; {
		lost, err := in.bus.online(ctx)
		if err != nil {
			return
		}
		begin := time.Now()
		err = in.feed(ctx, lost)
		if ctx.Err() != nil {
			return
		}
		in.bus.log.Info("inbox feed starts again", "inbox", in.topic.ID, "tenant", in.topic.Tenant, "err", err)
		if errors.Is(err, errReconnected) || !in.bus.nc.IsConnected() {
			failed = 0 // the pause between connections is the connection's matter: work waits
			continue
		}
		if time.Since(begin) > 2*pullHeartbeat {
			failed = 0
		}
		in.bus.pause(ctx, retryDelay(failed)/4)
		failed++
	}
}

// feed serves events until ctx ends, the connection is lost, or the feed is broken, and says why.
func (in *inbox) feed(ctx context.Context, lost <-chan struct{}) error {
	b := in.bus
	f := &feed{in: in, conn: b.nc.Stats().Reconnects, reply: b.nc.NewInbox(), broken: make(chan error, 1), heard: time.Now()}
	alone, err := in.claim(ctx)
	if err != nil {
		return err
	}
	f.waiting = in.ordered && !alone
	sub, err := b.nc.Subscribe(f.reply, f.receive)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(gone) })
	defer f.end(sub, gone)
	// The pulls bound what can wait here; dropping some of it would lose its order.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	in.mu.Lock()
	in.current = f
	in.mu.Unlock()
	in.pull()
	if f.waiting {
		if err := f.join(ctx); err != nil {
			return err
		}
	}

	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errReconnected
		case err := <-f.broken:
			return err
		case <-ticker.C:
			if f.silent() {
				return errMissedHeartbeat
			}
		}
	}
}

// join lets an ordered feed begin beside another subscriber, which was there when the consumer was claimed. If it has left
// since, what it gave back may have come in any order, because nobody asked for it: then the feed begins again, alone.
func (f *feed) join(ctx context.Context) error {
	in := f.in
	if in.bus.alone(ctx, in.topic) {
		return errPeerLeft
	}
	if err := in.show(); err != nil {
		return err
	}
	for {
		in.mu.Lock()
		early := f.early
		f.early = nil
		if len(early) == 0 {
			f.waiting = false
			in.mu.Unlock()
			return nil
		}
		in.mu.Unlock()
		for _, m := range early {
			in.take(m)
		}
	}
}

// end stops the flow. What the server had sent before it knew is still received.
func (f *feed) end(sub *natsgo.Subscription, gone <-chan struct{}) {
	in := f.in
	in.mu.Lock()
	in.current = nil
	in.mu.Unlock()
	if !in.bus.nc.IsConnected() || sub.Drain() != nil {
		_ = sub.Unsubscribe()
	}
	select {
	case <-gone:
	case <-time.After(apiTimeout):
		_ = sub.Unsubscribe()
	}
	in.mu.Lock()
	early := f.early
	f.early = nil
	in.mu.Unlock()
	for _, m := range early {
		in.nak(m, 0)
	}
}

func (f *feed) fail(err error) {
	select {
	case f.broken <- err:
	default:
	}
}

func (f *feed) silent() bool {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	return f.asked > 0 && time.Since(f.heard) > 3*pullHeartbeat
}

// receive takes a message of the feed: an event, or what the server says about a pull.
func (f *feed) receive(m *natsgo.Msg) {
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
		f.status(status, m)
		return
	}
	in := f.in
	in.mu.Lock()
	f.asked--
	f.heard = time.Now()
	waiting := f.waiting
	if waiting {
		f.early = append(f.early, m)
	}
	in.mu.Unlock()
	if waiting {
		return
	}
	// A pull can outlive its connection at the server, and events that were lost with it are still missing: the order is
	// right again only behind the next feed's reset.
	if in.ordered && in.bus.nc.Stats().Reconnects != f.conn {
		in.nak(m, 0)
		f.fail(errReconnected)
		return
	}
	in.take(m)
}

func (f *feed) status(status string, m *natsgo.Msg) {
	in := f.in
	in.mu.Lock()
	f.heard = time.Now()
	in.mu.Unlock()
	if status == "100" { // heartbeat
		return
	}
	var left int
	if _, err := fmt.Sscan(m.Header.Get("Nats-Pending-Messages"), &left); err != nil {
		// No word about a pull that has ended: the consumer is gone, or its leader has changed.
		f.fail(fmt.Errorf("%s %s", status, m.Header.Get("Description")))
		return
	}
	in.mu.Lock()
	f.asked -= left
	in.mu.Unlock()
	in.pull()
}

// pull asks for as many events as there is room for. A free place is asked for at once when nothing is asked for; else
// places are asked for when half of them have gathered.
func (in *inbox) pull() {
	in.mu.Lock()
	f := in.current
	if f == nil || in.heldBytes >= maxHeldBytes {
		in.mu.Unlock()
		return
	}
	room := in.limit - len(in.held) - f.asked
	if in.ordered {
		// Events that wait behind others of their conversation take no place, up to a bound: a conversation that stands
		// still must not keep others from being asked for.
		room = min(in.limit-len(in.queues), in.limit*waitingEach-len(in.held)) - f.asked
	}
	if room <= 0 || f.asked > 0 && room < in.limit/2 {
		in.mu.Unlock()
		return
	}
	f.asked += room
	f.heard = time.Now()
	in.mu.Unlock()
	req := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, room, pullBytes, int64(pullExpires), int64(pullHeartbeat))
	if err := in.bus.nc.PublishRequest(in.pullSubject, f.reply, req); err != nil {
		f.fail(err)
	}
}
