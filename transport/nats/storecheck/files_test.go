package storecheck

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const stream = "CORTEX_TEST"

// store writes messages to a stream with a server, removes the second and overwrites the third, and returns the folder after the server has ended.
// Odd messages have a header.
func store(t testing.TB, messages, size int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	js, stop := serve(t, dir)
	defer stop()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"test.>"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= messages; i++ {
		m := nats.NewMsg(fmt.Sprintf("test.%d", i))
		m.Data = bytes.Repeat([]byte("w"), size)
		if i%2 == 1 {
			m.Header.Set("Number", fmt.Sprint(i))
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.DeleteMsg(t.Context(), 2), s.SecureDeleteMsg(t.Context(), 3)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func serve(t testing.TB, dir string) (js jetstream.JetStream, stop func()) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return js, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

func blockFile(dir string, n int) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs", fmt.Sprintf("%d.blk", n))
}

func state(t testing.TB, dir string) jetstream.StreamState {
	t.Helper()
	js, stop := serve(t, dir)
	defer stop()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State
}

// remembered returns a memory of the store, after a proper shutdown or without one.
func remembered(t testing.TB, dir string, last uint64, clean bool) *Memory {
	t.Helper()
	m := &Memory{Streams: map[string]*Remembered{"$G/" + stream: {Last: last, Durable: last}}}
	if clean {
		if err := m.Remember(dir); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func examine(t testing.TB, dir string, o Options) *Report {
	t.Helper()
	r, err := Check(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFormat reads what the server of this version writes, so that an upgrade that changes the files fails here.
func TestFormat(t *testing.T) {
	dir := store(t, 6, 10)
	var seen []string
	r := examine(t, dir, Options{Memory: remembered(t, dir, 6, true), Inspect: func(account, name string, since uint64) func(*Record) {
		if account != "$G" || name != stream || since != 0 {
			t.Errorf("Inspect(%q, %q, %d)", account, name, since)
		}
		return func(r *Record) {
			seen = append(seen, fmt.Sprintf("%d %s %t %q %s", r.Seq, r.Subject, r.Gone, r.Header, r.Data))
			if r.Gone {
				seen[len(seen)-1] = fmt.Sprintf("%d gone", r.Seq)
			}
		}
	}})
	want := []string{
		`1 test.1 false "NATS/1.0\r\nNumber: 1\r\n\r\n" wwwwwwwwww`, `2 gone`, `3 gone`, `4 test.4 false "" wwwwwwwwww`,
		`5 test.5 false "NATS/1.0\r\nNumber: 5\r\n\r\n" wwwwwwwwww`, `6 test.6 false "" wwwwwwwwww`, `2 gone`, `3 gone`,
	}
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("records are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if len(r.Findings) > 0 || r.Memory.Streams["$G/"+stream].Last != 6 {
		t.Errorf("the check finds %+v, %+v, want nothing", r.Findings, r.Memory.Streams["$G/"+stream])
	}
}

// TestErased has a removed message whose record is intact, as after a kill during an erasure: the check reports nothing and overwrites the record,
// and the server has the same messages as before.
func TestErased(t *testing.T) {
	for _, clean := range []bool{true, false} {
		dir := store(t, 6, 10)
		m := remembered(t, dir, 6, clean)
		before, err := os.ReadFile(blockFile(dir, 1))
		if err != nil || !bytes.Contains(before, []byte("test.2")) {
			t.Fatalf("block = %q, %v, want one that has the removed message", before, err)
		}
		for range 2 {
			if r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()}); len(r.Findings) > 0 {
				t.Errorf("the check finds %+v, want nothing", r.Findings)
			}
		}
		after, err := os.ReadFile(blockFile(dir, 1))
		if err != nil || bytes.Contains(after, []byte("test.2")) || len(after) != len(before) || bytes.Count(after, []byte("test.")) != 4 {
			t.Errorf("block = %q, %v, want it without the removed message", after, err)
		}
		if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 || got.NumDeleted != 2 {
			t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
		}
	}
}

// TestOneRecord damages one record: the server has all others, including the later ones.
func TestOneRecord(t *testing.T) {
	for name, at := range map[string]int{"length": 0, "sequence": 9, "time": 14, "subject's length": 20, "subject": 24, "data": 33} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", name, clean), func(t *testing.T) {
				dir := store(t, 6, 10)
				m := remembered(t, dir, 6, clean)
				b, err := os.ReadFile(blockFile(dir, 1))
				if err != nil {
					t.Fatal(err)
				}
				i := bytes.Index(b, []byte("test.4")) - headSize
				b[i+at] ^= 0x41
				if err := os.WriteFile(blockFile(dir, 1), b, 0o600); err != nil {
					t.Fatal(err)
				}
				if r := examine(t, dir, Options{Memory: m}); len(r.Findings) != 1 {
					t.Errorf("the check finds %+v, want one thing", r.Findings)
				}
				r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()})
				if len(r.Findings) != 1 || r.Findings[0].Level != Lost {
					t.Fatalf("the check finds %+v, want one thing that is lost", r.Findings)
				}
				kept, err := os.ReadFile(r.Findings[0].Archive)
				if err != nil || !bytes.Contains(kept, []byte("wwww")) {
					t.Errorf("kept is %q, %v, want the record", kept, err)
				}
				if got := state(t, dir); got.Msgs != 3 || got.LastSeq != 6 {
					t.Errorf("the server has %+v, want messages 1, 5 and 6", got)
				}
			})
		}
	}
}

