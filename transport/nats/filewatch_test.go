package nats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
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

// TestFilesTakenAway removes the files of a stream of a running server. The second look reports that, once; the report ends when the files are
// back.
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

			// A shutdown, however soon, does not hide it.
			if err := take(stream); err != nil {
				t.Fatal(err)
			}
			n.Restart(t)
			if !slices.ContainsFunc(n.srv.Found(), func(f storecheck.Finding) bool { return f.Stream == inboxStream && f.Level == storecheck.Lost }) {
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

// TestFilesReplaced replaces files of a running server by an older copy, in several ways. That is reported once, and the next start finds a loss.
func TestFilesReplaced(t *testing.T) {
	last := func(stream string) string {
		blocks, _ := filepath.Glob(filepath.Join(stream, "msgs", "*.blk")) // fewer than ten
		return "msgs/" + filepath.Base(blocks[len(blocks)-1])
	}
	for name, replace := range map[string]func(stream, older string) error{
		"the folder": func(stream, older string) error {
			return errors.Join(os.Rename(stream, stream+".old"), os.CopyFS(stream, os.DirFS(older)))
		},
		"its files": func(stream, older string) error {
			return errors.Join(os.RemoveAll(filepath.Join(stream, "msgs")), os.CopyFS(stream+"/msgs", os.DirFS(older+"/msgs")))
		},
		"a block": func(stream, older string) error {
			return os.Rename(filepath.Join(older, last(older)), filepath.Join(stream, last(older)))
		},
		"a block, in place": func(stream, older string) error {
			b, err := os.ReadFile(filepath.Join(older, last(older)))
			return errors.Join(err, os.WriteFile(filepath.Join(stream, last(older)), b, 0o600))
		},
		"a block that was full": func(stream, older string) error {
			b, err := os.ReadFile(filepath.Join(older, "msgs/1.blk"))
			path := filepath.Join(stream, "msgs/1.blk")
			return errors.Join(err, os.WriteFile(path+".x", b[:len(b)/2], 0o600), os.Rename(path+".x", path))
		},
		"a block, removed": func(stream, _ string) error { return os.Remove(filepath.Join(stream, "msgs/1.blk")) },
		"a block of another stream": func(stream, _ string) error {
			other, err := filepath.Glob(filepath.Join(filepath.Dir(stream), "KV_*", "msgs", "1.blk"))
			if err != nil || len(other) == 0 {
				return fmt.Errorf("no other block: %w", err)
			}
			return os.Rename(other[0], filepath.Join(stream, last(stream)))
		},
	} {
		for _, stream := range []string{inboxStream, deadStream} {
			t.Run(name+" of "+stream, func(t *testing.T) {
				t.Parallel()
				var log textLog
				n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				b := n.dial(t, nil)
				inbox := transport.Inbox("", "away")
				say := func(i, size int) {
					t.Helper()
					e := message(inbox, fmt.Sprint("c", i), strings.Repeat("x", size))
					if err := b.Publish(t.Context(), inbox, e); err != nil {
						t.Fatal(err)
					}
					if stream == inboxStream {
						return
					}
					m := &natsgo.Msg{Subject: deadPrefix + "x.y." + strconv.Itoa(i), Data: make([]byte, size)}
					if err := b.store(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 8 { // about half a block
					say(i, 600<<10)
				}
				older := t.TempDir()
				dir := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", stream)
				if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				w := n.srv.files
				w.look()
				say(100, 100)
				say(101, 100)
				for range 3 {
					w.look()
				}
				if _, err := n.srv.Missing(); err != nil {
					t.Fatalf("before anything is replaced: %v", err)
				}
				if err := replace(dir, older); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					w.look()
				}
				serious, err := n.srv.Missing()
				if !serious || err == nil || !strings.Contains(err.Error(), stream) {
					t.Errorf("Missing = %v, %v, want that %s is missing", serious, err, stream)
				}
				if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "stream="+stream) {
					t.Errorf("it is told %d times, want once:\n%s", n, log.String())
				}
				lost := func(f storecheck.Finding) bool { return f.Stream == stream && f.Level == storecheck.Lost }
				if !slices.ContainsFunc(n.srv.Found(), lost) {
					t.Errorf("the server that runs knows of %+v, want that %s is lost", n.srv.Found(), stream)
				}
				n.Restart(t)
				if !slices.ContainsFunc(n.srv.Found(), func(f storecheck.Finding) bool { return lost(f) && !f.Running }) {
					t.Errorf("the next start has found %+v, want that %s is lost", n.srv.Found(), stream)
				}
			})
		}
	}
}

// TestFilesCut damages a file of a running server, which then cuts it off where it cannot read on, and goes on with the rest, twice. What was lost is told each time,
// once, also by a start after a kill at any time: files and server agree by then.
func TestFilesCut(t *testing.T) {
	halve := func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	}
	for name, test := range map[string]struct {
		size   int // of the ten messages
		damage func(path string) error
	}{
		"a flipped bit of a length":            {10, flip},
		"halved":                               {10, halve},
		"halved, with others behind that file": {600 << 10, halve},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log textLog
			n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil)), Inspect: inspect})
			inbox := transport.Inbox("", "away")
			has := func() (msgs uint64) {
				all, err := n.srv.memory.ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range all.AccountDetails[0].Streams {
					if s.Name == inboxStream {
						msgs = s.State.Msgs
					}
				}
				return msgs
			}
			losses := func(all []storecheck.Finding) (n int) {
				for _, f := range all {
					if f.Stream == inboxStream && f.Level == storecheck.Lost && !f.Running {
						n++
					}
				}
				return n
			}
			for round := 1; round <= 2; round++ {
				b := n.dial(t, nil)
				for i := range 10 {
					if err := b.Publish(t.Context(), inbox, message(inbox, fmt.Sprint("c", round), strings.Repeat(strconv.Itoa(i), test.size))); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				n.Restart(t) // the server has read nothing of the file now
				n.srv.Remember(time.Now())
				n.srv.Remember(time.Now().Add(time.Hour)) // everything is on the disk by then
				remembered, err := os.ReadFile(memoryFile(n.opts.Dir))
				if err != nil {
					t.Fatal(err)
				}
				free := sync.OnceFunc(n.srv.files.mu.Unlock)
				n.srv.files.mu.Lock() // the watch of the files waits, as for a slow disk
				t.Cleanup(free)
				had := has()
				if err := test.damage(filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "1.blk")); err != nil {
					t.Fatal(err)
				}
				b = n.dial(t, nil)
				eventually(t, "the server has cut off a file", func() bool {
					_, _ = b.find(t.Context(), inboxStream, inboxPrefix+">", 1) // it reads the file
					return has() < had
				})
				killed := map[string]string{"before it is remembered": storechecktest.Copy(t, n.opts.Dir)}
				if err := os.WriteFile(memoryFile(killed["before it is remembered"]), remembered, 0o600); err != nil {
					t.Fatal(err)
				}
				n.srv.Remember(time.Now())
				killed["when it is remembered"] = storechecktest.Copy(t, n.opts.Dir)
				free()
				for when, dir := range killed {
					is := &node{opts: ServerOptions{Dir: dir, Inspect: inspect}}
					is.start(t)
					if got := losses(is.srv.Found()); got != round {
						t.Errorf("killed %s, the next start knows of %+v, want %d losses of %s", when, is.srv.Found(), round, inboxStream)
					}
					is.stop()
				}
				for range 3 {
					n.srv.Remember(time.Now())
					n.srv.files.look()
				}
				if got := losses(n.srv.Found()); got != round {
					t.Errorf("it knows of %+v, want %d losses of %s", n.srv.Found(), round, inboxStream)
				}
				if n := strings.Count(log.String(), "messages of a stream are lost while the server runs"); n != round {
					t.Errorf("it is told %d times, want %d:\n%s", n, round, log.String())
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
			n.Restart(t)
			if got := losses(n.srv.Found()); got != 2 {
				t.Errorf("the next start knows of %+v, want 2 losses of %s", n.srv.Found(), inboxStream)
			}
		})
	}
}

