package taskfile_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// A record is read as it was written; one that would be too large to be read is not written, and a damaged one is an error.
func TestRecord(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	path := f.Path("", "context", "task")
	var got string
	if ok, err := taskfile.ReadRecord(path, 100, &got); ok || err != nil {
		t.Errorf("a record that is not there: %v, %v", ok, err)
	}
	if err := f.WriteRecord(path, 100, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteRecord(path, 100, strings.Repeat("x", 100)); err == nil || !strings.Contains(err.Error(), "it has 102 bytes: at most 100 are allowed") {
		t.Errorf("a large record is written: %v", err)
	}
	if ok, err := taskfile.ReadRecord(path, 100, &got); !ok || err != nil || got != "hello" {
		t.Errorf("ReadRecord() = %v, %v, %q", ok, err, got)
	}
	var number int
	if ok, err := taskfile.ReadRecord(path, 100, &number); ok || err == nil {
		t.Errorf("a record of another form: %v, %v", ok, err)
	}
}

// Who reads why a record was not written is not told how folders are named on the agent's machine.
func TestRecordNotWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &taskfile.Folder{Dir: filepath.Join(file, "tasks"), Age: time.Hour, Most: 10}
	err := f.WriteRecord(f.Path("", "context", "task"), 100, "hello")
	if err == nil || !strings.HasPrefix(err.Error(), "what is asked cannot be kept: ") || strings.Contains(err.Error(), file) {
		t.Errorf("WriteRecord() = %v, want an error without a path", err)
	}
	err = f.Mark(f.Path("", "context", "task"))
	if err == nil || !strings.HasPrefix(err.Error(), "what is asked cannot be kept: ") || strings.Contains(err.Error(), file) {
		t.Errorf("Mark() = %v, want an error without a path", err)
	}
}

// A folder belongs to one owner until it is released.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	of := &taskfile.Folder{Dir: filepath.Join(dir, "tasks"), Age: time.Hour, Most: 10}
	lock, err := taskfile.Claim(dir, time.Now(), of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := taskfile.Claim(dir, time.Now(), of); !isTaken(err) {
		t.Errorf("a folder that is taken: %v", err)
	}
	for range 2 {
		if err := taskfile.Release(lock); err != nil {
			t.Error(err)
		}
	}
	if lock, err = taskfile.Claim(dir, time.Now(), of); err != nil {
		t.Fatal(err)
	}
	if err := taskfile.Release(lock); err != nil {
		t.Error(err)
	}
}

// Whatever bit of a record is flipped, and wherever it ends, it is not taken for another one. A record of an older version has no checksum.
func TestDamagedRecord(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	path := f.Path("", "context", "task")
	want := map[string]string{"state": "done", "text": "two\nlines"}
	if err := f.WriteRecord(path, 100, want); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) (map[string]string, error) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		_, err := taskfile.ReadRecord(path, 100, &got)
		return got, err
	}
	for bit := range 8 * len(b) {
		damaged := bytes.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		if got, err := read(damaged); err == nil || !strings.Contains(err.Error(), "its record is damaged") {
			t.Errorf("with bit %d flipped, %q is read as %v, %v", bit, damaged, got, err)
		}
	}
	for n := range b {
		if got, err := read(b[:n]); err == nil && !maps.Equal(got, want) {
			t.Errorf("%q is read as %v", b[:n], got)
		}
	}
	if got, err := read([]byte(`{"state":"done","text":"two\nlines"}`)); err != nil || !maps.Equal(got, want) {
		t.Errorf("a record of an older version is read as %v, %v", got, err)
	}
}
