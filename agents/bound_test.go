package agents

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// A timer that fires while the time is extended ends nothing.
func TestAllowanceProlongedAtItsEnd(t *testing.T) {
	w := &allowance{expire: func() { t.Error("the run was ended") }}
	w.give(time.Hour, time.Hour, 4*time.Hour)
	w.check()
	w.stop()
}

// A program makes progress when it writes, also to stdout.
func TestExecOutputIsASignOfLife(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]bool{"deaf": true, "silent": false} {
		h, err := Exec(ExecOptions{Argv: []string{self}, Env: []string{"AGENTS_TEST_PROGRAM=" + program}})
		if err != nil {
			t.Fatal(err)
		}
		p := &pulse{progress: make(chan struct{}, 1)}
		if _, err := h(t.Context(), &Task{pulse: p}); err != nil {
			t.Fatal(err)
		}
		if got := len(p.progress) == 1; got != want {
			t.Errorf("%s has given a sign of life: %v, want %v", program, got, want)
		}
	}
}

// Data and metadata count with their size as JSON.
func TestDataCountsAsItIs(t *testing.T) {
	large := map[string]any{"list": strings.Repeat("x", 1<<20)}
	about := a2a.NewTextPart("x")
	about.Metadata, about.Filename, about.MediaType = large, "a.txt", "text/plain"
	for name, part := range map[string]*a2a.Part{"data": a2a.NewDataPart(large), "metadata": about} {
		if n := sizeOf(a2a.ContentParts{part}); n < 1<<20 || n > 1<<20+partSize+100 {
			t.Errorf("%s: a part of 1 MB counts as %d bytes", name, n)
		}
	}
	task := &Task{ID: "t1"}
	for i := range 2 {
		err := task.Artifact(fmt.Sprint(i), a2a.NewDataPart(large))
		if got := errors.Is(err, transport.ErrTooLarge); got != (i == 1) {
			t.Errorf("artifact %d: %v", i, err)
		}
	}
	if err := task.Artifact("0", a2a.NewDataPart("small")); err != nil {
		t.Error(err)
	}
	if err := task.Artifact("1", a2a.NewDataPart(large)); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}