// flip flips a bit of the length of the second record of a block.
func flip(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := records(b, 1) + 1
	return overwrite(path, at, b[at]^0x40)
}

// overwrite writes one byte of a file in place.
func overwrite(path string, at int, b byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{b}, int64(at))
	return errors.Join(err, f.Close())
}

// TestMessageDamaged flips a bit of a message that waits while the server runs, which then delivers only the others. That is told when the messages are
// counted the next time, though the files look as before, and nothing else ends for it.
func TestMessageDamaged(t *testing.T) {
	for _, which := range []int{1, 3} { // one in the middle, and the newest
		t.Run(fmt.Sprint(which), func(t *testing.T) { messageDamaged(t, fmt.Sprint("hello ", which)) })
	}
}

func messageDamaged(t *testing.T, which string) {
	var log textLog
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	inbox := transport.Inbox("", "away")
	for i := range 4 {
		publish(t, n.dial(t, nil), inbox, "c1", fmt.Sprint("hello ", i))
	}
	n.Restart(t) // the server has read nothing of the file now
	w := n.srv.files
	look := func() {
		for range 3 {
			w.look()
		}
	}
	look()
	path := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "1.blk")
	damage(t, path, which)
	came := make(chan string, 4)
	serveTopic(t, n.dial(t, nil), inbox, nil, func(e *transport.Event) error { came <- text(e); return nil })
	for _, want := range []string{"hello 0", "hello 1", "hello 2", "hello 3"} {
		if want == which {
			continue
		}
		if got := receive(t, came); got != want {
			t.Errorf("%q came, want %q", got, want)
		}
	}
	look()
	if _, err := n.srv.Missing(); err != nil {
		t.Errorf("before the messages are counted: %v", err)
	}
	now(w)
	look()
	if serious, err := n.srv.Missing(); serious || err == nil || err.Error() != "messages of "+inboxStream+" were damaged in the files while cortex runs, and are lost: "+damagedAdvice {
		t.Errorf("Missing = %v, %v, want that %s is damaged", serious, err, inboxStream)
	}
	if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "were damaged, and lack 1 of ") || !strings.Contains(got, "messages, while the server runs: what is damaged is lost, and nothing else") {
		t.Errorf("the log has %s, want one error", got)
	}
	damaged := func(f storecheck.Finding) bool {
		return f.Stream == inboxStream && f.Level == storecheck.Lost && f.Running
	}
	if !slices.ContainsFunc(n.srv.Found(), damaged) {
		t.Errorf("the server that runs knows of %+v, want that %s is damaged", n.srv.Found(), inboxStream)
	}
}

