package google

import (
	"bytes"
	"context"
	"io"
	"log"
	"sync"
	"sync/atomic"
)

// EmptyText stands for a message without words, which the endpoints refuse.
const EmptyText = "(empty)"

// Images are the types of image that Google's models take.
var Images = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// Within calls f, which knows no context, and waits for it as long as ctx lasts. What is left behind then has to end by itself.
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

// Caught calls f, which calls an SDK, and returns the panic in which that ends, or nil.
func Caught(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// quiet lets one at a time change where package log writes.
var quiet sync.Mutex

// Quietly calls f and keeps these warnings from package log's output, where the SDKs print them. All else that is printed meanwhile goes on
// its way.
func Quietly(f func(), warnings ...string) {
	quiet.Lock()
	defer quiet.Unlock()
	s := &sieve{next: log.Writer(), warnings: warnings}
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
