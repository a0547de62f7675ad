package nats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// author writes each event once to the log and to the inbox of one conversation, until it is stopped.
type author struct {
	contextID   string
	begun       atomic.Int64 // events whose write has begun
	logged      atomic.Int64 // events that the log has acknowledged
	inInbox     atomic.Int64 // events that the inbox has acknowledged
	padding     string
	wait        sync.WaitGroup
	stop        context.CancelFunc
	lastVersion conversation.Version
}

func startAuthor(t *testing.T, b *Bus, s *jetstore.Store, contextID string) *author {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &author{contextID: contextID, stop: cancel, padding: strings.Repeat(" ", 700)}
	w.wait.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			w.begun.Add(1)
			e := message(orchestratorInbox, contextID, strconv.Itoa(i)+w.padding)
			v, err := s.Append(context.Background(), "", contextID, w.lastVersion, &conversation.Entry{Seq: uint64(i + 1), Cause: e})
			if err != nil {
				t.Errorf("Append = %v", err)
				return
			}
			w.lastVersion = v
			w.logged.Add(1)
			if err := b.Publish(context.Background(), orchestratorInbox, e); err != nil {
				t.Errorf("Publish = %v", err)
				return
			}
			w.inInbox.Add(1)
		}
	})
	t.Cleanup(func() { cancel(); w.wait.Wait() })
	return w
}

// found is the content of a store: the number of events of each conversation in its log and in the inbox.
type found struct {
	logged, inInbox map[string]int
	refused         map[string]error // conversations that cannot be loaded, with the error
}

// recoverStore starts a server on a store and reads everything. Each conversation must be a prefix of what was written.
func recoverStore(t *testing.T, dir string, conversations []string) found {
	t.Helper()
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	s, err := jetstore.Open(t.Context(), b.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := found{map[string]int{}, map[string]int{}, map[string]error{}}
	for _, c := range conversations {
		last := conversation.Version(0)
		for e, err := range s.Load(t.Context(), "", c, 0) {
			if err != nil {
				f.refused[c] = err
				break
			}
			if got := strings.TrimSpace(text(e.Cause)); got != strconv.Itoa(f.logged[c]) {
				t.Fatalf("the log of %s has %s behind %d events, want a beginning of what was written", c, got, f.logged[c])
			}
			f.logged[c]++
			last = e.Version
		}
		if f.refused[c] != nil {
			continue
		}
		next := &conversation.Entry{Seq: uint64(f.logged[c] + 1), Cause: message(orchestratorInbox, c, "it goes on")}
		if _, err := s.Append(t.Context(), "", c, last, next); err != nil {
			t.Errorf("Append after the power cut = %v", err)
		}
	}
	waiting, err := b.Waiting(t.Context(), orchestratorInbox)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Add(waiting)
	sub, err := b.Subscribe(t.Context(), orchestratorInbox, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := serve(t, sub, func(e *transport.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if got := strings.TrimSpace(text(e)); got != strconv.Itoa(f.inInbox[e.ContextID]) {
			t.Errorf("the inbox has %s of %s behind %d events, want a beginning of what was written", got, e.ContextID, f.inInbox[e.ContextID])
		}
		f.inInbox[e.ContextID]++
		all.Done()
		return nil
	})
	all.Wait()
	stop()
	return f
}

// TestPowerCut copies the store during writes, file by file. That is worse than a power cut, since the files are of different moments. A server on
// the copy has everything that was acknowledged before the copy began, and a prefix of what was written later.
func TestPowerCut(t *testing.T) {
	for _, sync := range []string{"", "always"} {
		t.Run("sync "+sync, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, ServerOptions{Sync: sync})
			b := n.dial(t, nil)
			s, err := jetstore.Open(t.Context(), b.Conn(), nil)
			if err != nil {
				t.Fatal(err)
			}
			authors := map[string]*author{}
			for i := range 6 {
				c := fmt.Sprint("c", i)
				authors[c] = startAuthor(t, b, s, c)
			}
			names := slices.Sorted(maps.Keys(authors))
			for round := range 3 {
				mark := 25 * (round + 1)
				eventually(t, "every author is on its way", func() bool {
					for _, w := range authors {
						if w.inInbox.Load() < int64(mark) {
							return false
						}
					}
					return true
				})
				before := found{map[string]int{}, map[string]int{}, nil}
				for c, w := range authors {
					before.logged[c], before.inInbox[c] = int(w.logged.Load()), int(w.inInbox.Load())
				}
				dir := storechecktest.Copy(t, n.opts.Dir)
				after := recoverStore(t, dir, names)
				for c, w := range authors {
					if err := after.refused[c]; err != nil {
						t.Errorf("%s is refused: %v", c, err)
					}
					if after.logged[c] < before.logged[c] || after.logged[c] > int(w.begun.Load()) {
						t.Errorf("the log of %s has %d events, want at least the %d that were acknowledged", c, after.logged[c], before.logged[c])
					}
					if after.inInbox[c] < before.inInbox[c] || after.inInbox[c] > int(w.begun.Load()) {
						t.Errorf("the inbox has %d events of %s, want at least the %d that were acknowledged", after.inInbox[c], c, before.inInbox[c])
					}
				}
			}
		})
	}
}

