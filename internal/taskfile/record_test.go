package taskfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
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
	if err := f.WriteRecord(path, "", 100, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteRecord(path, "", 100, strings.Repeat("x", 100)); err == nil || !strings.Contains(err.Error(), "it has 102 bytes: at most 100 are allowed") {
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
	err := f.WriteRecord(f.Path("", "context", "task"), "", 100, "hello")
	if err == nil || !strings.HasPrefix(err.Error(), "what is asked cannot be kept: ") || strings.Contains(err.Error(), file) {
		t.Errorf("WriteRecord() = %v, want an error without a path", err)
	}
	err = f.Mark(f.Path("", "context", "task"), "")
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
	for _, owner := range []string{"", taskfile.Owner("", "alice")} {
		damagedRecord(t, owner)
	}
}

func damagedRecord(t *testing.T, owner string) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	path := f.Path("", "context", "task")
	want := map[string]string{"state": "done", "text": "two\nlines"}
	if err := f.WriteRecord(path, owner, 100, want); err != nil {
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

// A record that was copied over that of another task is not taken for it: it would go on with the words of another conversation.
func TestRecordOfAnother(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	one, other := f.Path("", "c1", "t1"), f.Path("", "c2", "t2")
	if err := errors.Join(f.WriteRecord(one, "", 100, "of one"), f.WriteRecord(other, "", 100, "of other")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(one)
	if err == nil {
		err = os.WriteFile(other, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if _, err := taskfile.ReadRecord(other, 100, &got); err == nil || !strings.Contains(err.Error(), "its record is damaged") {
		t.Errorf("a record of another task is read as %q, %v", got, err)
	}
	// The checksum of an older version covers the text alone.
	if err := os.WriteFile(other, fmt.Appendf(nil, "%s\n%08x\n", `"older"`, crc32.Checksum([]byte(`"older"`), crc32.MakeTable(crc32.Castagnoli))), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := taskfile.ReadRecord(other, 100, &got); !ok || err != nil || got != "older" {
		t.Errorf("a record of an older version is read as %v, %v, %q", ok, err, got)
	}
}

// Who reads why a record cannot be read is not told how folders are named on the agent's machine.
func TestRecordNotRead(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	path := f.Path("", "context", "task")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	var got string
	_, err := taskfile.ReadRecord(path, 100, &got)
	if err == nil || err.Error() != "what was asked before cannot be read: its record is a folder, not a file" {
		t.Errorf("ReadRecord() = %v, want an error without a path", err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 200), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := taskfile.ReadRecord(path, 100, &got); err == nil || strings.Contains(err.Error(), f.Dir) {
		t.Errorf("ReadRecord() = %v, want an error without a path", err)
	}
}
