package nats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// fill stores 20 messages each in the files, the inbox and the dead letters, which is more than one block.
func fill(t *testing.T, b *Bus) []transport.Object {
	t.Helper()
	inbox := transport.Inbox("", "away")
	var all []transport.Object
	for i := range 20 {
		ref, err := transport.PutFile(t.Context(), b, "", fmt.Sprint("c", i%2), "user", bytes.NewReader(make([]byte, 500<<10)), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ref.Object)
		e := message(inbox, fmt.Sprint("c", i), strings.Repeat("x", 600<<10))
		m := &natsgo.Msg{Subject: deadPrefix + "x.y." + strconv.Itoa(i), Data: make([]byte, 1<<20)}
		if err := errors.Join(b.Publish(t.Context(), inbox, e), b.store(t.Context(), m)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// inspect looks at the streams that a service looks at: what it returns for one does not count its messages.
func inspect(_, stream string, _ uint64) func(*storecheck.Record) {
	return new(FileAudit).Inspect(stream)
}

// records returns the end of the first record of a block that ends at or after behind bytes.
func records(b []byte, behind int) (at int) {
	for at < behind {
		at += int(binary.LittleEndian.Uint32(b[at:]) &^ (1 << 31)) // this bit says that the record has a header
	}
	return at
}

// TestLostBehindKill damages a block of a stream whose server was killed long after the last write. The next start reports the loss, in the log
// too, and the start after that still knows it.
func TestLostBehindKill(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	fill(t, b)
	n.srv.Remember(time.Now())
	n.srv.Remember(time.Now().Add(time.Hour)) // everything is on the disk by then
	for _, stream := range []string{fileStream, inboxStream, deadStream} {
		for what, damage := range map[string]func(path string) error{
			"removed": os.Remove,
			"emptied": func(path string) error { return os.Truncate(path, 0) },
			"older": func(path string) error {
				b, err := os.ReadFile(path)
				return errors.Join(err, os.WriteFile(path, b[:records(b, len(b)/2)], 0o600))
			},
		} {
			t.Run(stream+" "+what, func(t *testing.T) {
				t.Parallel()
				var log textLog
				is := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, n.opts.Dir), Inspect: inspect, Logger: slog.New(slog.NewTextHandler(&log, nil))}}
				if err := damage(filepath.Join(is.opts.Dir, "jetstream", "$G", "streams", stream, "msgs", "1.blk")); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					is.start(t)
					if !slices.ContainsFunc(is.srv.Found(), func(f storecheck.Finding) bool { return f.Stream == stream && f.Level == storecheck.Lost }) {
						t.Errorf("found %+v, want that something of %s is lost", is.srv.Found(), stream)
					}
					is.stop()
				}
				if got := log.String(); strings.Count(got, "level=ERROR") == 0 || !strings.Contains(got, "stream="+stream) {
					t.Errorf("the log has %s, want an error with %s", got, stream)
				}
			})
		}
	}
}

// TestRemovedBeforeKill removes all messages, each kind in its own way, and kills the server before the memory is updated: that is no loss.
func TestRemovedBeforeKill(t *testing.T) {
	t.Parallel()
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	objects := fill(t, b)
	n.srv.Remember(time.Now())
	n.srv.Remember(time.Now().Add(time.Hour))
	before, err := os.ReadFile(memoryFile(n.opts.Dir))
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(after string) {
		t.Helper()
		is := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, n.opts.Dir), Inspect: inspect}}
		if err := os.WriteFile(memoryFile(is.opts.Dir), before, 0o600); err != nil {
			t.Fatal(err)
		}
		is.start(t)
		defer is.stop()
		for _, f := range is.srv.Found() {
			if f.Level == storecheck.Lost || f.Level == storecheck.Recent {
				t.Errorf("%s: found %+v", after, f)
			}
		}
	}
	nothing("nothing was removed")
	for i := range 8 { // half of the first block, and a file of the second
		if err := b.RemoveObject(t.Context(), objects[2*i]); err != nil {
			t.Fatal(err)
		}
	}
	nothing("files were removed")
	erase(t, b, "c1") // whole blocks of files
	nothing("a conversation was erased")
	for seq := range uint64(20) {
		if err := b.eraseMessage(t.Context(), deadStream, seq+1); err != nil {
			t.Fatal(err)
		}
	}
	handled := make(chan struct{}, 100)
	stop := serveTopic(t, b, transport.Inbox("", "away"), nil, func(*transport.Event) error {
		handled <- struct{}{}
		return nil
	})
	for range 19 {
		receive(t, handled)
	}
	eventually(t, "the inbox is empty", func() bool {
		left, err := b.Waiting(t.Context(), transport.Inbox("", "away"))
		return err == nil && left == 0
	})
	stop()
	nothing("events were handled")
	erase(t, b, "c0")
	nothing("all files were removed")
}

// TestKilledWithFiles kills the server repeatedly while files are stored and removed, and events are published and handled: no start reports a
// loss.
func TestKilledWithFiles(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{dir: t.TempDir(), listen: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	y := &tally{t: t, next: map[string]int{}}
	p.handled = y.handled
	p.start(t)
	b, err := Dial(t.Context(), &Options{URL: p.url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	var filing sync.WaitGroup
	for w := range 2 {
		filing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				ref, err := transport.PutFile(ctx, b, "", fmt.Sprint("f", w), "user", bytes.NewReader(make([]byte, 700<<10)), 1<<30)
				if err == nil && i%4 > 0 {
					err = b.RemoveObject(ctx, ref.Object)
				}
				if err != nil && ctx.Err() == nil && !errors.Is(err, transport.ErrUnavailable) {
					t.Errorf("a file is stored and removed: %v", err)
				}
			}
		})
	}
	stop := publishers(t, p.url)
	for i := range 6 {
		mark := y.total() + 50 + 97*i
		eventually(t, "events are handled", func() bool { return y.total() > mark })
		eventually(t, "there is something to miss", func() bool {
			m, err := ReadMemory(p.dir)
			return err == nil && m.Streams["$G/"+fileStream] != nil && m.Streams["$G/"+inboxStream] != nil
		})
		p.kill()
		p.start(t)
		m, err := ReadMemory(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Found {
			if f.Level == storecheck.Lost || f.Level == storecheck.Recent {
				t.Errorf("found %+v in a store whose process was killed", f)
			}
		}
	}
	cancel()
	filing.Wait()
	stop()
}
