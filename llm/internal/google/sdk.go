package google

import (
	"bytes"
	"context"
	"io"
	"log"
	"sync"
	"sync/atomic"
)

// EmptyText replaces an empty message, which the endpoints refuse.
const EmptyText = "(empty)"

// Images are the types of images that Google's models accept.
var Images = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// Within calls f, which has no context, and waits for it until ctx ends. After that, f continues in the background.
func Within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Caught calls f, which calls an SDK, and returns its panic, or nil.
func Caught(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// quiet serialises changes of package log's output.
var quiet sync.Mutex

// Quietly calls f and removes these warnings from package log's output, to which the SDKs print them. Other output is passed on.
func Quietly(f func(), warnings ...string) {
	quiet.Lock()
	defer quiet.Unlock()
	s := &sieve{next: log.Writer(), warnings: warnings}
	log.SetOutput(s)
	defer func() {
		s.open.Store(true) // in case it stays, because other code changed the output in the meantime
		if log.Writer() == io.Writer(s) {
			log.SetOutput(s.next)
		}
	}()
	f()
}

// sieve is a writer that drops warnings until it is open.
type sieve struct {
	next     io.Writer
	warnings []string
	open     atomic.Bool
}

func (s *sieve) Write(line []byte) (int, error) {
	if !s.open.Load() {
		for _, w := range s.warnings {
			if bytes.Contains(line, []byte(w)) {
				return len(line), nil
			}
		}
	}
	return s.next.Write(line)
}
