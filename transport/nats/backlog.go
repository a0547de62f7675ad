package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// agentPart bounds what waits in the inbox of one agent: one in so many of what all inboxes may hold. An agent that does not read
	// leaves the others their room.
	agentPart = 20

	backlogAgain = time.Second // how long an inbox that is full is not counted again
	maxBacklogs  = 10_000      // agents of which something is known; those who come on top begin anew
)

// backlogs knows how much waits in the inboxes of agents. As with a gauge, a part of the room that there was is given away before the server
// is asked again: what an agent has handled meanwhile is not known, so that one that keeps up costs a question every few thousand tasks.
type backlogs struct {
	most int // events

	mu  sync.Mutex
	all map[transport.Topic]*backlog
}

// backlog is what is known of one inbox.
type backlog struct {
	left    int       // events that it takes before the server is asked
	waiting int       // as the server said; at least most when the inbox is full
	again   time.Time // when a full one is counted again
}

// take counts an event in; it reports whether the caller is to ask the server first, and how many wait when the inbox is full.
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
	b.left, b.waiting = l.part(l.most), 0 // the others go on meanwhile
	return true, 0
}

// set takes in how many events wait; it returns how many when the inbox is full.
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

// part is how much of a room is taken before asking again.
func (l *backlogs) part(room int) int { return (room + lookParts - 1) / lookParts }

// roomAt returns ErrFull when too much waits in the inbox of an agent. While the server does not tell, everything has room: publishing says
// what is wrong.
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
