package jetstore

import "time"

// Redirect makes s ask prefix instead of the server, wait for at most timeout, and treat the stream as replicated.
func (s *Store) Redirect(prefix string, timeout time.Duration, replicated bool) {
	s.api, s.timeout, s.replicated = prefix, timeout, replicated
}