// TestMessageDamagedBesideOthers flips a bit of a message that waits while the server runs, which then removes the block behind it, or writes its block anew: what is
// found is damage in place, and not that the files were replaced. When they are, that is told, too.
func TestMessageDamagedBesideOthers(t *testing.T) {
	for name, remove := range map[string][]uint64{"a block is removed": {8, 9, 10, 11, 12, 13}, "its block is written anew": {3, 4, 5, 7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log textLog
			n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			inbox, b := transport.Inbox("", "away"), n.dial(t, nil)
			for i := range 18 { // three blocks
				publish(t, b, inbox, "c1", fmt.Sprint("hello ", i, strings.Repeat("x", 600<<10)))
			}
			n.Restart(t) // the server has read nothing of the files now
			w := n.srv.files
			w.look()
			msgs := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs")
			damage(t, filepath.Join(msgs, "1.blk"), "hello 4")
			before := storecheck.Traced(w.dir, "$G/"+inboxStream)
			stream, err := n.dial(t, nil).js.Stream(t.Context(), inboxStream)
			if err != nil {
				t.Fatal(err)
			}
			for _, seq := range remove {
				if err := stream.DeleteMsg(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
			}
			if storecheck.Traced(w.dir, "$G/"+inboxStream).Same(before) {
				t.Fatal("the server has left all files as they were")
			}
			for range 3 {
				w.look()
			}
			if serious, err := n.srv.Missing(); serious || err == nil || !strings.HasPrefix(err.Error(), "messages of "+inboxStream+" were damaged in the files") {
				t.Errorf("Missing = %v, %v, want that %s is damaged", serious, err, inboxStream)
			}
			if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "were damaged, and lack 1 of ") {
				t.Errorf("the log has %s, want one error", got)
			}

			if err := os.Remove(filepath.Join(msgs, "3.blk")); err != nil {
				t.Fatal(err)
			}
			now(w)
			for range 3 {
				w.look()
			}
			if serious, err := n.srv.Missing(); !serious || err == nil || strings.Count(log.String(), "level=ERROR") != 2 {
				t.Errorf("Missing = %v, %v, want that files of %s are missing, and two errors:\n%s", serious, err, inboxStream, log.String())
			}
		})
	}
}

