package agents_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func init() {
	// files prints the files that the program finds, and leaves some.
	programs["files"] = func([]string) {
		in, out := os.Getenv("CORTEX_FILES"), os.Getenv("CORTEX_OUT")
		entries, _ := os.ReadDir(in)
		for _, e := range entries {
			b, _ := os.ReadFile(filepath.Join(in, e.Name()))
			fmt.Printf("%s %x\n", e.Name(), sha256.Sum256(b))
		}
		write := func(name string, b []byte) { os.WriteFile(filepath.Join(out, name), b, 0o600) } //nolint:errcheck // the test checks it
		write("small.txt", []byte("small"))
		write("plot.png", bytes.Repeat([]byte{0x89, 'P', 'N', 'G'}, 1<<18))
		write("no\x1b[31mcolour", nil)
		os.Mkdir(filepath.Join(out, "sub"), 0o700)                  //nolint:errcheck // the test checks it
		os.Symlink("/etc/passwd", filepath.Join(out, "passwd.txt")) //nolint:errcheck // the test checks it
		os.Mkdir(filepath.Join(in, "shut"), 0o000)                  //nolint:errcheck // the test checks it
		fmt.Print(filepath.Dir(in))
	}
	// relink replaces the folder for the program's files by a link.
	programs["relink"] = func([]string) {
		out := os.Getenv("CORTEX_OUT")
		os.Remove(out)                      //nolint:errcheck // the test checks it
		os.Symlink(os.Getenv("ASIDE"), out) //nolint:errcheck // the test checks it
		fmt.Print("done")
	}
	// replace replaces the folder above that by a link.
	programs["replace"] = func([]string) {
		out, aside := os.Getenv("CORTEX_OUT"), os.Getenv("ASIDE")
		os.Mkdir(filepath.Join(out, "own"), 0o700)                    //nolint:errcheck // the test checks it
		os.Rename(filepath.Dir(out), filepath.Join(aside, "moved"))   //nolint:errcheck // the test checks it
		os.Symlink(filepath.Join(aside, "others"), filepath.Dir(out)) //nolint:errcheck // the test checks it
		fmt.Print("done")
	}
	// litter leaves more files than collect looks at.
	programs["litter"] = func([]string) {
		for i := range litterFiles {
			os.WriteFile(filepath.Join(os.Getenv("CORTEX_OUT"), fmt.Sprintf("f-%05d.txt", i)), nil, 0o600) //nolint:errcheck // the test checks it
		}
		fmt.Print("done")
	}
	programs["heavy"] = func([]string) {
		out := os.Getenv("CORTEX_OUT")
		heavy := filepath.Join(out, "heavy.bin")
		os.WriteFile(heavy, nil, 0o600)                                       //nolint:errcheck // the test checks it
		os.Truncate(heavy, transport.DefaultMaxFile+1)                        //nolint:errcheck // the test checks it
		os.WriteFile(filepath.Join(out, "light.txt"), []byte("light"), 0o600) //nolint:errcheck // the test checks it
		fmt.Print("done")
	}
}

const litterFiles = 10_500

// brought returns a task with files, two of which have the same name and one a dangerous one.
func brought() (*agents.Task, []*a2a.Part) {
	large := bytes.Repeat([]byte("report"), 50_000)
	files := []*a2a.Part{
		{Content: a2a.Raw(large), Filename: "../../report.pdf", MediaType: "application/pdf"},
		{Content: a2a.Raw("two"), Filename: "REPORT.pdf"},
		{Content: a2a.Raw("three")},
	}
	m := message("look at it")
	m.Parts = append(m.Parts, files...)
	return &agents.Task{ID: "t1", ContextID: "ctx", Message: m}, files
}

// TestExecFiles has a program find the files of its task under safe names, and return the files that it leaves, but none that it only links to.
// The folder is removed.
func TestExecFiles(t *testing.T) {
	t.Parallel()
	task, files := brought()
	got, err := run(t, program(t, "files", agents.ExecOptions{}), task)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	sum := func(i int) string { return fmt.Sprintf("%x", sha256.Sum256(files[i].Content.(a2a.Raw))) }
	want := []string{"REPORT-2.pdf " + sum(1), "file-3.txt " + sum(2), "report.pdf " + sum(0)}
	if d := cmp.Diff(want, lines[:3]); d != "" {
		t.Errorf("the program found (-want +got):\n%s", d)
	}
	if notes := strings.Join(lines[4:], " "); !strings.Contains(notes, "[passwd.txt: left out") || !strings.Contains(notes, "[sub: left out") {
		t.Errorf("the result says %q of what is no file", notes)
	}
	if _, err := os.Stat(lines[3]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the task is still there: %v", err)
	}
}

