package memory

import (
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// seen remembers the ids that were published to inboxes for transport.DuplicateWindow.
type seen struct {
	ids   map[string]struct{}
	queue []seenAt // oldest first
}

// seenID identifies an event among all published ones. Ids contain no zero bytes.
func seenID(t transport.Topic, e *transport.Event) string {
	return strings.Join([]string{t.Tenant, t.ID, e.ContextID, e.From, e.ID}, "\x00")
}

type seenAt struct {
	id string
	at time.Time
}

// has reports whether id was added within the window, and removes older ones.
func (s *seen) has(id string) bool {
	now, old := time.Now(), 0
	for old < len(s.queue) && now.Sub(s.queue[old].at) >= transport.DuplicateWindow {
		delete(s.ids, s.queue[old].id)
		s.queue[old] = seenAt{}
		old++
	}
	s.queue = s.queue[old:]
	_, ok := s.ids[id]
	return ok
}

func (s *seen) add(id string) {
	s.ids[id] = struct{}{}
	s.queue = append(s.queue, seenAt{id, time.Now()})
}