// damage flips a bit of these words in a file.
func damage(t *testing.T, path, words string) {
	t.Helper()
	b, err := os.ReadFile(path)
	at := bytes.Index(b, []byte(words))
	if err != nil || at < 0 {
		t.Fatalf("%q is at %d of %s, %v", words, at, path, err)
	}
	if err := overwrite(path, at, b[at]^1); err != nil {
		t.Fatal(err)
	}
}

// now has the watch count all files the next time that it looks, as it does every ten minutes.
func now(w *fileWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, is := range w.watched {
		is.counted, is.next = is.counted.Add(-countEvery), time.Time{}
	}
}

// TestMoreIsDamaged damages messages in their file one by one: what is added is told, too, once, and what is added soon after that later.
func TestMoreIsDamaged(t *testing.T) {
	var log textLog
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	inbox := transport.Inbox("", "away")
	for i := range 6 {
		publish(t, n.dial(t, nil), inbox, "c1", fmt.Sprint("hello ", i))
	}
	n.Restart(t) // the server has read nothing of the file now
	w := n.srv.files
	w.look()
	path := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "1.blk")
	for _, step := range []struct {
		words string // "": nothing more
		later bool   // the last time that something was told is long ago
		told  []string
	}{
		{"hello 0", false, []string{"lack 1 of 7"}},
		{"", true, []string{"lack 1 of 7"}},
		{"hello 2", false, []string{"lack 1 of 7", "lack 2 of 7"}},
		{"hello 3", false, []string{"lack 1 of 7", "lack 2 of 7"}},
		{"", true, []string{"lack 1 of 7", "lack 2 of 7", "lack 3 of 7"}},
		{"", true, []string{"lack 1 of 7", "lack 2 of 7", "lack 3 of 7"}},
	} {
		if step.words != "" {
			damage(t, path, step.words)
		}
		if step.later {
			w.mu.Lock()
			for _, is := range w.watched {
				is.toldAt = is.toldAt.Add(-countEvery)
			}
			w.mu.Unlock()
		}
		now(w)
		for range 4 {
			w.look()
		}
		var told []string
		for line := range strings.Lines(log.String()) {
			if _, after, ok := strings.Cut(line, "were damaged, and "); ok {
				told = append(told, after[:len("lack 1 of 7")])
			}
		}
		if !slices.Equal(told, step.told) {
			t.Errorf("when %q is damaged, told is %q, want %q", step.words, told, step.told)
		}
		if serious, err := n.srv.Missing(); serious || err == nil {
			t.Errorf("Missing = %v, %v, want that %s is damaged", serious, err, inboxStream)
		}
	}
}

