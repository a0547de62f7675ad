package nats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// TestDamage damages the files of a server with waiting events and a file. Whatever is damaged, the server starts; either the events are delivered
// and the file is intact, or a loss is reported; new events are delivered, and memory is bounded.
func TestDamage(t *testing.T) {
	const waiting = 40
	ended, killed, ref := prepareDamage(t, waiting)
	t.Run("seeds", func(t *testing.T) {
		for seed := range storechecktest.Seeds() {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(seed, 12))
				from := ended
				if seed%2 == 1 {
					from = killed
				}
				dir := storechecktest.Copy(t, from)
				often := inboxStream
				if seed%4 > 1 {
					often = fileStream
				}
				t.Log(storechecktest.Damage(t, rnd, dir, often))
				checkDamaged(t, dir, waiting, ref)
			})
		}
	})
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.Sys > 1<<30 {
		t.Errorf("%d MB of memory are used, want less than 1 GB", m.Sys>>20)
	}
}

// TestNoDamage checks that nothing is reported for an undamaged store, after a shutdown and after a kill.
func TestNoDamage(t *testing.T) {
	ended, killed, _ := prepareDamage(t, 5)
	for _, from := range []string{ended, killed} {
		n := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, from)}}
		for range 3 {
			n.start(t)
			if found := n.srv.Found(); len(found) > 0 {
				t.Errorf("found %+v in a store that is not damaged", found)
			}
			n.stop()
		}
	}
}

// TestLossIsRemembered removes a stream. Each start reports the loss until it is accepted.
func TestLossIsRemembered(t *testing.T) {
	ended, _, _ := prepareDamage(t, 5)
	n := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, ended)}}
	if err := os.RemoveAll(filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream)); err != nil {
		t.Fatal(err)
	}
	told := func() (lost int) {
		for _, f := range n.srv.Found() {
			if f.Level == storecheck.Lost && f.Stream == inboxStream {
				lost++
			}
		}
		return lost
	}
	n.start(t)
	first := told()
	n.stop()
	n.start(t)
	if second := told(); first == 0 || second != first {
		t.Errorf("%d findings of loss at the first start, %d at the second", first, second)
	}
	n.srv.Accept("somebody")
	if told() != first {
		t.Errorf("%d findings after somebody else's were accepted, want %d", told(), first)
	}
	n.srv.Accept("$G")
	if told() != 0 {
		t.Errorf("%d findings after they were accepted", told())
	}
	n.stop()
	n.start(t)
	if told() != 0 {
		t.Errorf("found %+v at the start after that", n.srv.Found())
	}
	n.stop()
}

// TestForgotten starts a server on a store without a memory, or with an unreadable one. The server reports that once.
func TestForgotten(t *testing.T) {
	ended, _, _ := prepareDamage(t, 5)
	for what, forget := range map[string]func(path string) error{
		"nothing was remembered": os.Remove,
		"cannot be read": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "folder"), 0o700))
		},
	} {
		var log bytes.Buffer
		n := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, ended), Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		if err := forget(memoryFile(n.opts.Dir)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			n.start(t)
			if found := n.srv.Found(); len(found) > 0 {
				t.Errorf("found %+v", found)
			}
			n.stop()
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, what) {
			t.Errorf("the log has %s, want one warning with %q", got, what)
		}
	}
}

// TestRememberedLater has a disk that does not take what is remembered for a while: it is written when it can be, though nothing more is stored.
func TestRememberedLater(t *testing.T) {
	n := newNode(t, ServerOptions{})
	publish(t, n.dial(t, nil), orchestratorInbox, "c1", "hello")
	now := time.Now()
	n.srv.Remember(now)
	n.srv.Remember(now.Add(time.Hour)) // everything is on the disk by then
	path := memoryFile(n.opts.Dir)
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	n.srv.Note([]byte(`"a note"`))
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	n.srv.Remember(now.Add(time.Hour + time.Second))
	m, err := ReadMemory(n.opts.Dir)
	if err != nil || m == nil || string(m.Notes) != `"a note"` {
		t.Errorf("remembered are %+v, %v, want the note", m, err)
	}
}