// TestTornBlock damages the end of the last write, like a disk that lost power. Each conversation is a prefix of what it was, or loading it returns
// an error.
func TestTornBlock(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	s, err := jetstore.Open(t.Context(), b.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	authors := map[string]*author{}
	for i := range 4 {
		c := fmt.Sprint("c", i)
		authors[c] = startAuthor(t, b, s, c)
	}
	names := slices.Sorted(maps.Keys(authors))
	eventually(t, "there is something to lose", func() bool {
		return !slices.ContainsFunc(names, func(c string) bool { return authors[c].inInbox.Load() < 30 })
	})
	total := 0
	for _, w := range authors {
		w.stop()
		w.wait.Wait()
		total += int(w.logged.Load())
	}
	whole := storechecktest.Copy(t, n.opts.Dir)
	for _, c := range []struct {
		name  string
		spoil func(content []byte) []byte
		most  int // messages that may be missing in each stream
	}{
		{"a byte is missing", func(b []byte) []byte { return b[:len(b)-1] }, 1},
		{"a few bytes are missing", func(b []byte) []byte { return b[:len(b)-11] }, 1},
		{"half a message is missing", func(b []byte) []byte { return b[:len(b)-400] }, 1},
		{"two are missing and a half", func(b []byte) []byte { return b[:len(b)-2500] }, 4},
		{"a bit is another", func(b []byte) []byte { b[len(b)-300] ^= 1; return b }, 1},
		{"a bit of the checksum is another", func(b []byte) []byte { b[len(b)-3] ^= 0x10; return b }, 1},
		{"there is a tail of zeros", func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 0},
	} {
		for _, index := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/index %v", c.name, index), func(t *testing.T) {
				t.Parallel()
				dir := storechecktest.Copy(t, whole)
				for _, stream := range []string{inboxStream, jetstore.Stream} {
					msgs := filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs")
					blocks, err := filepath.Glob(filepath.Join(msgs, "*.blk"))
					if err != nil || len(blocks) == 0 {
						t.Fatalf("no blocks in %s, %v", msgs, err)
					}
					newest := slices.MaxFunc(blocks, func(a, b string) int { return number(a) - number(b) })
					content, err := os.ReadFile(newest)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(newest, c.spoil(content), 0o600); err != nil {
						t.Fatal(err)
					}
					if !index {
						if err := os.Remove(filepath.Join(msgs, "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
							t.Fatal(err)
						}
					}
				}
				after := recoverStore(t, dir, names)
				left := 0
				for _, name := range names {
					left += after.logged[name]
					if err := after.refused[name]; err != nil && !strings.Contains(err.Error(), strconv.Quote(name)) {
						t.Errorf("%s is refused with %q, want its name in it", name, err)
					}
				}
				t.Logf("%d of %d entries are left, %d conversations are refused", left, total, len(after.refused))
				if len(after.refused) == 0 && total-left > c.most {
					t.Errorf("%d of %d entries are left, want all but %d", left, total, c.most)
				}
			})
		}
	}
}

// number returns the number in the name of a block's file.
func number(file string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(file), ".blk"))
	return n
}
