package taskfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestWritingDoesNotWaitForSweep has a sweep go on, as one that reads the owners of 10,000 files: other files are written meanwhile, also those that would have
// the folder swept, which the next one then does.
func TestWritingDoesNotWaitForSweep(t *testing.T) {
	f := &Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	f.sweeps.Lock()
	written := make(chan error, 1)
	go func() { written <- f.Write(filepath.Join(f.Dir, "a"), []byte("x")) }() // the first one is due
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the sweep")
	}
	f.sweeps.Unlock()
	old, was := f.Path("", "c", "old"), time.Now().Add(-2*time.Hour)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.Chtimes(old, was, was), f.Write(filepath.Join(f.Dir, "b"), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sweep that was due is forgotten: %v", err)
	}
}

// TestSweepSays has files of tasks that are not done be too old, as when the clock is set forward, and too many: how many, and what becomes of them, is said
// once for each sweep. Of others nothing is.
func TestSweepSays(t *testing.T) {
	now := time.Now()
	var said []string
	open := map[string]bool{} // files of tasks
	f := &Folder{
		Dir: t.TempDir(), Age: time.Hour, Most: 1, Then: "ask again", Open: func(path string) bool { return open[path] },
		Warn: func(text string, attrs ...any) { said = append(said, fmt.Sprint(text, attrs)) },
	}
	for _, step := range []struct {
		files []string
		now   time.Time
		want  string
	}{
		{[]string{"open 1"}, now, ""},
		{[]string{"open 2", "open 3", "done 1"}, now, "there are too many[tasks 3 "},
		{[]string{"done 2"}, now.Add(2 * time.Hour), ""},
		{[]string{"open 4"}, now.Add(2 * time.Hour), "see whether the clock of this machine was set forward[tasks 1 older 1h0m0s "},
		{nil, now.Add(2 * time.Hour), ""},
	} {
		said = nil
		for i, name := range step.files {
			path, at := f.Path("", "c", a2a.TaskID(name)), now.Add(time.Duration(i)*time.Second)
			open[path] = strings.HasPrefix(name, "open")
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Sweep(step.now); err != nil {
			t.Fatal(err)
		}
		switch {
		case step.want == "" && len(said) > 0, step.want != "" && (len(said) != 1 || !strings.Contains(said[0], step.want) || !strings.Contains(said[0], "then ask again")):
			t.Errorf("with %q, %q is said, want %q", step.files, said, step.want)
		}
	}
}

// TestFailedSweep has a sweep fail: what was written is there, and it is said once until a sweep works again.
func TestFailedSweep(t *testing.T) {
	dir, said := t.TempDir(), 0
	f := &Folder{Dir: filepath.Join(dir, "sweeps"), Age: time.Hour, Most: 10, Warn: func(string, ...any) { said++ }}
	path := filepath.Join(dir, "written")
	for n, want := range []int{1, 1, 1, 2} {
		if n == 2 {
			if err := os.Mkdir(f.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(f.Dir); err != nil {
			t.Fatal(err)
		}
		f.swept = time.Time{}
		if err := f.WriteRecord(path, "", 100, n); err != nil {
			t.Errorf("the write fails with the sweep: %v", err)
		}
		var got int
		if ok, err := ReadRecord(path, 100, &got); !ok || err != nil || got != n || said != want {
			t.Errorf("%d is read, %v, %v, and said %d times, want %d and %d times", got, ok, err, said, n, want)
		}
	}
}