// TestOutdated puts the dead letters and the memory of an earlier time back, which fit to each other, beside streams that went on. The server reports
// once that something may be missing.
func TestOutdated(t *testing.T) {
	var log bytes.Buffer
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	publish(t, n.dial(t, nil), orchestratorInbox, "c1", "before")
	n.stop()
	earlier := storechecktest.Copy(t, n.opts.Dir)
	n.start(t)
	publish(t, n.dial(t, nil), orchestratorInbox, "c1", "since")
	n.Restart(t)
	n.stop()
	if got := log.String(); strings.Contains(got, "earlier time") {
		t.Errorf("before anything was put back the log has %s", got)
	}
	dead := filepath.Join("jetstream", "$G", "streams", deadStream)
	err := errors.Join(os.RemoveAll(filepath.Join(n.opts.Dir, dead)), os.CopyFS(filepath.Join(n.opts.Dir, dead), os.DirFS(filepath.Join(earlier, dead))),
		os.Rename(memoryFile(earlier), memoryFile(n.opts.Dir)))
	if err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.Restart(t)
	if got := log.String(); strings.Count(got, "earlier time than the store") != 1 {
		t.Errorf("the log has %s, want that the memory is of an earlier time, once", got)
	}
}

// fileSize exceeds one block of the stream of files.
const fileSize = 4500 << 10

// prepareDamage returns the folders of two stores with the same content: after a proper shutdown of the server, and without one.
func prepareDamage(t *testing.T, waiting int) (ended, killed string, ref transport.FileRef) {
	t.Helper()
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	handled := make(chan struct{}, 1)
	stop := serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
		handled <- struct{}{}
		if e.ContextID == "poison" {
			return transport.Permanent(transport.ErrInvalid)
		}
		return nil
	})
	for i := range 20 {
		publish(t, b, orchestratorInbox, fmt.Sprint(i), "done")
		receive(t, handled)
	}
	publish(t, b, orchestratorInbox, "poison", "given up")
	receive(t, handled)
	eventually(t, "a dead letter", func() bool { return len(dead(t, b)) == 1 })
	stop()
	for i := range waiting {
		publish(t, b, orchestratorInbox, fmt.Sprint(i), fmt.Sprintf("words %d", i))
	}
	ref, err := transport.PutFile(t.Context(), b, "", "0", "user", bytes.NewReader(make([]byte, fileSize)), fileSize)
	if err != nil {
		t.Fatal(err)
	}
	n.srv.Remember(time.Now())
	n.srv.Remember(time.Now().Add(time.Hour)) // everything is on the disk by then
	killed = storechecktest.Copy(t, n.opts.Dir)
	n.stop()
	return n.opts.Dir, killed, ref
}

// checkDamaged starts a server on a store that may be damaged, and checks what remains.
func checkDamaged(t *testing.T, dir string, waiting int, ref transport.FileRef) {
	t.Helper()
	n := &node{opts: ServerOptions{Dir: dir}}
	n.start(t)
	t.Cleanup(n.stop)
	b := n.dial(t, nil)
	var mu sync.Mutex
	got := map[string]bool{}
	fresh := make(chan struct{}, 1)
	serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if e.ContextID == "fresh" {
			select {
			case fresh <- struct{}{}:
			default:
			}
			return nil
		}
		got[e.ContextID] = true
		return nil
	})
	publish(t, b, orchestratorInbox, "fresh", "new words")
	receive(t, fresh)
	eventually(t, "the inbox is empty", func() bool {
		left, err := b.Waiting(t.Context(), orchestratorInbox)
		return err == nil && left == 0
	})
	if err := b.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy = %v", err)
	}
	said := false
	for _, f := range n.srv.Found() {
		said = said || f.Level != storecheck.Made
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) < waiting && !said {
		t.Errorf("%d events of %d were delivered, and nothing was said: %+v", len(got), waiting, n.srv.Found())
	}
	if whole, err := transport.ReadPart(t.Context(), b, "", ref.Part("", ""), fileSize); (err != nil || len(whole) != fileSize) && !said {
		t.Errorf("the file is %d bytes, %v, and nothing was said", len(whole), err)
	}
	if len(dead(t, b)) != 1 && !said {
		t.Errorf("%d dead letters, want 1, and nothing was said", len(dead(t, b)))
	}
}

// TestLossIsToldOnce removes a block of a stream after a proper shutdown: there is one finding, and it does not mention a kill.
func TestLossIsToldOnce(t *testing.T) {
	ended, _, _ := prepareDamage(t, 5)
	n := &node{opts: ServerOptions{Dir: storechecktest.Copy(t, ended)}}
	blocks, err := filepath.Glob(filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", fileStream, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("blocks = %v, %v", blocks, err)
	}
	if err := os.Remove(blocks[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.start(t)
		lost := 0
		for _, f := range n.srv.Found() {
			if f.Stream == fileStream && f.Level == storecheck.Lost {
				lost++
			}
			if strings.Contains(f.What, "killed") {
				t.Errorf("found %+v behind a proper end", f)
			}
		}
		if lost != 1 {
			t.Errorf("found %+v, want one loss in %s", n.srv.Found(), fileStream)
		}
		n.stop()
	}
}
