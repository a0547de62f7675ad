//go:build unix

package agents_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
)

// grip is a named pipe that processes hold open, which shows when the last of them has ended.
type grip struct {
	path string
	held chan struct{} // closed when a process holds the pipe
	gone chan struct{} // closed when no process holds it any more
}

func newGrip(t *testing.T) *grip {
	g := &grip{path: filepath.Join(t.TempDir(), "grip"), held: make(chan struct{}), gone: make(chan struct{})}
	if err := syscall.Mkfifo(g.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.Open(g.path) // waits for a writer
		if err != nil {
			return
		}
		close(g.held)
		io.Copy(io.Discard, f)
		close(g.gone)
	}()
	return g
}

func (g *grip) wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal(what)
	}
}

// shell returns the handler for a script, which gets the grip as $1.
func (g *grip) shell(t *testing.T, script string) agents.Handler {
	t.Helper()
	h, err := agents.Exec(agents.ExecOptions{Argv: []string{"/bin/sh", "-c", script, "sh", g.path}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Canceling a task ends the program and what it started, even if they ignore SIGTERM.
func TestExecCancelEndsTheGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"child":           `exec 3>"$1"; sleep 1000 & wait`,
		"stubborn child":  `exec 3>"$1"; (trap "" TERM; sleep 1000) & wait`,
		"stubborn":        `trap "" TERM; exec 3>"$1"; sleep 1000; sleep 1000`,
		"without outputs": `exec 3>"$1"; sleep 1000 >/dev/null 2>&1 </dev/null & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrip(t)
			canceled := errors.New("canceled by a test")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-g.held
				cancel(canceled)
			}()
			if r, err := g.shell(t, script)(ctx, &agents.Task{}); !errors.Is(err, canceled) {
				t.Errorf("got %v, %v, want the cause", r, err)
			}
			g.wait(t, g.gone, "a process lives on")
		})
	}
}

// Terminated processes get time to end, even if the program itself has ended at once.
func TestExecCancelIsGentle(t *testing.T) {
	t.Parallel()
	gentle(t, `(trap 'sleep 0.1; echo bye >"$1.bye"; exit' TERM; exec 3>"$1"; while :; do sleep 0.1; done) >/dev/null 2>&1 </dev/null & wait`)
}

// gentle cancels a script that writes "$1.bye" when it is terminated.
func gentle(t *testing.T, script string) {
	t.Helper()
	g := newGrip(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.held
		cancel()
	}()
	if r, err := g.shell(t, script)(ctx, &agents.Task{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want the cause", r, err)
	}
	if _, err := os.Stat(g.path + ".bye"); err != nil {
		t.Errorf("it was not given time to end: %v", err)
	}
}

// Processes that a program leaves running neither delay its result nor outlive it.
func TestExecLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	g := newGrip(t)
	got, err := run(t, g.shell(t, `exec 3>"$1"; sleep 1000 & echo done`), &agents.Task{})
	if err != nil || got != "done" {
		t.Errorf("got %q, %v, want done", got, err)
	}
	g.wait(t, g.gone, "a process lives on")
}

func TestExecKilled(t *testing.T) {
	t.Parallel()
	h, err := agents.Exec(agents.ExecOptions{Argv: []string{"/bin/sh", "-c", "echo sorry >&2; kill -9 $$"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(t, h, &agents.Task{}); err == nil || err.Error() != "sh: signal: killed: sorry" {
		t.Errorf("got %q, %v, want the signal named", got, err)
	}
}

func TestExecBadInterpreter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := agents.Exec(agents.ExecOptions{Argv: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(t, h, &agents.Task{}); err == nil || err.Error() != "script cannot be started: no such file or directory" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A program that stays is ended with all that it started, also if that holds its output open.
func TestKeptLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a program that ends with its input": `exec 3>"$1"; sleep 1000 & cat >/dev/null`,
		"a deaf one":                         `trap "" TERM; exec 3>"$1"; sleep 1000; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrip(t)
			k, err := agents.Keep(agents.ExecOptions{Argv: []string{"/bin/sh", "-c", script, "sh", g.path}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() { ran <- k.Run(ctx) }()
			g.wait(t, g.held, "it does not start")
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			k.Close()
			g.wait(t, g.gone, "a process lives on")
		})
	}
}
