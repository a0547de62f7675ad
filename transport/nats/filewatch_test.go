package nats

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/files"
)

// textLog is a log that can be read while it is written.
type textLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *textLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFilesTakenAway takes the files of a stream from a running server. It is told at the second look, once, and no longer when they are back.
func TestFilesTakenAway(t *testing.T) {
	for name, take := range map[string]func(stream string) error{
		"the folder": os.RemoveAll,
		"its files":  func(stream string) error { return os.RemoveAll(filepath.Join(stream, "msgs")) },
		"all blocks": func(stream string) error {
			return eachBlock(stream, os.Remove)
		},
		"emptied": func(stream string) error {
			return eachBlock(stream, func(path string) error { return os.Truncate(path, 0) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log textLog
			n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			b := n.dial(t, nil)
			inbox := transport.Inbox("", "away")
			if err := b.Publish(t.Context(), inbox, message(inbox, "c1", "hello")); err != nil {
				t.Fatal(err)
			}
			w := n.srv.files
			for range 3 {
				w.look()
			}
			if _, err := n.srv.Missing(); err != nil {
				t.Fatalf("before anything is taken: %v", err)
			}
			stream := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream)
			kept := t.TempDir()
			if err := os.CopyFS(kept, os.DirFS(stream)); err != nil {
				t.Fatal(err)
			}
			if err := take(stream); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.look()
			}
			serious, err := n.srv.Missing()
			if !serious || err == nil || !strings.Contains(err.Error(), inboxStream) || !strings.Contains(err.Error(), "start again") {
				t.Errorf("Missing = %v, %v, want that %s is missing and what to do", serious, err, inboxStream)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "stream="+inboxStream) {
				t.Errorf("it is told %d times, want once:\n%s", n, log.String())
			}
			if err := os.RemoveAll(stream); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(stream, os.DirFS(kept)); err != nil {
				t.Fatal(err)
			}
			w.look()
			if _, err := n.srv.Missing(); err != nil {
				t.Errorf("when the files are back: %v", err)
			}

			// An end, however soon, does not hide it.
			if err := take(stream); err != nil {
				t.Fatal(err)
			}
			n.Restart(t)
			if !slices.ContainsFunc(n.srv.Found(), func(f files.Finding) bool { return f.Stream == inboxStream && f.Level == files.Lost }) {
				t.Errorf("the next start has found %+v, want that %s is lost", n.srv.Found(), inboxStream)
			}
		})
	}
}

func eachBlock(stream string, do func(string) error) error {
	blocks, err := filepath.Glob(filepath.Join(stream, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		return fmt.Errorf("no blocks in %s: %w", stream, err)
	}
	for _, path := range blocks {
		if err := do(path); err != nil {
			return err
		}
	}
	return nil
}

// TestNothingTakenAway looks again and again while the server begins, empties and removes files.
func TestNothingTakenAway(t *testing.T) {
	n := newNode(t, ServerOptions{Sync: "20ms"}) // after which it also compacts
	b := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	handled := make(chan *transport.Event)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error { handled <- e; return nil })
	for i := range 60 {
		e := message(inbox, fmt.Sprint("c", i%3), strings.Repeat("x", 500<<10))
		if err := b.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
		receive(t, handled)
		n.srv.files.look()
		switch i % 20 {
		case 7:
			if err := b.Erase(t.Context(), "", e.ContextID); err != nil {
				t.Fatal(err)
			}
		case 15:
			if err := purge(t, b); err != nil {
				t.Fatal(err)
			}
		}
		n.srv.files.look()
		n.srv.files.look()
		if _, err := n.srv.Missing(); err != nil {
			t.Fatal(err)
		}
	}
}

func purge(t *testing.T, b *Bus) error {
	s, err := b.js.Stream(t.Context(), inboxStream)
	if err != nil {
		return err
	}
	return s.Purge(t.Context())
}