// TestEnd removes the end of a stream. Its sequences are not used again.
func TestEnd(t *testing.T) {
	tests := []struct {
		name           string
		clean          bool
		durable        uint64
		cut            int // bytes of the file that stay; -1: remove the file, -2: the stream, -3: its last bytes
		level          Level
		findings, last int
	}{
		{"emptied", true, 6, 0, Lost, 2, 7},
		{"emptied after a kill", false, 6, 0, Lost, 1, 7},
		{"removed", true, 6, -1, Lost, 2, 7},
		{"removed after a kill", false, 6, -1, Lost, 1, 7},
		{"stream removed", true, 6, -2, Lost, 3, 0},
		{"cut", true, 6, 200, Lost, 2, 7},
		{"cut after a kill", false, 6, 200, Lost, 2, 7},
		{"killed while it wrote", false, 6, -3, Unfinished, 1, 6},
		{"cut by a power cut", false, 2, 200, Recent, 2, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := store(t, 6, 10)
			m := remembered(t, dir, 6, tt.clean)
			m.Streams["$G/"+stream].Durable = tt.durable
			var err error
			switch tt.cut {
			case -1:
				err = os.Remove(blockFile(dir, 1))
			case -2:
				err = os.RemoveAll(filepath.Dir(filepath.Dir(blockFile(dir, 1))))
			case -3:
				info, serr := os.Stat(blockFile(dir, 1))
				if serr != nil {
					t.Fatal(serr)
				}
				err = os.Truncate(blockFile(dir, 1), info.Size()-5)
			default:
				err = os.Truncate(blockFile(dir, 1), int64(tt.cut))
			}
			if err != nil {
				t.Fatal(err)
			}
			r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()})
			if len(r.Findings) != tt.findings {
				t.Errorf("the check finds %+v, want %d things", r.Findings, tt.findings)
			}
			for _, f := range r.Findings {
				if f.Level != tt.level && f.Level != Made && (f.Level != Unfinished || tt.level != Recent) {
					t.Errorf("it finds %+v, want level %s", f, tt.level)
				}
			}
			if tt.last > 0 {
				if got := state(t, dir); got.LastSeq != uint64(tt.last) {
					t.Errorf("the server's last sequence is %d, want %d", got.LastSeq, tt.last)
				}
			}
		})
	}
}

// TestOlderList ends a server that does not rewrite its index, as it does when the index contradicts its state. Messages that were removed since
// are not reported as gone.
func TestOlderList(t *testing.T) {
	dir := store(t, 6, 10)
	list := filepath.Join(filepath.Dir(blockFile(dir, 1)), indexState)
	older, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	js, stop := serve(t, dir)
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.DeleteMsg(t.Context(), 4), s.DeleteMsg(t.Context(), 5), s.DeleteMsg(t.Context(), 6)); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "test.7", []byte("w")); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := os.WriteFile(list, older, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := examine(t, dir, Options{Memory: remembered(t, dir, 7, true), Aside: t.TempDir()}); len(r.Findings) > 0 {
		t.Errorf("the check finds %+v, want nothing", r.Findings)
	}
}

// TestForgotten truncates a stream without a memory. The check reports that the lost content is unknown, and reports messages in the server's index
// as gone.
func TestForgotten(t *testing.T) {
	for _, index := range []bool{true, false} {
		dir := store(t, 6, 10)
		b, err := os.ReadFile(blockFile(dir, 1))
		if err == nil {
			err = os.WriteFile(blockFile(dir, 1), b[:bytes.Index(b, []byte("test.6"))], 0o600)
		}
		if !index && err == nil {
			err = os.Remove(filepath.Join(filepath.Dir(blockFile(dir, 1)), indexState))
		}
		if err != nil {
			t.Fatal(err)
		}
		r := examine(t, dir, Options{Aside: t.TempDir()})
		want := []string{"what they held cannot be told"}
		if index {
			want = append(want, "messages 6 to 6 are gone, which the server has listed")
		}
		if len(r.Findings) != len(want) {
			t.Fatalf("the check finds %+v, want %q", r.Findings, want)
		}
		for i, f := range r.Findings {
			if !strings.Contains(f.What, want[i]) || f.Level != []Level{Recent, Lost}[i] {
				t.Errorf("the check finds %+v, want %q", f, want[i])
			}
		}
		if got := state(t, dir); index && got.LastSeq != 7 {
			t.Errorf("the server has %+v, want that it goes on behind what is gone", got)
		}
	}
}

