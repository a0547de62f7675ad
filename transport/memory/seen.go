package memory

import (
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// seen remembers the ids that were published to inboxes for transport.DuplicateWindow.
type seen struct {
	ids   map[seenID]struct{}
	queue []seenAt // oldest first
}

type seenID struct {
	topic               transport.Topic
	contextID, from, id string
}

type seenAt struct {
	seenID
	at time.Time
}

// has reports whether id was added within the window, and forgets what is older.
func (s *seen) has(id seenID) bool {
	now, old := time.Now(), 0
	for old < len(s.queue) && now.Sub(s.queue[old].at) >= transport.DuplicateWindow {
		delete(s.ids, s.queue[old].seenID)
		s.queue[old] = seenAt{}
		old++
	}
	s.queue = s.queue[old:]
	_, ok := s.ids[id]
	return ok
}

func (s *seen) add(id seenID) {
	s.ids[id] = struct{}{}
	s.queue = append(s.queue, seenAt{id, time.Now()})
}
