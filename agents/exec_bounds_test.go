package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
	membus "github.com/cortex-orchestrator/cortex/transport/memory"
)

// talkOf is a talk with a program that has written so many lines of progress about the task t, and its result.
func talkOf(t *testing.T, progress int) *talk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "written")
	written := strings.Repeat(`{"type":"progress","id":"t","text":"on"}`+"\n", progress) + `{"type":"result","id":"t","text":"done"}` + "\n"
	if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &talk{
		Program: &process.Program{Ended: make(chan struct{})}, name: "it", out: &heard{File: f}, outbox: make(chan []byte, 16),
		gone: make(chan struct{}), dialogs: map[string]*dialog{}, late: map[string]bool{}, over: make(chan struct{}),
	}
}

// How many lines a program writes about a task is bounded, and how fast they are read; what is left when it has ended is read at once.
func TestLinesOfATaskAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		progress int
		ended    bool
		want     string
		takes    time.Duration
	}{
		"a burst":       {2*jsonl.MaxRate - 1, false, "done", 0},
		"fast":          {6*jsonl.MaxRate - 1, false, "done", 4 * time.Second},
		"fast, and end": {6*jsonl.MaxRate - 1, true, "done", 0},
		"many":          {jsonl.MaxLines, true, "done", 0},
		"too many":      {jsonl.MaxLines + 1, true, "it wrote more than 100000 lines about this task", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := talkOf(t, test.progress)
				if test.ended {
					close(k.Ended)
				}
				d := &dialog{k: k, t: &Task{ID: "t"}, id: "t", notes: openQuestions("", func(string) {}), given: &jsonl.Task{ID: "t"}}
				began, got := time.Now(), make(chan string, 1)
				go func() {
					r, err := d.run(t.Context())
					if err != nil {
						got <- err.Error()
						return
					}
					got <- transport.Text(r.Parts)
				}()
				synctest.Wait() // it is given the task
				k.read()
				if got := <-got; got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if took := time.Since(began).Round(10 * time.Millisecond); took != test.takes {
					t.Errorf("it took %v, want %v", took, test.takes)
				}
			})
		})
	}
}

// A program waits while too much of what it wrote was not handled yet; what one that has ended wrote is taken.
func TestPendingLinesAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		size, pending int
	}{
		"many":  {10, maxPending},
		"large": {maxPendingBytes/4 + 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := talkOf(t, 0)
				d := &dialog{k: k, has: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
				pushed := make(chan int, 1000)
				over := make(chan struct{})
				go func() {
					defer close(over)
					for n := range test.pending + 3 {
						d.push(&jsonl.Line{}, test.size)
						pushed <- n
					}
				}()
				is := func(what string, want int) {
					t.Helper()
					synctest.Wait()
					if len(pushed) != want {
						t.Errorf("%s: %d lines were taken, want %d", what, len(pushed), want)
					}
				}
				is("at first", test.pending)
				if l, err := d.next(); l == nil || err != nil {
					t.Errorf("next: %v, %v", l, err)
				}
				is("when one was handled", test.pending+1)
				close(k.Ended)
				<-over
				is("when it has ended", test.pending+3)
			})
		})
	}
}

// How much a task asks at a time is bounded, and each under a name of its own.
func TestAsksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := membus.New(nil)
		defer bus.Close()
		a, err := newAgent(bus, &a2a.AgentCard{Name: "a"}, Handler(func(context.Context, *Task) (*Result, error) { return nil, nil }), nil)
		if err != nil {
			t.Fatal(err)
		}
		a.sending = t.Context()
		d := &dialog{k: talkOf(t, 0), id: "t", t: &Task{ID: "t", ContextID: "c", Message: &a2a.Message{ID: "m"}, agent: a}, asks: map[string]bool{}}
		d.answering, d.stop = context.WithCancelCause(t.Context())
		defer d.asking.Wait()
		defer d.stop(ErrStopping)
		ask := func(id string) string {
			words := "what is " + id + "?"
			err := d.ask(&jsonl.Line{Ask: id, Text: &words})
			synctest.Wait()
			return fmt.Sprint(err)
		}
		for n := range jsonl.MaxAsks {
			if got := ask(fmt.Sprint(n)); got != "<nil>" {
				t.Fatalf("request %d: %s", n, got)
			}
		}
		if got := ask("3"); got != `it asked twice as "3"` {
			t.Errorf("the same again: %s", got)
		}
		if got := ask("more"); got != "it asked for more than 16 things at a time" {
			t.Errorf("one more: %s", got)
		}
		a.mu.Lock()
		var first string
		for first = range a.asks {
			break
		}
		a.mu.Unlock()
		a.answered(&a2a.Message{Metadata: map[string]any{transport.MetaMessage: first}, Parts: a2a.ContentParts{a2a.NewTextPart("this")}})
		var reply jsonl.Reply
		if err := json.Unmarshal(<-d.k.outbox, &reply); err != nil || reply.Text != "this" || reply.Failed {
			t.Errorf("the reply is %+v, %v", reply, err)
		}
		if got := ask("more"); got != "<nil>" {
			t.Errorf("one more when one was answered: %s", got)
		}
	})
}

// Old questions are removed when an agent starts.
func TestOldQuestionsGo(t *testing.T) {
	dir := t.TempDir()
	path := func(task a2a.TaskID) string { return (&taskfile.Folder{Dir: dir}).Path("", "context", task) }
	for task, age := range map[a2a.TaskID]time.Duration{"old": questionAge, "new": questionAge - time.Hour} {
		path, at := path(task), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ExecLines(ExecOptions{Argv: []string{os.Args[0]}, Questions: dir}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(path("new")) {
		t.Errorf("left %v, %v, want that of the new task", left, err)
	}
}

// TestFileNotWritten has a file of a task that cannot be written: its name is told, and not where its folder is.
func TestFileNotWritten(t *testing.T) {
	task := &Task{Message: a2a.NewMessage(a2a.MessageRoleUser, &a2a.Part{Content: a2a.Raw("x"), Filename: "x.txt"})}
	f, err := newFolder(task)
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	if err := os.Remove(f.in()); err != nil {
		t.Fatal(err)
	}
	if err := f.fill(t.Context(), task); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "x.txt: ") || strings.Contains(err.Error(), f.dir) {
		t.Errorf("fill() = %v, want what is wrong with x.txt, and not where it is", err)
	}
}

// TestFilesOfATaskAreBounded has a program give the same file again and again: the store keeps each, so that together they have a bound.
func TestFilesOfATaskAreBounded(t *testing.T) {
	files, err := newFolder(&Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.remove()
	if err := os.WriteFile(filepath.Join(files.out(), "plot.png"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &dialog{t: &Task{ID: "t"}, files: files, filed: maxTaskFiles - 12}
	l := &jsonl.Line{Type: jsonl.TypeFile, Path: "plot.png"}
	for range 2 {
		if err := d.file(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.file(t.Context(), l); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("above the bound: %v", err)
	}
}
