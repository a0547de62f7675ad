package storecheck

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func streamFile(dir, file string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", stream, filepath.FromSlash(file))
}

// check2 checks a store like a start, and checks that a second start finds nothing more.
func check2(t *testing.T, dir string, m *Memory) *Report {
	t.Helper()
	r := examine(t, dir, Options{Memory: m, Aside: filepath.Join(dir, "damaged", "1")})
	if again := examine(t, dir, Options{Memory: r.Memory, Aside: filepath.Join(dir, "damaged", "2")}); len(again.Findings) > 0 {
		t.Errorf("a second check finds %+v", again.Findings)
	}
	return r
}

// worker makes a consumer of the stream.
func worker(t *testing.T, dir string) {
	t.Helper()
	js, stop := serve(t, dir)
	defer stop()
	if _, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "worker"}); err != nil {
		t.Fatal(err)
	}
}

// TestStrays adds files to the stream's folder that a server uses but no server of Cortex writes; most of them make it silently delete the stream.
// They are set aside, and the server has all messages.
func TestStrays(t *testing.T) {
	empty := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	folder := func(path string) error {
		return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "1.blk"), nil, 0o600))
	}
	for name, c := range map[string]struct {
		file  string
		put   func(string) error
		level Level
	}{
		"key":                  {"meta.key", empty, Made},
		"purge, a file":        {"__new_msgs__", empty, Lost},
		"purge, a folder":      {"__new_msgs__", folder, Lost},
		"purged":               {"__msgs__", folder, Lost},
		"consumer's key":       {"obs/worker/meta.key", empty, Made},
		"index of a block":     {"msgs/1.idx", empty, Made},
		"key of a block":       {"msgs/1.key", empty, Made},
		"other name of blocks": {"msgs/01.blk", empty, Made},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				from, dir := store(t, 6, 10), t.TempDir()
				worker(t, from)
				if err := os.CopyFS(dir, os.DirFS(from)); err != nil { // a server that has ended may still remove indices of old versions
					t.Fatal(err)
				}
				m := remembered(t, dir, 6, clean)
				if err := c.put(streamFile(dir, c.file)); err != nil {
					t.Fatal(err)
				}
				r := check2(t, dir, m)
				if len(r.Findings) != 1 || r.Findings[0].Level != c.level || r.Findings[0].File != c.file {
					t.Errorf("the check finds %+v, want %s: %s", r.Findings, c.file, c.level)
				}
				if r.Memory.Streams["$G/"+stream].Last != 6 || len(r.Open) != 1 {
					t.Errorf("remembered is %+v, to be opened %v", r.Memory.Streams["$G/"+stream], r.Open)
				}
				if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 || got.Consumers != 1 {
					t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
				}
			})
		}
	}
}

// TestEncrypted has a stream that a foreign server has encrypted: the check does not touch it.
func TestEncrypted(t *testing.T) {
	dir := store(t, 6, 10)
	conf := []byte("\x01\x02\x03")
	h, err := newHash(stream)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = h.Write(conf)
	sum := h.Sum(nil)
	if err := errors.Join(
		os.WriteFile(streamFile(dir, "meta.inf"), conf, 0o600), os.WriteFile(streamFile(dir, "meta.key"), make([]byte, 64), 0o600),
		os.WriteFile(streamFile(dir, "meta.sum"), []byte(hex.EncodeToString(sum)), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), dir, Options{Memory: remembered(t, dir, 6, false), Aside: t.TempDir()}); !errors.Is(err, errEncrypted) {
		t.Errorf("Check = %v, want %v", err, errEncrypted)
	}
}

// TestCompressedMark damages the first bytes of a block so that it seems to be compressed: the check still reads it.
func TestCompressedMark(t *testing.T) {
	dir := store(t, 6, 10)
	m := remembered(t, dir, 6, true)
	b, err := os.ReadFile(blockFile(dir, 1))
	if err == nil {
		copy(b, "cmp\x01")
		err = os.WriteFile(blockFile(dir, 1), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := check2(t, dir, m); len(r.Findings) != 1 || r.Findings[0].Level != Lost {
		t.Errorf("the check finds %+v, want that the first message is lost", r.Findings)
	}
	if got := state(t, dir); got.Msgs != 3 || got.LastSeq != 6 {
		t.Errorf("the server has %+v, want messages 4, 5 and 6", got)
	}
}

// TestLargeIndex has an index that is larger than the machine's memory, which the server would read entirely, and a truncated one. They are
// removed.
func TestLargeIndex(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, size := range []int64{200 << 30, 40} {
			dir := store(t, 6, 10)
			m := remembered(t, dir, 6, clean)
			if err := os.Truncate(streamFile(dir, "msgs/index.db"), size); err != nil {
				t.Fatal(err)
			}
			if r := check2(t, dir, m); len(r.Findings) != 1 || r.Findings[0].File != "msgs/index.db" {
				t.Errorf("the check finds %+v, want the index", r.Findings)
			}
			if _, err := os.Stat(streamFile(dir, "msgs/index.db")); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("the index is there: %v", err)
			}
			if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 {
				t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
			}
		}
	}
}

