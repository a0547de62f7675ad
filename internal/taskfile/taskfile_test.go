package taskfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// names returns the files in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A sweep removes old files, and the oldest when they are too many or too large.
func TestSweep(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		folder *taskfile.Folder
		want   []string
	}{
		"old":       {&taskfile.Folder{Age: 4 * time.Hour, Most: 10}, []string{"large", "larger", "new"}},
		"many":      {&taskfile.Folder{Age: 100 * time.Hour, Most: 2}, []string{"larger", "new"}},
		"too large": {&taskfile.Folder{Age: 100 * time.Hour, Most: 10, Bytes: 1_000}, []string{"larger", "new"}},
		"enough":    {&taskfile.Folder{Age: 100 * time.Hour, Most: 4, Bytes: 1_020}, []string{"large", "larger", "new", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.folder.Dir = t.TempDir()
			label := map[string]string{}
			for name, file := range map[string]struct {
				age  time.Duration
				size int
			}{
				"old": {5 * time.Hour, 10}, "large": {3 * time.Hour, 500}, "larger": {2 * time.Hour, 500}, "new": {time.Hour, 10},
			} {
				path, at := test.folder.Path("", "context", a2a.TaskID(name)), now.Add(-file.age)
				label[filepath.Base(path)] = name
				if err := errors.Join(os.WriteFile(path, make([]byte, file.size), 0o600), os.Chtimes(path, at, at)); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.folder.Sweep(now); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range names(t, test.folder.Dir) {
				got = append(got, label[name])
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

// A sweep leaves alone what no folder has written, however old it is and however much of it there is. What older versions have written goes, as does what was
// not whole.
func TestSweepLeavesOthers(t *testing.T) {
	f, now := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 2}, time.Now()
	task := filepath.Base(f.Path("", "context", "task"))
	_, older, _ := strings.Cut(task, "-")
	ours, young := []string{task, task + ".123", older, older + ".4"}, filepath.Base(f.Path("", "context", "young"))
	others := []string{"report.json", "notes.txt", ".x.json.tmp", "q.tmp", "lock", strings.Repeat("a", 64) + ".json", task + ".bak", task + ".", "x" + task, strings.ToUpper(older), older + "\n"}
	for _, name := range slices.Concat(ours, others) {
		path, at := filepath.Join(f.Dir, name), now.Add(-1000*time.Hour)
		if err := errors.Join(os.WriteFile(path, []byte("precious"), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(f.Dir, young), nil, 0o600), f.Sweep(now)); err != nil {
		t.Fatal(err)
	}
	want := append(others, young)
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, f.Dir)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// Whoever has most makes room: one who asks very much throws away their own questions, and nobody else's, also after a restart. What names no owner, as older
// versions wrote it, counts as its conversation's.
func TestShares(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		folder *taskfile.Folder
		want   []string
	}{
		"many":       {&taskfile.Folder{Age: 100 * time.Hour, Most: 6}, []string{"alice 1", "alice 2", "bob 1", "older 1", "mallory 8", "mallory 9"}},
		"too large":  {&taskfile.Folder{Age: 100 * time.Hour, Most: 100, Bytes: 6_500}, []string{"alice 1", "alice 2", "bob 1", "older 1", "mallory 8", "mallory 9"}},
		"one of all": {&taskfile.Folder{Age: 100 * time.Hour, Most: 3}, []string{"bob 1", "older 1", "mallory 9"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.folder
			f.Dir = t.TempDir()
			names, age := map[string]string{}, 50*time.Hour
			keep := func(owner string, n int) {
				t.Helper()
				path := f.Path("", fmt.Sprint("conversation of ", owner, n), a2a.TaskID(fmt.Sprint(n)))
				of := taskfile.Owner("", owner)
				if owner == "older" {
					of = ""
				}
				if err := (&taskfile.Folder{Dir: f.Dir, Age: f.Age, Most: 100}).WriteRecord(path, of, 1_000, strings.Repeat("x", 950)); err != nil {
					t.Fatal(err)
				}
				if err := (&taskfile.Folder{Dir: f.Dir, Age: f.Age, Most: 100}).WriteRecord(path, "", 1_000, strings.Repeat("x", 950)); err != nil { // it stays whose it is
					t.Fatal(err)
				}
				age -= time.Hour
				if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
					t.Fatal(err)
				}
				names[filepath.Base(path)] = fmt.Sprint(owner, " ", n)
			}
			keep("alice", 1)
			keep("alice", 2)
			keep("bob", 1)
			keep("older", 1)
			for n := range 10 {
				keep("mallory", n)
			}
			for range 2 { // the second is by what the first has found
				if err := f.Sweep(now); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := os.ReadDir(f.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, names[e.Name()])
				var text string
				if ok, err := taskfile.ReadRecord(filepath.Join(f.Dir, e.Name()), 1_000, &text); !ok || err != nil || len(text) != 950 {
					t.Errorf("what is left is read as %d bytes, %v, %v", len(text), ok, err)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

// Writing sweeps at first, and then now and then.
func TestWriteSweeps(t *testing.T) {
	f := &taskfile.Folder{Dir: filepath.Join(t.TempDir(), "made"), Age: time.Hour, Most: 10_000}
	if err := os.Mkdir(f.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	old, was := f.Path("", "c", "old"), time.Now().Add(-2*time.Hour)
	write := func(times int) (swept bool) {
		t.Helper()
		if err := errors.Join(os.WriteFile(old, nil, 0o600), os.Chtimes(old, was, was)); err != nil {
			t.Fatal(err)
		}
		for range times {
			if err := f.Write(f.Path("", "c", "t"), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Stat(old)
		return errors.Is(err, fs.ErrNotExist)
	}
	for n, step := range []struct {
		times int
		want  bool
	}{{1, true}, {255, false}, {1, true}} {
		if got := write(step.times); got != step.want {
			t.Errorf("step %d: %d writes sweep: %v, want %v", n, step.times, got, step.want)
		}
	}
}

// Large files have a folder swept sooner.
func TestWriteSweepsLarge(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10_000, Bytes: 16_000}
	for n := range 40 {
		if err := f.Write(f.Path("", "c", a2a.TaskID(fmt.Sprint(n))), make([]byte, 1_000)); err != nil {
			t.Fatal(err)
		}
	}
	if left := len(names(t, f.Dir)); left > 18 {
		t.Errorf("%d files of 1000 bytes are left where 16 have room", left)
	}
}

// The files of a conversation are forgotten, also those that were not whole, and no other's.
func TestForget(t *testing.T) {
	f := &taskfile.Folder{Dir: filepath.Join(t.TempDir(), "made")}
	if err := taskfile.Forget(f.Dir, "", "c1"); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	gone := []string{f.Path("", "c1", "t1"), f.Path("", "c1", "t2"), f.Path("", "c1", "t2") + ".123"}
	kept := []string{f.Path("", "c2", "t1"), f.Path("acme", "c1", "t1"), f.Path("c1", "", "t1")}
	for _, path := range slices.Concat(gone, kept) {
		if err := taskfile.Write(path, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // again changes nothing
		if err := taskfile.Forget(f.Dir, "", "c1"); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, path := range kept {
		want = append(want, filepath.Base(path))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, f.Dir)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}
