package pace

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a body that always has more.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// read reads a number of bytes of a body, and returns how long that took.
func read(t *testing.T, body io.Reader, bytes int64) time.Duration {
	t.Helper()
	began := time.Now()
	if n, err := io.CopyN(io.Discard, body, bytes); err != nil {
		t.Errorf("%d bytes were read, and then %v", n, err)
	}
	return time.Since(began).Round(100 * time.Millisecond)
}

// TestTogether has two bodies without an end: both together are read at the pace, a third that is short does not wait for them, and a longer one gets its part.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const second, free = 1 << 20, 64 << 10
		p := New(second, free)
		took := make(chan time.Duration)
		for range 2 {
			go func() { took <- read(t, p.Body(t.Context(), endless{}), free+5*second) }()
		}
		time.Sleep(time.Second) // of the bubble's clock
		if d := read(t, p.Body(t.Context(), io.NopCloser(strings.NewReader(strings.Repeat("x", free)))), free); d > 0 {
			t.Errorf("a short body took %v", d)
		}
		if d := read(t, p.Body(t.Context(), endless{}), free+second); d < 2*time.Second || d > 4*time.Second {
			t.Errorf("a body that is longer by what may be read in a second took %v beside two others, want some 3s", d)
		}
		for range 2 {
			if d := <-took; d < 9*time.Second || d > 10*time.Second {
				t.Errorf("it took %v, want 10s for what all say, without what may come at once", d)
			}
		}
	})
}

// TestWaitEnds has a body whose Read waits: the end of its context and its Close end that.
func TestWaitEnds(t *testing.T) {
	for name, end := range map[string]func(cancel func(), body io.Closer){
		"context": func(cancel func(), _ io.Closer) { cancel() },
		"close":   func(_ func(), body io.Closer) { _ = body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := New(piece, 0)
				p.limiter.ReserveN(time.Now(), piece)
				for range 3600 {
					p.limiter.ReserveN(time.Now(), piece)
				}
				body := p.Body(ctx, endless{})
				ended := make(chan error)
				began := time.Now()
				go func() {
					_, err := body.Read(make([]byte, 10))
					ended <- err
				}()
				synctest.Wait()
				end(cancel, body)
				if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
					t.Errorf("Read = %v after %v, want %v at once", err, time.Since(began), context.Canceled)
				}
			})
		})
	}
}