// TestDamagedStaysSo damages a message that waits, and has others be handled after that was told, of which the files say nothing yet: as many as before seem to be
// there, and nothing is said to be right again while it is damaged.
func TestDamagedStaysSo(t *testing.T) {
	var log textLog
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 6 {
		publish(t, n.dial(t, nil), transport.Inbox("", "away"), "c1", fmt.Sprint("hello ", i))
	}
	n.Restart(t) // the server has read nothing of the file now
	w := n.srv.files
	w.look()
	damage(t, filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "1.blk"), "hello 3")
	now(w)
	want := func(when string) {
		t.Helper()
		for range 3 {
			w.look()
		}
		if serious, err := n.srv.Missing(); serious || err == nil {
			t.Errorf("%s: Missing = %v, %v, want that %s is damaged", when, serious, err, inboxStream)
		}
		if got := log.String(); strings.Count(got, "were damaged, and lack 1 of 7") != 1 || strings.Contains(got, "have again") {
			t.Errorf("%s, the log has %s, want one error", when, got)
		}
	}
	want("at first")
	b, busy := n.dial(t, nil), transport.Inbox("", "busy")
	serveTopic(t, b, busy, &transport.SubscribeOptions{Unordered: true}, func(*transport.Event) error { return nil })
	for range 12 { // how the server writes down what is removed depends on when
		for i := range 8 { // about half a block
			publish(t, b, busy, "c2", fmt.Sprint(i, strings.Repeat("x", 600<<10)))
		}
		eventually(t, "others are handled", func() bool {
			_, err := b.message(t.Context(), inboxStream, inboxFilter(busy), 1)
			return errors.Is(err, transport.ErrNotFound)
		})
		want("after others")
	}
	stream, err := b.js.Stream(t.Context(), inboxStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.look()
	if _, err := n.srv.Missing(); err != nil || !strings.Contains(log.String(), "have again") {
		t.Errorf("without messages, Missing = %v", err)
	}
}

// TestFilesCopied replaces files of a running server by a copy, which lacks nothing until more is written; the log of conversations is often read
// and seldom written.
func TestFilesCopied(t *testing.T) {
	var log textLog
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", "away")
	if err := b.Publish(t.Context(), inbox, message(inbox, "c1", "hello")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream)
	if err := errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old"))); err != nil {
		t.Fatal(err)
	}
	w := n.srv.files
	for range 3 {
		w.look()
	}
	if _, err := n.srv.Missing(); err != nil {
		t.Errorf("while nothing is lost: %v", err)
	}
	if err := b.Publish(t.Context(), inbox, message(inbox, "c2", "hello")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.look()
	}
	if serious, err := n.srv.Missing(); !serious || err == nil {
		t.Errorf("Missing = %v, %v, want that what was written is missing", serious, err)
	}
}

// TestFilesCopiedBetweenCounts is TestFilesCopied with a message that comes while it is too early to count again: the next count tells what is missing.
func TestFilesCopiedBetweenCounts(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	inbox := transport.Inbox("", "away")
	publish(t, b, inbox, "c1", "hello")
	dir := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream)
	if err := errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old"))); err != nil {
		t.Fatal(err)
	}
	w := n.srv.files
	w.look()
	w.mu.Lock()
	w.watched["$G/"+inboxStream].next = time.Now().Add(time.Hour)
	w.mu.Unlock()
	publish(t, b, inbox, "c2", "hello")
	for range 3 {
		w.look()
	}
	now(w)
	for range 3 {
		w.look()
	}
	if serious, err := n.srv.Missing(); !serious || err == nil {
		t.Errorf("Missing = %v, %v, want that what was written is missing", serious, err)
	}
}

