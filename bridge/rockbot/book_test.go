package rockbot

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

type stored = storage.Notes

// slowNotes are no notes, which take a while to be read.
type slowNotes struct {
	stored
	takes time.Duration
	reads int
}

func (n *slowNotes) Notes(context.Context, string, string) iter.Seq2[storage.Note, error] {
	return func(func(storage.Note, error) bool) {
		n.reads++
		time.Sleep(n.takes)
	}
}

// TestUnknownAnswers answers what was never asked: the answers that wait together are looked for together, and the next ones soon, since those that were
// asked for wait behind them.
func TestUnknownAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &slowNotes{takes: time.Millisecond}
		k := &book{b: &bridge{at: &role.Site{}}, notes: notes, turn: semaphore.NewWeighted(1), by: map[string]*sent{}}
		find := func(id string) {
			if s, err := k.find(t.Context(), id); s != nil || err != nil {
				t.Errorf("find = %v, %v", s, err)
			}
		}
		must(t, k.turn.Acquire(t.Context(), 1))
		var waiting sync.WaitGroup
		for range inFlight {
			waiting.Go(func() { find("unknown") })
		}
		synctest.Wait()
		time.Sleep(time.Nanosecond) // what comes while the notes are read may be in them or not
		k.turn.Release(1)
		waiting.Wait()
		if notes.reads != 1 {
			t.Errorf("the notes were read %d times for answers that came together", notes.reads)
		}
		began := time.Now()
		find("another")
		if took := time.Since(began); took != (1+scanShare)*notes.takes {
			t.Errorf("it took %v", took)
		}
		notes.takes = time.Minute
		find("more")
		began = time.Now()
		find("most")
		if took := time.Since(began); took != scanEach+notes.takes {
			t.Errorf("it took %v with many notes", took)
		}
	})
}

// TestDamagedNotes has notes of the bridge damaged while it is stopped: that is said, a task of an agent whose note cannot be read ends with an error, and who has
// asked Cortex is answered when they send their task again.
func TestDamagedNotes(t *testing.T) {
	for name, value := range map[string]string{"empty": "", "half": `{"id":"`, "none": "\x00\x01", "another": `{"version":2}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			begun, end := make(chan struct{}, 9), make(chan struct{})
			work := func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
				begun <- struct{}{}
				select {
				case <-end:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return agents.Text("done: " + task.Text()), nil
			}
			caller, id := w.callers(work)
			agent := w.agent(&rockbottest.Program{Name: "Slow", Skills: []string{"work"}, Do: func(*rockbottest.Work) { begun <- struct{}{} }})
			turn := w.Send(agent.Name, "work", "one", "")
			<-begun
			task := caller.Invoke(id, "shout", "two")
			<-begun
			w.stop()
			for _, kind := range []string{storage.NoteSent, storage.NoteReply} {
				damaged := 0
				for n, err := range w.Store.Notes(t.Context(), "", kind) {
					must(t, err)
					n.Value = []byte(value)
					_, err = w.Store.PutNote(t.Context(), "", kind, n)
					must(t, err)
					damaged++
				}
				if damaged != 1 {
					t.Fatalf("there are %d notes of the kind %s", damaged, kind)
				}
			}
			w.serve()
			if !strings.Contains(w.Log.String(), "a note of RockBot's bridge cannot be read") {
				t.Error("nothing is said")
			}
			close(end)
			caller.Send(task, id, "shout", "two", nil)
			if m := w.response(caller, task, 1); m.Text() != "done: two" {
				t.Errorf("the caller's answer is %v", m.Body)
			}
			if said := w.Answer(turn); !strings.Contains(said, "note the task") {
				t.Errorf("the answer is %q", said)
			}
		})
	}
}
