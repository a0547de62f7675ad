package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

const (
	pullExpires   = time.Minute
	pullHeartbeat = 2 * time.Second
	pullBytes     = 32 << 20 // in the pulls of all partitions: more would be buffered in the client's memory
	waitingEach   = 16       // events of an ordered inbox that may be held, as a multiple of its limit
	maxHeldBytes  = 64 << 20 // bytes of events queued or in work above which nothing more is pulled

	feedAgain = 500 * time.Millisecond // the longest pause between two feeds, so that the end of an election is noticed soon

	tick = 500 * time.Millisecond // period of regular work: progress acknowledgements, the sentinel
)

var (
	errMissedHeartbeat = errors.New("the server has fallen silent")
	errReconnected     = errors.New("the connection was interrupted")
)

// feed is the flow of a partition's events to one subscriber during one uninterrupted connection. It pulls as many events as there is room for. It
// ends on any irregularity, and the next feed begins from the server's state.
type feed struct {
	p     *partition
	reply string // subject to which events are delivered
	conn  uint64 // the client's count of reconnects when the feed began

	// Guarded by the inbox's mu.
	asked int       // events that were pulled and have not arrived
	heard time.Time // when the last message of any kind arrived

	broken chan error // receives the first reason for the feed's end

	// For an ordered inbox.
	failed atomic.Bool // an event may be missing before those that arrive now
	next   uint64      // consumer sequence of the next message. Only receive uses it, once events arrive
}

// feeds runs one feed after the other until ctx ends.
func (p *partition) feeds(ctx context.Context) {
	for failed := 0; ctx.Err() == nil; {
		lost, err := p.in.bus.online(ctx)
		if err != nil {
			return
		}
		begin := time.Now()
		err = p.feed(ctx, lost)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelInfo
		away := errors.Is(err, errReconnected) || !p.in.bus.nc.IsConnected()
		if away {
			level = slog.LevelDebug // the log says once that the server is lost
		}
		p.in.bus.log.Log(ctx, level, "inbox feed starts again", "inbox", p.topic.ID, "tenant", p.topic.Tenant, "err", err)
		if away {
			failed = 0 // the client itself pauses between attempts to connect; events wait
			continue
		}
		if time.Since(begin) > 2*pullHeartbeat {
			failed = 0
		}
		p.in.bus.pause(ctx, min(retryDelay(failed)/4, feedAgain))
		failed++
	}
}

// feed serves events until ctx ends, the connection is lost, or the feed is broken, and returns the reason.
func (p *partition) feed(ctx context.Context, lost <-chan struct{}) error {
	in, b := p.in, p.in.bus
	f := &feed{p: p, conn: b.nc.Stats().Reconnects, reply: b.nc.NewInbox(), broken: make(chan error, 1), heard: time.Now()}
	if in.ordered {
		if err := p.confirm(ctx); err != nil {
			return err
		}
		var err error
		if f.next, err = p.claim(ctx); err != nil {
			return err
		}
		p.own()
	} else if err := b.ensureConsumer(ctx, p.topic); err != nil {
		return err
	}
	sub, err := b.nc.Subscribe(f.reply, f.receive)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(gone) })
	defer f.end(sub, gone)
	// The pulls bound what is buffered here. Dropping messages would break the order.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	in.mu.Lock()
	p.current = f
	in.mu.Unlock()
	p.pull()

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
				f.fail(errMissedHeartbeat)
			}
		}
	}
}

// end stops the feed. It still receives what the server sent before it processed the end of the subscription.
func (f *feed) end(sub *natsgo.Subscription, gone <-chan struct{}) {
	in := f.p.in
	in.mu.Lock()
	f.p.current = nil
	in.mu.Unlock()
	if !in.bus.nc.IsConnected() || sub.Drain() != nil {
		_ = sub.Unsubscribe()
	}
	select {
	case <-gone:
	case <-time.After(apiTimeout):
		_ = sub.Unsubscribe()
	}
}

