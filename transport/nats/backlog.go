package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// agentPart bounds the inbox of one agent to one part in agentPart of what all inboxes may hold, so that an agent that does not read leaves room
	// to the others.
	agentPart = 20

	backlogAgain = time.Second // a full inbox is not counted again before this time
	maxBacklogs  = 10_000      // agents whose backlog is known; a further one clears them all
)

// backlogs bounds the inboxes of agents without asking the server each time. Like a gauge, it admits a part of the last known room before it asks
// again. It does not see what an agent handles meanwhile, so an agent that keeps up costs one request every few thousand tasks.
type backlogs struct {
	most int // events

	mu  sync.Mutex
	all map[transport.Topic]*backlog
}

// backlog is what is known of one inbox.
type backlog struct {
	left    int       // events that are admitted before the server is asked again
	waiting int       // the server's count; at least most when the inbox is full
	again   time.Time // when a full inbox may be counted again
}

// take counts an event. ask tells the caller to ask the server first; full is the number of waiting events when the inbox is full, otherwise 0.
func (l *backlogs) take(t transport.Topic, now time.Time) (ask bool, full int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.all[t]
	if b == nil {
		if l.all == nil || len(l.all) >= maxBacklogs {
			l.all = map[transport.Topic]*backlog{}
		}
		b = &backlog{left: l.part(l.most)}
		l.all[t] = b
	}
	switch {
	case b.left > 0:
		b.left--
		return false, 0
	case now.Before(b.again):
		return false, b.waiting
	}
	b.left, b.waiting = l.part(l.most), 0 // the others are admitted meanwhile
	return true, 0
}

// set records how many events wait; it returns that number when the inbox is full, otherwise 0.
func (l *backlogs) set(t transport.Topic, waiting int, now time.Time) (full int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.all[t]
	switch {
	case waiting < l.most && b != nil:
		b.left = l.part(l.most-waiting) - 1
	case waiting >= l.most && b != nil:
		b.left, b.waiting, b.again = 0, waiting, now.Add(backlogAgain)
	}
	if waiting < l.most {
		return 0
	}
	return waiting
}

// part returns how many events are admitted before the server is asked again.
func (l *backlogs) part(room int) int { return (room + lookParts - 1) / lookParts }

// roomAt returns ErrFull when too many events wait in the inbox of an agent. When the server does not answer it returns nil: the publish that
// follows reports the error.
func (b *Bus) roomAt(ctx context.Context, t transport.Topic) error {
	ask, full := b.backlogs.take(t, time.Now())
	if ask {
		ctx, cancel := context.WithTimeout(ctx, lookWait)
		defer cancel()
		if n, err := b.Waiting(ctx, t); err == nil {
			full = b.backlogs.set(t, n, time.Now())
		}
	}
	if full > 0 {
		return fmt.Errorf("%w: %d events wait for %s, which gets more when it has fetched some", transport.ErrFull, full, t.ID)
	}
	return nil
}
