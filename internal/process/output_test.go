package process

import (
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// held is a writer that keeps its caller until it is closed.
type held struct {
	strings.Builder
	until chan struct{}
}

func (h *held) Write(b []byte) (int, error) {
	<-h.until
	return h.Builder.Write(b)
}

// TestOutputOfTheStopped checks that what a program has written is not lost when more than Grace goes by before it is read, because this process
// was stopped: then it gets a single tick.
func TestOutputOfTheStopped(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "env", "GOOS", "GOARCH")
	o, err := NewOutput(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := &held{until: make(chan struct{})}
	o.Copy(got)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	ticks := make(chan time.Time)
	go func() {
		for range graceTicks - 1 {
			select {
			case ticks <- time.Time{}:
			case <-t.Context().Done():
			}
		}
		close(got.until)
	}()
	o.await(ticks, graceTicks)
	if lines := strings.Count(got.String(), "\n"); lines != 2 {
		t.Errorf("%d lines were read, want 2: %q", lines, got.String())
	}
}

// TestOutputIsHeld checks that another process that keeps the output open holds nobody for longer than Grace.
func TestOutputIsHeld(t *testing.T) {
	for err, want := range map[error]time.Duration{nil: Grace, exec.ErrWaitDelay: Grace / graceTicks * readTicks} {
		synctest.Test(t, func(t *testing.T) {
			o := &Output{done: make(chan struct{})}
			began := time.Now()
			o.Await(err)
			if took := time.Since(began); took != want {
				t.Errorf("after %v it waited %v, want %v", err, took, want)
			}
		})
	}
}