// TestOlderMemory puts an older state over a newer store, as a backup that is unpacked into the folder: its blocks and its memory are older than the
// index, which the backup of a running server does not have. The check reports what is gone, and the stream goes on behind it.
func TestOlderMemory(t *testing.T) {
	dir := store(t, 6, 10)
	b, err := os.ReadFile(blockFile(dir, 1))
	if err == nil {
		err = os.WriteFile(blockFile(dir, 1), b[:bytes.Index(b, []byte("test.5"))-headSize], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{true, false} { // clean: another server has used the stream since
		m := remembered(t, dir, 4, false)
		if m.Clean = clean; clean {
			m.Streams["$G/"+stream].Files = map[string]File{messagesDir + "/" + indexState: {Size: 1, Sum: 1}}
		}
		r := examine(t, dir, Options{Memory: m})
		if len(r.Findings) == 0 || r.Findings[0].Level != Lost || !strings.Contains(r.Findings[0].What, "messages 5 to 6 are gone") {
			t.Errorf("clean %t: the check finds %+v, want that two messages are gone", clean, r.Findings)
		}
	}
	examine(t, dir, Options{Memory: remembered(t, dir, 4, false), Aside: t.TempDir()})
	if got := state(t, dir); got.LastSeq != 7 {
		t.Errorf("the server has %+v, want that it goes on behind what is gone", got)
	}
}

// TestNotForgotten checks an intact store without a memory.
func TestNotForgotten(t *testing.T) {
	dir := store(t, 6, 10)
	if r := examine(t, dir, Options{Aside: t.TempDir()}); len(r.Findings) > 0 {
		t.Errorf("the check finds %+v, want nothing", r.Findings)
	}
}

// TestBlockInTheMiddle removes one file of several.
func TestBlockInTheMiddle(t *testing.T) {
	dir := store(t, 30, 800<<10) // in files of 8 MB
	m := remembered(t, dir, 30, true)
	if err := os.Remove(blockFile(dir, 2)); err != nil {
		t.Fatal(err)
	}
	r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()})
	if len(r.Findings) != 1 || r.Findings[0].Level != Lost || r.Findings[0].File != "msgs/2.blk" {
		t.Errorf("the check finds %+v, want the file", r.Findings)
	}
	if got := state(t, dir); got.LastSeq != 30 || got.Msgs == 0 || got.Msgs > 25 {
		t.Errorf("the server has %+v, want what is in the other files", got)
	}
}

// TestUsedSince runs a server that keeps no memory, like one of an older version.
func TestUsedSince(t *testing.T) {
	dir := store(t, 6, 10)
	m := remembered(t, dir, 6, true)
	js, stop := serve(t, dir)
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteMsg(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	stop()
	r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()})
	if len(r.Findings) > 0 || !r.Outdated {
		t.Errorf("the check finds %+v, outdated: %t, want that the memory is outdated", r.Findings, r.Outdated)
	}
}

