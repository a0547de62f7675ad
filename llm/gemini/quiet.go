package gemini

import (
	"bytes"
	"io"
	"log"
	"sync"
	"sync/atomic"
)

// warnings are what the SDK prints about variables in the environment that it looks at and, told what to use, does not use.
var warnings = [][]byte{
	[]byte("Warning: Both GOOGLE_API_KEY and GEMINI_API_KEY are set"),
	[]byte("Warning: The user provided project/location will take precedence over the API key"),
}

// quiet lets one at a time change where package log writes.
var quiet sync.Mutex

// withoutWarnings calls f and keeps its warnings from package log's output, where the SDK prints them. All else that is
// printed meanwhile goes on its way.
func withoutWarnings(f func()) {
	quiet.Lock()
	defer quiet.Unlock()
	s := &sieve{next: log.Writer()}
	log.SetOutput(s)
	defer func() {
		s.open.Store(true) // should it stay, because another changed the output in between
		if log.Writer() == io.Writer(s) {
			log.SetOutput(s.next)
		}
	}()
	f()
}

// sieve is a writer that drops warnings until it is open.
type sieve struct {
	next io.Writer
	open atomic.Bool
}

func (s *sieve) Write(line []byte) (int, error) {
	if !s.open.Load() {
		for _, w := range warnings {
			if bytes.Contains(line, w) {
				return len(line), nil
			}
		}
	}
	return s.next.Write(line)
}
