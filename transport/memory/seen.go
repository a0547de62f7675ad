package memory

import (
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// seen remembers the ids that were published to inboxes for transport.DuplicateWindow, in two maps that say when. The newer one takes the place of the
// older one after a window, when all ids of the older one are out of it.
type seen struct {
	newer, older map[string]time.Time
	began        time.Time // when the newer one did
}

// seenID identifies an event among all published ones. Ids contain no zero bytes.
func seenID(t transport.Topic, e *transport.Event) string {
	return strings.Join([]string{t.Tenant, t.ID, e.ContextID, e.From, e.ID}, "\x00")
}

// has reports whether id was added within the window.
func (s *seen) has(id string) bool {
	now := time.Now()
	if now.Sub(s.began) >= transport.DuplicateWindow {
		s.newer, s.older, s.began = map[string]time.Time{}, s.newer, now
	}
	at, ok := s.newer[id]
	if !ok {
		at, ok = s.older[id]
	}
	return ok && now.Sub(at) < transport.DuplicateWindow
}

// add adds id, after has.
func (s *seen) add(id string) { s.newer[id] = time.Now() }