// TestOutdated has a memory of a server that was killed, and messages that it does not know: those of the last moment, and those of an hour, in which
// a server would have written its memory again.
func TestOutdated(t *testing.T) {
	dir := store(t, 6, 10)
	if r := examine(t, dir, Options{Memory: remembered(t, dir, 4, false)}); r.Outdated || len(r.Findings) > 0 {
		t.Errorf("the check finds %+v, outdated: %t, want nothing", r.Findings, r.Outdated)
	}
	b, err := os.ReadFile(blockFile(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	block, err := newBlock(stream, 1)
	if err != nil {
		t.Fatal(err)
	}
	var last *Record
	block.read(b, func(r *Record) error {
		if r.Seq == 6 {
			last = r
		}
		return nil
	})
	binary.LittleEndian.PutUint64(last.bytes[12:], uint64(last.stored().Add(time.Hour).UnixNano()))
	block.hash.Reset()
	_, _ = block.hash.Write(last.bytes[4:20])
	_, _ = block.hash.Write([]byte(last.Subject))
	_, _ = block.hash.Write(append(bytes.Clone(last.Header), last.Data...))
	block.hash.Sum(last.bytes[len(last.bytes)-hashSize : len(last.bytes)-hashSize])
	if err := os.WriteFile(blockFile(dir, 1), b, 0o600); err != nil {
		t.Fatal(err)
	}
	for known, want := range map[uint64]bool{6: false, 5: false, 4: true} {
		if r := examine(t, dir, Options{Memory: remembered(t, dir, known, false)}); r.Outdated != want || len(r.Findings) > 0 {
			t.Errorf("with %d messages known the check finds %+v, outdated: %t, want %t", known, r.Findings, r.Outdated, want)
		}
	}
}

// TestMemory checks that ReadMemory accepts only what Write has written.
func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remembered.json")
	if m, err := ReadMemory(path); m != nil || err != nil {
		t.Errorf("ReadMemory without a file = %v, %v", m, err)
	}
	m := &Memory{Clean: true, Streams: map[string]*Remembered{"a<b/c": {Last: 3}}}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadMemory(path); err != nil || got.Streams["a<b/c"].Last != 3 {
		t.Errorf("ReadMemory = %+v, %v", got, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadMemory(path); !errors.Is(err, ErrForgotten) && (err != nil || got.Streams["a<b/c"].Last != 3) {
			t.Fatalf("ReadMemory of %s = %+v, %v, want ErrForgotten", bad, got, err)
		}
	}
}

// FuzzBlock checks that holes and records together cover a block, and that only intact records are returned.
func FuzzBlock(f *testing.F) {
	b, err := os.ReadFile(blockFile(store(f, 6, 10), 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add(append(bytes.Clone(b[7:]), b...))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := newBlock(stream, 1)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		var good []byte
		all := func(*Record) error { return nil }
		holes := r.read(b, all)
		for _, h := range holes {
			if h.from < at || h.to <= h.from || h.to > len(b) {
				t.Fatalf("hole %+v behind %d of %d bytes", h, at, len(b))
			}
			good = append(good, b[at:h.from]...)
			at = h.to
		}
		good = append(good, b[at:]...)
		if again := r.read(good, all); len(again) > 0 {
			t.Fatalf("without its holes %+v the block has holes %+v", holes, again)
		}
	})
}

// FuzzDelivered checks that an accepted state of a consumer needs no more memory than its size allows.
func FuzzDelivered(f *testing.F) {
	f.Add([]byte{22, 2, 1, 1, 2, 2, 0, 0}, uint64(5))
	f.Add([]byte{22, 2, 1, 1, 2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, last uint64) {
		if s, ok := parseState(b, last, time.Now()); ok && (len(b) < 8 || len(s.pending) > len(b)) {
			t.Errorf("%v is taken for a state", b)
		}
	})
}

// TestSumNotWritten kills a server between writing the two files of a stream's configuration: that is no damage.
func TestSumNotWritten(t *testing.T) {
	dir := store(t, 6, 10)
	if err := os.Remove(streamFile(dir, metaSum)); err != nil {
		t.Fatal(err)
	}
	m := remembered(t, dir, 6, false)
	for _, aside := range []string{"", t.TempDir()} { // without and with changes
		r := examine(t, dir, Options{Memory: m, Aside: aside})
		if len(r.Findings) != 1 || r.Findings[0].Level != Unfinished {
			t.Errorf("the check finds %+v, want what was not finished", r.Findings)
		}
	}
	if r := examine(t, dir, Options{Memory: m}); len(r.Findings) > 0 {
		t.Errorf("behind that the check finds %+v", r.Findings)
	}
}

// TestNothingWritten kills a server between making a folder and writing the first file in it: that is no damage, but where the rest of a stream or of a
// consumer is there.
func TestNothingWritten(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   Level
	}{
		"a stream's folder": {func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "msgs"), 0o700), os.WriteFile(filepath.Join(dir, "msgs", "1.blk"), nil, 0o600))
		}, Unfinished},
		"a consumer's folder":             {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "obs", "new"), 0o700) }, Unfinished},
		"messages without configuration":  {func(dir string) error { return empty(dir, "meta.inf", "meta.sum", "obs") }, Made},
		"a consumer's state without more": {func(dir string) error { return empty(dir, "obs/worker/meta.inf", "obs/worker/meta.sum") }, Made},
	} {
		t.Run(name, func(t *testing.T) {
			dir := store(t, 6, 10)
			worker(t, dir)
			at := filepath.Clean(streamFile(dir, ""))
			if name == "a stream's folder" {
				at = filepath.Join(filepath.Dir(at), stream+"_NEW")
			}
			if err := c.change(at); err != nil {
				t.Fatal(err)
			}
			for _, aside := range []string{"", t.TempDir()} { // without and with changes
				r := examine(t, dir, Options{Memory: remembered(t, dir, 6, false), Aside: aside})
				if len(r.Findings) != 1 || r.Findings[0].Level != c.want {
					t.Errorf("the check finds %+v, want %s", r.Findings, c.want)
				}
			}
		})
	}
}

// empty removes files and folders of a stream.
func empty(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
