package a2a

import (
	"errors"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
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
