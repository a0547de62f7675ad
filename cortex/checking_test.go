package cortex_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/transport"
)

// slowFiles is a transport that takes an hour for the second of three chunks, which is only read when a result is checked.
type slowFiles struct {
	transport.Transport
	transport.Files
	panics string // the conversation for whose files it panics

	mu        sync.Mutex
	now, most int
	begun     []string
}

func (s *slowFiles) Chunk(ctx context.Context, o transport.Object, n int) ([]byte, error) {
	if n == 1 {
		s.mu.Lock()
		s.now++
		s.most = max(s.most, s.now)
		s.begun = append(s.begun, o.ContextID)
		s.mu.Unlock()
		if o.ContextID == s.panics {
			panic("cannot bear " + o.ContextID)
		}
		<-time.After(time.Hour)
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}
	return s.Files.Chunk(ctx, o, n)
}

func (s *slowFiles) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun)
}

// resultWithFile has a person ask alpha, whose result takes an hour to be checked.
func (w *world) resultWithFile(files *slowFiles, who string, n int) {
	w.t.Helper()
	w.publish(requestOf(who, n))
	all := w.tasksOf("alpha")
	task := all[len(all)-1]
	ref, err := transport.PutFile(w.t.Context(), files.Files, "", task.ContextID, "alpha", strings.NewReader(strings.Repeat("\n", 2*transport.FileChunk+1)), 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	e := resultEvent("r1", "alpha", task.TaskID, a2a.TaskStateCompleted, "")
	e.ContextID = task.ContextID
	result := e.Payload.(*a2a.Task)
	result.ContextID, result.Status.Message.Parts = task.ContextID, a2a.ContentParts{ref.Part("list.txt", "text/plain")}
	w.publish(e)
}

// TestResultsAreCheckedByTurns has somebody get many results that take long to be checked: few are checked at a time, and another person's does not wait for all
// of them.
func TestResultsAreCheckedByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := max(1, runtime.GOMAXPROCS(0)/2)
		w := newWorld(t, once(toAlpha))
		files := &slowFiles{Transport: w.bus, Files: w.bus.(transport.Files)}
		w.restart(cortex.Config{Transport: files, Decider: once(toAlpha), Policy: rules(t, checked), TaskTimeout: 48 * time.Hour})
		for i := range 4 * most {
			w.resultWithFile(files, "mallory", i)
		}
		w.resultWithFile(files, "ada", 0)
		for _, id := range []string{"ada0", fmt.Sprint("mallory", most)} {
			if fold, err := w.orch.Fold(id); fold == nil {
				t.Errorf("%s: what waits holds its conversation, %v", id, err)
			}
		}
		before := len(files.read())
		pass(4 * time.Hour)
		if got := files.read()[before:]; !slices.Contains(got[:min(len(got), 2+most)], "ada0") {
			t.Errorf("then checked %q, want ada0 behind one of the other's", got)
		}
		pass(24 * time.Hour)
		for _, id := range []string{"ada0", fmt.Sprint("mallory", 4*most-1)} {
			if got := answerIn(t, w.store, id); !strings.HasPrefix(got, "alpha COMPLETED") {
				t.Errorf("%s: answer %q", id, got)
			}
		}
		if files.most > most {
			t.Errorf("%d results are checked at a time, want at most %d", files.most, most)
		}
	})
}

// TestPanicLeavesItsPlace has the check of a result panic as often as the event is tried: others are checked, and its turn is told.
func TestPanicLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		files := &slowFiles{Transport: w.bus, Files: w.bus.(transport.Files), panics: "mallory0"}
		w.restart(cortex.Config{Transport: files, Decider: once(toAlpha), Policy: rules(t, checked), TaskTimeout: 48 * time.Hour})
		w.resultWithFile(files, "mallory", 0)
		pass(time.Hour) // until it is given up
		if got := answerIn(t, w.store, "mallory0"); !strings.Contains(got, "panic: cannot bear mallory0") {
			t.Errorf("answer %q", got)
		}
		w.resultWithFile(files, "ada", 0)
		pass(2 * time.Hour)
		if got := answerIn(t, w.store, "ada0"); !strings.HasPrefix(got, "alpha COMPLETED") {
			t.Errorf("answer %q", got)
		}
	})
}

// TestTooManyUnchecked has somebody ask on while results of theirs wait to be checked: that is refused, also where the message names its agent, and nobody
// else is.
func TestTooManyUnchecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		files := &slowFiles{Transport: w.bus, Files: w.bus.(transport.Files)}
		w.restart(cortex.Config{Transport: files, Decider: once(toAlpha), Policy: rules(t, checked), Authenticated: true, TaskTimeout: 48 * time.Hour})
		for i := range 31 {
			w.publish(requestOf("mallory", i))
		}
		ref, err := transport.PutFile(t.Context(), files.Files, "", "mallory0", "alpha", strings.NewReader(strings.Repeat("\n", 2*transport.FileChunk+1)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range w.tasksOf("alpha") {
			e := resultEvent("r1", "alpha", task.TaskID, a2a.TaskStateCompleted, strings.Repeat("x", 1<<20))
			e.ContextID = task.ContextID
			result := e.Payload.(*a2a.Task)
			result.ContextID = task.ContextID
			if task.ContextID == "mallory0" {
				result.Status.Message.Parts = append(result.Status.Message.Parts, ref.Part("list.txt", "text/plain"))
			}
			w.publish(e)
		}
		direct := func(who string, n int) {
			e := requestOf(who, n)
			to := transport.Direct{Agent: "alpha"}
			if err := to.Address(e.Payload.(*a2a.Message)); err != nil {
				t.Fatal(err)
			}
			w.publish(e)
		}
		w.publish(requestOf("mallory", 100))
		direct("mallory", 101)
		w.publish(requestOf("ada", 100))
		direct("ada", 101)
		pass(time.Second)
		for _, id := range []string{"mallory100", "mallory101"} {
			if got := answerIn(t, w.store, id); !strings.HasPrefix(got, "Too much at once: too many results") {
				t.Errorf("%s: answer %q", id, got)
			}
		}
		for _, id := range []string{"ada100", "ada101"} {
			if got := answerIn(t, w.store, id); got != "" {
				t.Errorf("%s: answer %q, want none: alpha has it", id, got)
			}
		}
	})
}