// TestExecLeavesMany has a program leave more files than a result can have: the first are in it, some are named, and the others are counted.
func TestExecLeavesMany(t *testing.T) {
	t.Parallel()
	task := &agents.Task{ID: "t1", Message: message("work")}
	got, err := run(t, program(t, "litter", agents.ExecOptions{}), task)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	if len(lines) != 12 {
		t.Fatalf("the result has %d lines: %.1000s", len(lines), got)
	}
	first := fmt.Sprintf("[f-%05d.txt: left out, a result has at most 64 files", transport.MaxFiles)
	last := fmt.Sprintf("[and %d more: left out]", litterFiles-transport.MaxFiles-10)
	if lines[0] != "done" || !strings.HasPrefix(lines[1], first) || lines[11] != last {
		t.Errorf("the result says %q, want %q first and %q last", lines, first, last)
	}
}

// TestExecLeavesTooLarge has a program leave a file that is larger than a file may be: the result says so, and has the text.
func TestExecLeavesTooLarge(t *testing.T) {
	t.Parallel()
	task := &agents.Task{ID: "t1", Message: message("work")}
	got, err := run(t, program(t, "heavy", agents.ExecOptions{}), task)
	want := fmt.Sprintf("done\n[heavy.bin: left out, a file has at most %d bytes]", transport.DefaultMaxFile)
	if err != nil || got != want {
		t.Errorf("the result is %q, %v, want %q", got, err, want)
	}
}