// TestTwice has a block whose records are all there twice, as after a repeated copy: the second ones are cut off.
func TestTwice(t *testing.T) {
	for _, clean := range []bool{true, false} {
		dir := store(t, 6, 10)
		m := remembered(t, dir, 6, clean)
		b, err := os.ReadFile(blockFile(dir, 1))
		if err == nil {
			err = os.WriteFile(blockFile(dir, 1), append(bytes.Clone(b), b...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		o := Options{Memory: m, Inspect: func(string, string, uint64) func(*Record) {
			return func(r *Record) {
				if !r.tombstone {
					seen++
				}
			}
		}}
		if r := examine(t, dir, o); len(r.Findings) != 1 || seen != 6 {
			t.Errorf("the check finds %+v, and %d messages, want one thing, and 6", r.Findings, seen)
		}
		r := check2(t, dir, m)
		if len(r.Findings) != 1 || r.Findings[0].Level != Made || !strings.Contains(r.Findings[0].What, "there twice") {
			t.Errorf("the check finds %+v, want that messages are there twice", r.Findings)
		}
		if b, err := os.ReadFile(blockFile(dir, 1)); err != nil || bytes.Count(b, []byte("test.4")) != 1 {
			t.Errorf("block = %q, %v, want message 4 once", b, err)
		}
		if got := state(t, dir); got.Msgs != 4 || got.LastSeq != 6 {
			t.Errorf("the server has %+v, want messages 1, 4, 5 and 6", got)
		}
	}
}

// TestRollback replaces a stream by an intact earlier state: the check must not take that for the work of another server.
func TestRollback(t *testing.T) {
	dir := store(t, 6, 10)
	old := t.TempDir()
	if err := os.CopyFS(old, os.DirFS(streamFile(dir, ""))); err != nil {
		t.Fatal(err)
	}
	js, stop := serve(t, dir)
	for range 3 {
		if _, err := js.Publish(t.Context(), "test.new", []byte("words")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	m := remembered(t, dir, 9, true)
	if err := errors.Join(os.RemoveAll(streamFile(dir, "")), os.CopyFS(streamFile(dir, ""), os.DirFS(old))); err != nil {
		t.Fatal(err)
	}
	r := check2(t, dir, m)
	lost := false
	for _, f := range r.Findings {
		lost = lost || f.Level == Lost && f.What == "messages 7 to 9 are gone"
	}
	if !lost {
		t.Errorf("the check finds %+v, want that messages 7 to 9 are lost", r.Findings)
	}
	if got := state(t, dir); got.LastSeq != 10 {
		t.Errorf("the server has %+v, want that it goes on behind what is gone", got)
	}
}

// TestNoted ends the process while it sets damaged files aside: the findings were noted before, and the next check knows them.
func TestNoted(t *testing.T) {
	for name, damage := range map[string]struct {
		change func([]byte) []byte
		level  Level
	}{
		"lost":   {func(b []byte) []byte { b[bytes.Index(b, []byte("test.4"))] ^= 1; return b }, Lost},
		"recent": {func(b []byte) []byte { b[bytes.Index(b, []byte("test.6"))] ^= 1; return b[:len(b)-2*emptyRecord] }, Recent},
	} {
		t.Run(name, func(t *testing.T) {
			dir := store(t, 6, 10)
			m := remembered(t, dir, 5, false)
			m.Streams["$G/"+stream].Durable = 1
			b, err := os.ReadFile(blockFile(dir, 1))
			if err == nil {
				b = damage.change(b)
				err = os.WriteFile(blockFile(dir, 1), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Memory: m, Aside: filepath.Join(dir, "damaged"), Note: func(noted *Memory) error {
				if now, err := os.ReadFile(blockFile(dir, 1)); err != nil || !bytes.Equal(now, b) {
					t.Errorf("the block was changed before that was written down: %v", err)
				}
				m = noted
				return nil
			}}
			before := len(examine(t, dir, o).Findings)
			after := examine(t, dir, Options{Memory: m, Aside: filepath.Join(dir, "again")}) // as if the process had ended here
			known := false
			for _, f := range after.Memory.Found {
				known = known || f.Level == damage.level
			}
			if before == 0 || !known {
				t.Errorf("%d findings, the next check knows %+v, want what is %s", before, after.Memory.Found, damage.level)
			}
			failing := Options{Memory: m, Aside: filepath.Join(dir, "third"), Note: func(*Memory) error { return errors.New("disk full") }}
			if err := os.WriteFile(blockFile(dir, 1), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(t.Context(), dir, failing); err == nil || !strings.Contains(err.Error(), "cannot be written down") {
				t.Errorf("Check = %v, want that it cannot be written down", err)
			}
			if now, err := os.ReadFile(blockFile(dir, 1)); err != nil || !bytes.Equal(now, b) {
				t.Errorf("the block was changed though that was not written down: %v", err)
			}
		})
	}
}

// TestLinks has a folder of the store elsewhere, as on another disk: it is checked like any other. A linked file would be replaced by a regular
// one: that is an error, but no damage.
func TestLinks(t *testing.T) {
	for _, folder := range []string{"", "msgs", "obs"} {
		dir := store(t, 6, 10)
		worker(t, dir)
		to := filepath.Join(t.TempDir(), "elsewhere")
		if err := errors.Join(os.Rename(streamFile(dir, folder), to), os.Symlink(to, streamFile(dir, folder))); err != nil {
			t.Fatal(err)
		}
		m := remembered(t, dir, 6, true)
		if r := examine(t, dir, Options{Memory: m, Aside: t.TempDir()}); len(r.Findings) > 0 {
			t.Errorf("with %q elsewhere the check finds %+v, want nothing", folder, r.Findings)
		}
		if err := os.Remove(blockFile(dir, 1)); err != nil {
			t.Fatal(err)
		}
		if r := examine(t, dir, Options{Memory: m}); len(r.Findings) == 0 || r.Findings[0].Level != Lost {
			t.Errorf("with %q elsewhere and without a block the check finds %+v, want that it is lost", folder, r.Findings)
		}
	}
	dir := store(t, 6, 10)
	m := remembered(t, dir, 6, true)
	to := filepath.Join(t.TempDir(), "1.blk")
	if err := errors.Join(os.Rename(blockFile(dir, 1), to), os.Symlink(to, blockFile(dir, 1))); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(dir, "damaged")
	_, err := Check(t.Context(), dir, Options{Memory: m, Aside: aside})
	if _, serr := os.Stat(aside); !errors.Is(err, errLink) || !errors.Is(serr, os.ErrNotExist) {
		t.Errorf("Check of a block that is a link = %v, want %v, and that nothing is put aside", err, errLink)
	}
}

// TestConvenience makes setting files aside fail. Damaged files that Cortex can do without are removed all the same; nothing else is touched.
func TestConvenience(t *testing.T) {
	for _, name := range []string{"KV_CORTEX_TEST", stream} {
		dir := t.TempDir()
		js, stop := serve(t, dir)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"test.>"}, Storage: jetstream.FileStorage}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := js.Publish(t.Context(), "test.new", []byte("words")); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		path := filepath.Join(dir, "jetstream", "$G", "streams", name, "msgs", "1.blk")
		b, err := os.ReadFile(path)
		if err == nil {
			b[bytes.Index(b, []byte("words"))] ^= 1
			err = os.WriteFile(path, b, 0o600)
		}
		aside := filepath.Join(dir, "damaged")
		if err = errors.Join(err, os.WriteFile(aside, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err = Check(t.Context(), dir, Options{Aside: filepath.Join(aside, "now")})
		now, rerr := os.ReadFile(path)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if Convenient(name) != (err == nil) || Convenient(name) == bytes.Equal(now, b) {
			t.Errorf("Check of %s = %v, and the block is as it was: %t", name, err, bytes.Equal(now, b))
		}
	}
}

// TestNoFolder has a file in place of the store's folder, or of its folder jetstream: that is no empty store.
func TestNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	for _, path := range []string{dir, filepath.Join(dir, "jetstream")} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(t.Context(), dir, Options{}); !errors.Is(err, errNoFolder) {
			t.Errorf("Check with a file at %s = %v, want %v", path, err, errNoFolder)
		}
	}
}
