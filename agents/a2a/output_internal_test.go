package a2a

import (
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestOutputsTogether checks that what all tasks of a process give is bounded, that a small one passes nevertheless, and that what is passed on does
// not count any more.
func TestOutputsTogether(t *testing.T) {
	chunk := &a2a.Artifact{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart(string(make([]byte, 4<<20)))}}
	tasks := make([]outputs, 4)
	defer func() {
		for i := range tasks {
			tasks[i].drop()
		}
		if n := held.Load(); n != 0 {
			t.Errorf("%d bytes are held behind it", n)
		}
	}()
	refused := 0
	for range maxOutput / (4 << 20) {
		for i := range tasks {
			if err := tasks[i].put(chunk, true); errors.Is(err, errTooMuch) {
				refused++
				tasks[i].drop()
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n := held.Load(); n > maxHeld+int64(len(tasks))*maxSmall {
			t.Fatalf("%d MiB are held", n>>20)
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
	for i := range tasks {
		tasks[i].drop()
	}
	for range maxOutput / (4 << 20) {
		if err := tasks[0].put(chunk, true); err != nil {
			t.Errorf("alone: %v", err)
		}
	}
	for i := 1; held.Load() < maxHeld; i = i%3 + 1 {
		if err := tasks[i].put(chunk, true); err != nil {
			t.Fatal(err)
		}
	}
	var small outputs
	defer small.drop()
	for range maxSmall / (4 << 20) {
		if err := small.put(chunk, true); err != nil {
			t.Errorf("a small one: %v", err)
		}
	}
}

// TestNamesAreShort checks that a peer cannot have much kept in what is not counted: the ids and the names of artifacts, which may be as long as an answer.
func TestNamesAreShort(t *testing.T) {
	var o outputs
	defer o.drop()
	long := string(make([]byte, 1<<20))
	if err := o.put(&a2a.Artifact{ID: a2a.ArtifactID(long)}, false); !errors.Is(err, errStrange) || len(o.all) > 0 {
		t.Errorf("a long id: %v, and %d artifacts", err, len(o.all))
	}
	for range 2 { // the second replaces the first
		if err := o.put(&a2a.Artifact{ID: "a", Name: "name" + long}, false); err != nil {
			t.Fatal(err)
		}
		if n := o.all[0].name; len(n) > 2*maxID || !strings.HasPrefix(n, "name") {
			t.Errorf("of a name %d bytes are kept: %.20q", len(n), n)
		}
	}
}

// TestStatusIsShort checks that what a peer says of its state is not kept as it is: it may be as long as an answer, for as long as the task takes.
func TestStatusIsShort(t *testing.T) {
	long := string(make([]byte, 1<<20))
	w := &work{r: &record{}, t: &agents.Task{}}
	for state, settled := range map[a2a.TaskState]bool{a2a.TaskStateWorking: false, a2a.TaskState(long): false, a2a.TaskStateInputRequired: true, a2a.TaskStateFailed: true} {
		said := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("which one? "+long))
		said.ID = long
		if got := w.status(a2a.TaskStatus{State: state, Message: said}); got != settled {
			t.Errorf("%.20q is settled: %v, want %v", state, got, settled)
		}
		kept := w.last.Message
		if n := len(w.last.State) + len(kept.ID) + len(transport.Text(kept.Parts)) + len(w.told); n > 2*maxQuestion || !strings.HasPrefix(words(kept, ""), "which one?") {
			t.Errorf("of %.20q %d bytes are kept: %.20q", state, n, words(kept, ""))
		}
	}
}