// TestReplacedByADamagedCopy replaces the block of a stream by an earlier copy that is damaged, in messages that were removed since: that does not excuse what
// the files lack.
func TestReplacedByADamagedCopy(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	stream, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: logStream, Subjects: []string{"log"}})
	if err != nil {
		t.Fatal(err)
	}
	store := func(text string) {
		t.Helper()
		if err := b.store(t.Context(), &natsgo.Msg{Subject: "log", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		store(fmt.Sprint("hello ", i))
	}
	w := n.srv.files
	w.look()
	block := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", logStream, "msgs", "1.blk")
	is, err := os.ReadFile(block)
	if err = errors.Join(err, os.WriteFile(block+".old", is, 0o600)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		damage(t, block+".old", fmt.Sprint("hello ", i+1))
		if err := stream.DeleteMsg(t.Context(), uint64(i+2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(block+".old", block); err != nil {
		t.Fatal(err)
	}
	store("lost")
	now(w)
	for range 3 {
		w.look()
	}
	if serious, err := n.srv.Missing(); !serious || err == nil {
		t.Errorf("Missing = %v, %v, want that what was stored is lost", serious, err)
	}
}

// TestReplacedMeanwhile replaces the last messages of a stream, and so removes the last block, while its files are counted: that
// count says nothing new.
func TestReplacedMeanwhile(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	if err := b.js.DeleteStream(t.Context(), agentsStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: agentsStream, Subjects: []string{"key.*"}, MaxMsgsPerSubject: 1}); err != nil {
		t.Fatal(err)
	}
	store := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := b.store(t.Context(), &natsgo.Msg{Subject: fmt.Sprint("key.", i), Data: make([]byte, 300<<10)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	store(0, 60)
	w, name := n.srv.files, "$G/"+agentsStream
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.streams()
	if err != nil {
		t.Fatal(err)
	}
	was := w.watched[name]
	before := wrong{what: "damaged, and lack 1 of 60 messages,", lacking: 1, inPlace: true}
	was.counted, was.next, was.wrong = time.Time{}, time.Time{}, before
	found := make(chan wrong, 1)
	w.quiet.mu.Lock()
	go func() { found <- w.wrong(all[name], was) }()
	eventually(t, "the blocks are listed", func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*quiet).goesOn")
	})
	store(40, 60)
	store(40, 60)
	w.quiet.mu.Unlock()
	if is := <-found; is != before {
		t.Errorf("its files were %q, want %q as before", is.what, before.what)
	}
}

// TestNothingTakenAway checks the files repeatedly while the server makes, empties and removes files.
func TestNothingTakenAway(t *testing.T) {
	n := newNode(t, ServerOptions{Sync: "20ms"}) // the server also compacts after this time
	b := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	handled := make(chan *transport.Event)
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error { handled <- e; return nil })
	others := storechecktest.Copy(t, n.opts.Dir)
	waits := transport.Inbox("", "away")
	for i := range 60 {
		if err := b.Publish(t.Context(), waits, message(waits, fmt.Sprint("c", i%3), strings.Repeat("x", 100<<10))); err != nil {
			t.Fatal(err)
		}
		e := message(inbox, fmt.Sprint("c", i%3), strings.Repeat("x", 500<<10))
		if err := b.Publish(t.Context(), inbox, e); err != nil {
			t.Fatal(err)
		}
		receive(t, handled)
		n.srv.files.look()
		switch i % 20 {
		case 7:
			erase(t, b, e.ContextID)
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
		n.srv.files.mu.Lock()
		for name, w := range n.srv.files.watched { // as if all files were replaced: their messages are counted
			w.trace, w.next = storecheck.Traced(others, name), time.Time{}
		}
		n.srv.files.mu.Unlock()
	}
}

func purge(t *testing.T, b *Bus) error {
	s, err := b.js.Stream(t.Context(), inboxStream)
	if err != nil {
		return err
	}
	return s.Purge(t.Context())
}

// TestWatchThatWorksIsNotSilent: the watch of a large store reads its files for long, which is no silence of the server.
func TestWatchThatWorksIsNotSilent(t *testing.T) {
	s := &quiet{}
	s.ask(func() {
		began := time.Now()
		s.asked = began.Add(-silentAfter)
		s.goesOn()
		if silent, _ := s.turned(began); silent {
			t.Error("the server is silent while its files are read")
		}
		if silent, turned := s.turned(time.Now().Add(2 * silentAfter)); !silent || !turned {
			t.Error("the server is not silent when nothing goes on")
		}
	})
}
