package agents_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents"
)

// killedHost runs a script with Exec in another process, and kills that process when the script holds the grip.
func killedHost(t *testing.T, g *grip, script string) {
	t.Helper()
	host := exec.Command(os.Args[0], script, g.path)
	host.Env = append(os.Environ(), asProgram+"=host")
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	g.wait(t, g.held, "the program was not started")
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// A program dies when its agent is killed.
func TestExecDiesWithItsAgent(t *testing.T) {
	t.Parallel()
	g := newGrip(t)
	killedHost(t, g, `exec 3>"$1"; exec sleep 1000`)
	g.wait(t, g.gone, "the program lives on")
}

// The processes that it had started are killed at the agent's next start.
func TestExecOrphans(t *testing.T) {
	t.Parallel()
	g := newGrip(t)
	killedHost(t, g, `exec 3>"$1"; sleep 1000 & wait`)
	if _, err := agents.Exec(agents.ExecOptions{Argv: []string{"/bin/sh"}}); err != nil {
		t.Fatal(err)
	}
	g.wait(t, g.gone, "what the program had started lives on")
}

// Daemons, too, end with a task that is canceled.
func TestExecCancelEndsDaemons(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"session":          `exec 3>"$1"; setsid sleep 1000 & wait`,
		"forked twice":     `exec 3>"$1"; (setsid sleep 1000 >/dev/null 2>&1 </dev/null &) ; exec sleep 1000`,
		"stubborn":         `exec 3>"$1"; (setsid sh -c 'trap "" TERM; sleep 1000; sleep 1000' >/dev/null 2>&1 </dev/null &) ; exec sleep 1000`,
		"of a dead parent": `exec 3>"$1"; sh -c 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &' ; exec sleep 1000 3>&-`,
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
			g.wait(t, g.gone, "a daemon lives on")
		})
	}
}

// daemon is a script that starts a daemon, which holds the grip until the test writes to the pipe "$1.end".
const daemon = `
	setsid sh -c 'exec 3>"$1"; : >"$1.up"; read -r end <"$1.end"; : >"$1.bye"' sh "$1" >/dev/null 2>&1 </dev/null &
	until [ -e "$1.up" ]; do sleep 0.01; done
`

// A daemon that was not terminated stays, both of a program that has finished and of one whose agent was killed.
func TestExecLeavesDaemons(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, g *grip){
		"done": func(t *testing.T, g *grip) {
			if got, err := run(t, g.shell(t, daemon+"echo done"), &agents.Task{}); err != nil || got != "done" {
				t.Errorf("got %q, %v, want done", got, err)
			}
			g.wait(t, g.held, "the daemon is not there")
		},
		"killed": func(t *testing.T, g *grip) { killedHost(t, g, daemon+"exec sleep 1000") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrip(t)
			if err := syscall.Mkfifo(g.path+".end", 0o600); err != nil {
				t.Fatal(err)
			}
			start(t, g)
			if _, err := agents.Exec(agents.ExecOptions{Argv: []string{"/bin/sh"}}); err != nil {
				t.Fatal(err)
			}
			end, err := os.OpenFile(g.path+".end", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer end.Close()
			if _, err := end.WriteString("now\n"); err != nil {
				t.Error(err)
			}
			g.wait(t, g.gone, "the daemon lives on")
			if _, err := os.Stat(g.path + ".bye"); err != nil {
				t.Errorf("the daemon was ended: %v", err)
			}
		})
	}
}

// Daemons, too, get time to end.
func TestExecCancelIsGentleToDaemons(t *testing.T) {
	t.Parallel()
	gentle(t, `setsid sh -c 'trap "sleep 0.1; echo bye >\"\$1.bye\"; exit" TERM; exec 3>"$1"; while :; do sleep 0.1; done' sh "$1" >/dev/null 2>&1 </dev/null & wait`)
}

// The folders with the files of a task are removed at the next start of a killed agent; those of other agents stay. The name of the folder in which they
// are is no pattern.
func TestExecFoldersOfTheKilled(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "a[1]")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	g := newGrip(t)
	killedHost(t, g, `exec 3>"$1"; echo secret > "$CORTEX_OUT/x"; exec sleep 1000`)
	g.wait(t, g.gone, "the program lives on")
	left := func() int {
		all, err := os.ReadDir(temp)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if left() != 1 {
		t.Fatalf("%d folders are left by an agent that was killed, want 1", left())
	}
	if err := os.Mkdir(filepath.Join(temp, "cortex-task-mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := agents.Exec(agents.ExecOptions{Argv: []string{"/bin/sh"}}); err != nil {
		t.Fatal(err)
	}
	if left() != 1 {
		t.Errorf("%d folders are left when the agent is there again, want 1: somebody else's", left())
	}
}

// TestExecOpensNoFile checks that the result of a program that has looked into none of the files of its task says so.
func TestExecOpensNoFile(t *testing.T) {
	t.Parallel()
	const note = "(The 3 files were not read: sh opened no file.)"
	for script, want := range map[string]string{
		"echo done":                                        "done\n" + note,
		`ls "$CORTEX_FILES" >&2; echo done`:                "done\n" + note,
		`cat "$CORTEX_FILES"/R* >&2; echo done`:            "done",
		`mv "$CORTEX_FILES"/R* "$CORTEX_OUT"; echo done`:   "done",
		`sh -c 'head -c1 "$CORTEX_FILES"/f*' >&2; echo ok`: "ok",
	} {
		task, _ := brought()
		h, err := agents.Exec(agents.ExecOptions{Argv: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run(t, h, task); err != nil || got != want {
			t.Errorf("%s: the result is %q, %v, want %q", script, got, err, want)
		}
	}
	h, err := agents.Exec(agents.ExecOptions{Argv: []string{"sh", "-c", "cat >&2; echo done"}, JSON: true}) // the task has them
	if err != nil {
		t.Fatal(err)
	}
	task, _ := brought()
	if got, err := run(t, h, task); err != nil || got != "done" {
		t.Errorf("with JSON the result is %q, %v", got, err)
	}
}