func (f *feed) fail(err error) {
	f.failed.Store(true)
	select {
	case f.broken <- err:
	default:
	}
}

func (f *feed) silent() bool {
	f.p.in.mu.Lock()
	defer f.p.in.mu.Unlock()
	return f.asked > 0 && time.Since(f.heard) > 2*pullHeartbeat
}

// receive handles a message of the feed: an event, or the server's status of a pull.
func (f *feed) receive(m *natsgo.Msg) {
	if status := statusOf(m); status != "" {
		f.status(status, m)
		return
	}
	in := f.p.in
	in.mu.Lock()
	f.asked--
	f.heard = time.Now()
	in.mu.Unlock()
	meta, err := m.Metadata()
	if err != nil {
		in.bus.log.Warn("message without delivery data", "subject", oneLine(m.Subject, 200), "err", err)
		return
	}
	if in.ordered && !f.inOrder(meta) {
		return
	}
	f.p.take(m, meta)
}

// inOrder reports whether no event is missing before a message. If one is, the feed ends: the next feed resets the consumer, and the server
// delivers the events that are dropped here again.
func (f *feed) inOrder(meta *natsgo.MsgMetadata) bool {
	switch {
	case f.failed.Load():
		return false
	case f.p.in.bus.nc.Stats().Reconnects != f.conn: // a pull can survive its connection at the server, while events were lost with the connection
		f.fail(errReconnected)
		return false
	}
	// A consumer's new leader does not send what the previous leader counted as delivered but could not send any more.
	if meta.Sequence.Consumer != f.next {
		f.fail(fmt.Errorf("delivery %d came, want %d", meta.Sequence.Consumer, f.next))
		return false
	}
	f.next = meta.Sequence.Consumer + 1
	return true
}

func (f *feed) status(status string, m *natsgo.Msg) {
	in := f.p.in
	in.mu.Lock()
	f.heard = time.Now()
	in.mu.Unlock()
	if status == heartbeat {
		return
	}
	left, ok := unserved(m)
	if !ok {
		f.fail(fmt.Errorf("%s %s", status, m.Header.Get("Description")))
		return
	}
	in.mu.Lock()
	f.asked -= left
	in.mu.Unlock()
	f.p.pull()
}

// pull asks for as many events as there is room for. It does so at once when no pull is outstanding; otherwise it waits until half of the limit is
// free.
func (p *partition) pull() {
	in := p.in
	in.mu.Lock()
	hungry := in.starved && in.heldBytes < maxHeldBytes
	if hungry {
		in.starved = false
	}
	in.mu.Unlock()
	if !hungry {
		p.pullOwn()
		return
	}
	for _, o := range in.partitions {
		o.pullOwn()
	}
}

// pullOwn is pull for this partition only.
func (p *partition) pullOwn() {
	in := p.in
	in.mu.Lock()
	f := p.current
	if f == nil || p.lapsed() {
		in.mu.Unlock()
		return
	}
	if in.heldBytes >= maxHeldBytes {
		in.starved = true
		in.mu.Unlock()
		return
	}
	limit := max(in.limit/in.share, 1)
	room := limit - len(p.held) - f.asked
	if in.ordered {
		// Events that wait behind others of their conversation do not count, up to a bound: a blocked conversation must not keep the partition from
		// pulling events of others.
		room = min(limit-len(p.queues), limit*waitingEach-len(p.held)) - f.asked
	}
	if room <= 0 || f.asked > 0 && room < limit/2 {
		in.mu.Unlock()
		return
	}
	f.asked += room
	f.heard = time.Now()
	in.mu.Unlock()
	req := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`,
		room, pullBytes/len(in.partitions), int64(pullExpires), int64(pullHeartbeat))
	if err := in.bus.nc.PublishRequest(p.pullSubject, f.reply, req); err != nil {
		f.fail(err)
	}
}
