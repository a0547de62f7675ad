package storecheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestSubjectLength damages the length of a subject, which no checksum covers, in a record without a header: what cannot be a subject of the stream is cut out.
func TestSubjectLength(t *testing.T) {
	const name = "CORTEX_TEST"
	dir := t.TempDir()
	js, stop := serve(t, dir)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"file.*.*"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	const subject = "file.ab.0"
	if _, err := js.Publish(t.Context(), subject, []byte("\x01.2"+strings.Repeat("data", 20))); err != nil {
		t.Fatal(err)
	}
	stop()
	finds := func(length int, b []byte) (all []Finding, is bool) {
		t.Helper()
		b = append([]byte{}, b...)
		b[20] = byte(length)
		if err := os.WriteFile(blockFile(dir, 1), b, 0o600); err != nil {
			t.Fatal(err)
		}
		all = examine(t, dir, Options{Memory: remembered(t, dir, 1, false)}).Findings
		return all, slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Lost && strings.HasSuffix(f.What, errSubject.Error()) })
	}
	was, err := os.ReadFile(blockFile(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	for length := range 40 {
		switch all, is := finds(length, was); {
		case length == len(subject) && len(all) > 0:
			t.Errorf("undamaged, the check finds %+v", all)
		case length != len(subject) && !is:
			t.Errorf("with a subject of %d bytes, the check finds %+v, want %q", length, all, errSubject)
		}
	}
	if err := os.Remove(filepath.Join(filepath.Dir(blockFile(dir, 1)), "..", metaFile)); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{len("file."), len(subject) + 1} { // no subject at all
		if all, is := finds(length, was); !is {
			t.Errorf("with a subject of %d bytes and no configuration, the check finds %+v, want %q", length, all, errSubject)
		}
	}
}
