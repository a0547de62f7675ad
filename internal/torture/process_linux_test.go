package torture

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// roleEnv makes the test binary a process of a test: "child FILE" runs until it is asked to end, "parent FOLDER" starts a child.
const roleEnv = "TORTURE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, arg := os.Getenv(roleEnv), ""
	if _, err := fmt.Sscan(role, &role, &arg); err != nil {
		os.Exit(m.Run())
	}
	os.Unsetenv(roleEnv)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if role == "parent" {
		t := newTroupe(os.Args[0], arg)
		t.env = append(t.env, roleEnv+"=child "+filepath.Join(arg, "alive"))
		t.start(kindAgent, "child")
	} else if err := hold(arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-end
}

// hold locks a file until the process ends, and writes a line to it to show that the process runs.
func hold(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	held = f
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

var held *os.File // stays open to keep its lock

// alive creates the pipe of a child, and returns a reader of its starts.
func alive(t *testing.T, dir string) *bufio.Reader {
	t.Helper()
	path := filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(f)
}

// started waits for the next start of the child and returns its pid.
func started(t *testing.T, r *bufio.Reader) (pid int) {
	t.Helper()
	line, err := r.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &pid)
	}
	if err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	return pid
}

// TestKilledIsStartedAgain kills a process, freezes it, and finally ends it.
func TestKilledIsStartedAgain(t *testing.T) {
	dir := t.TempDir()
	starts := alive(t, dir)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := newTroupe(program, dir)
	tr.env = append(tr.env, roleEnv+"=child "+filepath.Join(dir, "alive"))
	p := tr.start(kindAgent, "child")
	for last := 0; last < 3; last++ {
		started(t, starts)
		if last == 1 && !p.freeze() {
			t.Error("a running process cannot be frozen")
		}
		if last == 1 && p.freeze() {
			t.Error("a frozen process was frozen again")
		}
		if !p.kill(0) {
			t.Fatal("a running process cannot be killed")
		}
	}
	started(t, starts)
	if forced := tr.stop(time.Minute); len(forced) > 0 {
		t.Errorf("%v had to be forced, want none", forced)
	}
	if got := p.byItself(); len(got) > 0 {
		t.Errorf("it ended by itself: %v; want that to be counted for what nobody killed", got)
	}
}

// TestDown kills a process with a long pause: nothing can be done to it in the meantime, and stopping it works.
func TestDown(t *testing.T) {
	dir := t.TempDir()
	starts := alive(t, dir)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := newTroupe(program, dir)
	tr.env = append(tr.env, roleEnv+"=child "+filepath.Join(dir, "alive"))
	p := tr.start(kindAgent, "child")
	started(t, starts)
	if !p.kill(time.Hour) || p.kill(0) || p.freeze() {
		t.Error("a process is killed once, and cannot be killed or frozen then")
	}
	if forced := tr.stop(time.Minute); len(forced) > 0 {
		t.Errorf("%v had to be forced, want none", forced)
	}
}

// TestEndedByItselfIsCounted starts a process that cannot run: it is restarted repeatedly, and that is reported.
func TestEndedByItselfIsCounted(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := newTroupe(program, dir)
	tr.env = append(tr.env, roleEnv+"=child "+filepath.Join(dir, "missing"))
	p := tr.start(kindAgent, "child")
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(time.Minute); len(p.byItself()) < 2; <-poll.C {
		if time.Now().After(end) {
			t.Fatal("it was not started twice")
		}
	}
	tr.stop(0)
}

// TestDiesWithItsParent kills the parent of a process: the process ends, too.
func TestDiesWithItsParent(t *testing.T) {
	dir := t.TempDir()
	starts := alive(t, dir)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), program)
	parent.Env = append(os.Environ(), roleEnv+"=parent "+dir)
	out, err := parent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	started(t, starts)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out) //nolint:errcheck // until the parent is gone
	parent.Wait()            //nolint:errcheck // it was killed
	f, err := os.Open(filepath.Join(dir, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // the child holds it until it ends
		t.Fatal(err)
	}
}
