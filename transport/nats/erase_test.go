package nats

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// filesWith returns the files under dir that contain text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the server removes files meanwhile
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEraseFromFiles checks that no text of an erased conversation can be read from the server's files: neither of waiting events, nor of
// acknowledged ones, timers and dead letters.
func TestEraseFromFiles(t *testing.T) {
	const secret = "xyzzy-plugh"
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox, away := transport.Inbox("", transport.Cortex), transport.Inbox("", "away")
	handled := make(chan *transport.Event)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
		handled <- e
		if e.ID == "bad" {
			return transport.Permanent(errors.New("cannot do " + text(e)))
		}
		return nil
	})
	for _, c := range []string{"gone", "kept"} {
		words := secret
		if c == "kept" {
			words = "nothing special"
		}
		publish := func(topic transport.Topic, id string, at time.Time) {
			t.Helper()
			e := message(topic, c, words)
			e.ID, e.DeliverAt = id, at
			if err := b.Publish(t.Context(), topic, e); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			publish(inbox, fmt.Sprint(i), time.Time{})
			receive(t, handled)
			publish(away, fmt.Sprint(i), time.Time{})
		}
		publish(inbox, "bad", time.Time{})
		receive(t, handled)
		publish(inbox, "late", time.Now().Add(time.Hour))
	}
	eventually(t, "dead letters", func() bool { return len(dead(t, b)) == 2 })
	if len(filesWith(t, n.opts.Dir, secret)) == 0 {
		t.Fatal("the text is in no file before it is erased")
	}

	if err := b.Erase(t.Context(), "", "gone"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the text is in no file", func() bool { return len(filesWith(t, n.opts.Dir, secret)) == 0 })
	n.stop()
	if found := filesWith(t, n.opts.Dir, secret); len(found) > 0 {
		t.Errorf("after the server has stopped, the text is in %v", found)
	}

	// Nothing else was erased.
	n.start(t)
	b = n.dial(t, nil)
	if left, err := b.Waiting(t.Context(), away); left != 20 || err != nil {
		t.Errorf("Waiting = %d, %v after a restart, want the 20 of the other conversation", left, err)
	}
	if letters := dead(t, b); len(letters) != 1 || letters[0].Event.ContextID != "kept" {
		t.Errorf("%d dead letters are left, want that of the other conversation", len(letters))
	}
	if m, err := b.message(t.Context(), inboxStream, timerPrefix+">", 1); err != nil || m.Subject != timerSubject(inboxAddress{to: transport.Cortex, context: "kept"}) && m.Subject != sentinelSubject {
		t.Errorf("the first timer is %v, %v, want that of the other conversation", m, err)
	}
	if _, err := b.message(t.Context(), inboxStream, rollSubject, 1); !errors.Is(err, transport.ErrNotFound) {
		t.Errorf("what began a new file is still there: %v", err)
	}
}

// TestEraseOverRestart erases a conversation while the server is away: what is asked of it is asked again.
func TestEraseOverRestart(t *testing.T) {
	n := newNode(t, ServerOptions{})
	conn := make(chan bool, 10)
	b := n.dial(t, &Options{OnConn: func(up bool, _ error) { conn <- up }})
	away := transport.Inbox("", "away")
	publish(t, b, away, "c", "secret")
	n.down()
	if receive(t, conn) {
		t.Fatal("OnConn(true), want false")
	}
	erased := make(chan error, 1)
	go func() { erased <- b.Erase(t.Context(), "", "c") }()
	n.up(t, nil)
	if err := <-erased; err != nil {
		t.Fatalf("Erase = %v, want nil", err)
	}
	if _, err := b.message(t.Context(), inboxStream, inboxPrefix+">", 1); !errors.Is(err, transport.ErrNotFound) {
		t.Errorf("what is left in the inbox: %v, want ErrNotFound", err)
	}
}

// TestEraseManyRollsOnce: a new file begins for a deletion when something was stored since the last one, and not for each of many.
func TestEraseManyRollsOnce(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	erase := func() (stored uint64) {
		t.Helper()
		last := func() uint64 {
			s, err := b.js.Stream(t.Context(), inboxStream)
			if err != nil {
				t.Fatal(err)
			}
			return s.CachedInfo().State.LastSeq
		}
		before := last()
		if err := b.Erase(t.Context(), "", "c"); err != nil {
			t.Fatal(err)
		}
		return last() - before
	}
	if n := erase(); n == 0 {
		t.Error("the first deletion begins no new file")
	}
	for range 3 {
		if n := erase(); n != 0 {
			t.Errorf("%d messages are stored for a deletion after which there is nothing new", n)
		}
	}
	publish(t, b, transport.Inbox("", "away"), "c", "secret")
	if n := erase(); n == 0 {
		t.Error("a deletion of what was stored since begins no new file")
	}
}

// TestEraseUnread checks that a conversation is not said to be erased while the server has messages of it that it cannot read.
func TestEraseUnread(t *testing.T) {
	for name, timer := range map[string]bool{"inbox": false, "timer": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, ServerOptions{})
			b := n.dial(t, nil)
			for i := range 12 {
				away := transport.Inbox("", fmt.Sprint("away", i))
				e := message(away, "c", fmt.Sprint("hello ", i))
				if i >= 3 { // a restarted server has nothing in its caches of files but the last one
					e = message(away, "other", strings.Repeat("x", 600<<10))
				} else if timer {
					e.DeliverAt = time.Now().Add(time.Hour)
				}
				if err := b.Publish(t.Context(), away, e); err != nil {
					t.Fatal(err)
				}
			}
			n.Restart(t)
			b = n.dial(t, nil)
			files := filesWith(t, filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs"), "hello 1")
			if len(files) != 1 {
				t.Fatalf("the text is in %v, want one file", files)
			}
			content, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.LastIndex(content, []byte("hello 1"))
			f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{content[at] ^ 1}, int64(at)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := b.Erase(t.Context(), "", "c"); err == nil || !strings.Contains(err.Error(), "1 messages of "+inboxStream+" cannot be read") {
					t.Fatalf("Erase = %v, want an error about one message", err)
				}
			}
			n.Restart(t)
			if err := n.dial(t, nil).Erase(t.Context(), "", "c"); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}