// TestExecOutIsALink has a program replace its folder by a link: files behind the link are not taken.
func TestExecOutIsALink(t *testing.T) {
	aside := t.TempDir()
	if err := os.WriteFile(filepath.Join(aside, "secret.txt"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASIDE", aside)
	got, err := run(t, program(t, "relink", agents.ExecOptions{}), &agents.Task{ID: "t1", Message: message("work")})
	if want := "done\n[CORTEX_OUT is no folder any more: nothing was taken from it]"; err != nil || got != want {
		t.Errorf("the result is %q, %v, want %q", got, err, want)
	}
}

// TestExecFolderIsALink has a program replace the folder that contains CORTEX_OUT by a link: its files are taken from where that folder was
// moved, and none from behind the link. Both are removed.
func TestExecFolderIsALink(t *testing.T) {
	aside := t.TempDir()
	theirs := filepath.Join(aside, "others", "out", "theirs")
	if err := os.MkdirAll(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASIDE", aside)
	t.Setenv("TMPDIR", t.TempDir())
	got, err := run(t, program(t, "replace", agents.ExecOptions{}), &agents.Task{ID: "t1", Message: message("work")})
	if want := "done\n[own: left out, it is no file]"; err != nil || got != want {
		t.Errorf("the result is %q, %v, want %q", got, err, want)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("what the link leads to: %v, want it as it was", err)
	}
	for _, dir := range []string{os.Getenv("TMPDIR"), filepath.Join(aside, "moved")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s has %v, %v, want nothing", dir, left, err)
		}
	}
}

// TestLeftFolders checks that a starting agent removes what a killed one has left long ago, and nothing else.
func TestLeftFolders(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // for Windows
	old, now := filepath.Join(dir, "cortex-task-1"), filepath.Join(dir, "cortex-task-2")
	for _, d := range []string{old, now, filepath.Join(dir, "others")} {
		if err := os.MkdirAll(filepath.Join(d, "out"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-30 * 24 * time.Hour)
	for _, d := range []string{old, filepath.Join(dir, "others")} {
		if err := os.Chtimes(d, long, long); err != nil {
			t.Fatal(err)
		}
	}
	program(t, "cat", agents.ExecOptions{})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != "cortex-task-2" || entries[1].Name() != "others" {
		t.Errorf("%v is left, %v, want the new one and what is somebody else's", entries, err)
	}
}

// TestFilesOfAnAgent has an agent get files from a message and from the store, and return some, all unchanged.
func TestFilesOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		task, files := brought()
		packed, err := transport.PackFiles(t.Context(), b.bus, "", "ctx", "user", task.Message.Parts, nil)
		if err != nil || !transport.IsFileRef(packed[1]) {
			t.Fatalf("PackFiles = %v, %v", packed, err)
		}
		var got [][]byte
		h := func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			for _, f := range t.Files() {
				r, err := f.Open(ctx)
				if err != nil {
					return nil, err
				}
				all, err := io.ReadAll(r)
				if err != nil {
					return nil, err
				}
				got = append(got, all)
			}
			if _, err := t.Files()[0].Bytes(ctx, 10); !errors.Is(err, transport.ErrTooLarge) {
				return nil, fmt.Errorf("Bytes with a limit: %w", err)
			}
			if err := t.AddFile(ctx, "big.bin", "", io.LimitReader(zeros{}, 5<<20+1)); !errors.Is(err, transport.ErrTooLarge) {
				return nil, fmt.Errorf("AddFile of too much: %w", err)
			}
			if err := t.AddFile(ctx, "big.bin", "", io.LimitReader(zeros{}, 5<<20)); err != nil {
				return nil, err
			}
			if err := t.Artifact("raw", &a2a.Part{Content: a2a.Raw(make([]byte, 3<<20)), Filename: "raw.png"}); err != nil {
				return nil, err
			}
			return &agents.Result{Parts: a2a.ContentParts{{Content: a2a.Raw(make([]byte, 200<<10)), MediaType: "image/gif"}}}, t.AddFile(ctx, "a.txt", "", strings.NewReader("a"))
		}
		stop := b.serve(h, &agents.Options{MaxFile: 5 << 20})
		e := &transport.Event{
			ID: "e1", From: transport.Cortex, ContextID: "ctx", TaskID: "t1",
			Payload: &a2a.Message{ID: "m1", TaskID: "t1", Role: a2a.MessageRoleUser, Parts: packed},
		}
		if err := b.bus.Publish(t.Context(), transport.Inbox("", "agent_x"), e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, f := range files {
			if i >= len(got) || !bytes.Equal(got[i], f.Content.(a2a.Raw)) {
				t.Errorf("file %d is not what was sent", i)
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		result := b.results[0].Payload.(*a2a.Task)
		if result.Status.State != a2a.TaskStateCompleted {
			t.Fatalf("the task is %s: %s", result.Status.State, transport.Text(result.Status.Message.Parts))
		}
		var is []string
		for _, a := range append(result.Artifacts, &a2a.Artifact{Parts: result.Status.Message.Parts}) {
			for _, p := range a.Parts {
				name, kind, size, _ := transport.FileOf(p)
				all, err := transport.ReadPart(t.Context(), b.bus, "", p, 1<<30)
				is = append(is, fmt.Sprint(name, " ", kind, " ", size == int64(len(all)), " ", transport.IsFileRef(p), " ", err))
			}
		}
		want := []string{
			"big.bin application/octet-stream true true <nil>", "raw.png image/png true true <nil>", "a.txt text/plain true false <nil>",
			" image/gif true true <nil>",
		}
		if d := cmp.Diff(want, is); d != "" {
			t.Errorf("the files of the result differ (-want +got):\n%s", d)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestFileThatIsGone checks that a task with a missing file fails with a text that names the file.
func TestFileThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ref, err := transport.PutFile(t.Context(), b.bus, "", "ctx", "user", strings.NewReader("words"), 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.bus.RemoveObject(t.Context(), ref.Object); err != nil {
			t.Fatal(err)
		}
		b.serve(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			_, err := t.Files()[0].Bytes(ctx, 100)
			return nil, err
		}, nil)
		e := &transport.Event{ID: "e1", From: transport.Cortex, ContextID: "ctx", TaskID: "t1", Payload: &a2a.Message{
			ID: "m1", TaskID: "t1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{ref.Part("a.txt", "")},
		}}
		if err := b.bus.Publish(t.Context(), transport.Inbox("", "agent_x"), e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		result := b.results[0].Payload.(*a2a.Task)
		if text := transport.Text(result.Status.Message.Parts); result.Status.State != a2a.TaskStateFailed || text != "a.txt: the file is gone" {
			t.Errorf("the task is %s: %q", result.Status.State, text)
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestExecFileURL has a program that reads the whole task find a large file by its URL, and a small one in the task; it sees no key.
func TestExecFileURL(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	results := make(chan *a2a.Task, 1)
	s, err := bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context(), func(_ context.Context, e *transport.Event) error {
		if r, ok := e.Payload.(*a2a.Task); ok {
			results <- r
		}
		return nil
	})
	go agents.Serve(t.Context(), bus.Dial(), card(), program(t, "cat", agents.ExecOptions{JSON: true}), nil)
	ref, err := transport.PutFile(t.Context(), bus, "", "ctx", "user", bytes.NewReader(make([]byte, 1<<20)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	e := task("t", "work", nil)
	m := e.Payload.(*a2a.Message)
	m.Parts = append(m.Parts, ref.Part("b c.pdf", "application/pdf"), &a2a.Part{Content: a2a.Raw("small"), Filename: "a"})
	if err := bus.Publish(t.Context(), transport.Inbox("", "agent_x"), e); err != nil {
		t.Fatal(err)
	}
	text := transport.Text((<-results).Status.Message.Parts)
	for _, want := range []string{`"url":"file:///`, `/files/b%20c.pdf"`, `"raw":"c21hbGw="`} {
		if !strings.Contains(text, want) {
			t.Errorf("the program reads %s, want %s in it", text, want)
		}
	}
	if strings.Contains(text, "file_key") {
		t.Errorf("the program is told a key: %s", text)
	}
}

// TestExecWithoutFolder checks that a program does its tasks where no temporary folder can be made, except those with files, whose
// senders are not told how folders are named there.
func TestExecWithoutFolder(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("TMPDIR", nowhere)
	t.Setenv("TMP", nowhere) // for Windows
	h := program(t, "cat", agents.ExecOptions{})
	if got, err := run(t, h, &agents.Task{Message: message("hello")}); err != nil || got != "hello" {
		t.Errorf("a task without files: %q, %v, want hello", got, err)
	}
	m := message("hello")
	m.Parts = append(m.Parts, &a2a.Part{Content: a2a.Raw("x"), Filename: "x"})
	if got, err := run(t, h, &agents.Task{Message: m}); err == nil || !strings.Contains(err.Error(), "no folder for the files of the task") ||
		strings.Contains(err.Error(), nowhere) {
		t.Errorf("a task with a file: %q, %v, want that there is no folder, and not where", got, err)
	}
}
