package traces

import (
	"slices"
	"sync"
	"time"
)

const (
	window  = 1000 // turns that are compared
	fewest  = 100  // before that none is slow
	refresh = 100  // turns after which the limit is computed anew
)

// slowest knows which turns take longer than 99 of 100 of the last ones.
type slowest struct {
	mu    sync.Mutex
	last  []time.Duration // a ring
	at    int
	n     int
	limit time.Duration
}

// note adds a turn, and reports whether it was slow.
func (s *slowest) note(took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := s.limit > 0 && took > s.limit
	if len(s.last) < window {
		s.last = append(s.last, took)
	} else {
		s.last[s.at] = took
		s.at = (s.at + 1) % window
	}
	if s.n++; s.n >= fewest && s.n%refresh == 0 {
		sorted := slices.Sorted(slices.Values(s.last))
		s.limit = sorted[len(sorted)*99/100]
	}
	return slow
}
