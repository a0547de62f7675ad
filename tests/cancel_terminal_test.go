package tests

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCtrlCEndsPrograms checks that Ctrl-C in the chat while an agent's program works leaves none of the program's processes.
func TestCtrlCEndsPrograms(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"worker.yaml": "name: worker\ndescription: Does work\nskills:\n  - id: work\n    name: Work\n    examples: [\"work: please\"]\n",
		"worker.sh":   "sleep 300 & echo $! > child\necho $$ > pid.new; mv pid.new pid\necho 'at work' >&2\nwait\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	term := open(t, "chat", "--data", data)
	term.shows("3 agents online")
	agent := exec.CommandContext(t.Context(), term.path, "agent", "exec", "--data", data, "--card", "worker.yaml", "--", "sh", "worker.sh")
	agent.Dir, agent.Env = dir, []string{"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH")}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Signal(syscall.SIGINT) // it may have ended
		_ = agent.Wait()
	})
	term.shows("worker joined")
	term.types("work: please\r")
	term.shows("at work")
	term.types("\x03")
	term.shows("Canceled.")
	for _, name := range []string{"pid", "child"} {
		pid, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ends(t, strings.TrimSpace(string(pid)))
	}
	term.types("\x04")
	term.ends(0)
}

// TestClosedTerminalEndsPrograms closes the terminal of an agent, with several signals as a kernel and a shell send them: the agent leaves, and the
// processes of its program end. Under nohup it stays.
func TestClosedTerminalEndsPrograms(t *testing.T) {
	t.Parallel()
	hearHangup(t)
	data, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"worker.yaml": "name: worker\nskills:\n  - id: work\n    name: Work\n    examples: [\"work: please\"]\n",
		"worker.sh":   "sleep 300 & echo $! > child\necho $$ > pid.new; mv pid.new pid\necho 'at work' >&2\nwait\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	term := open(t, "chat", "--data", data)
	term.shows("3 agents online")
	start := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, []string{"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH")}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
			_ = cmd.Wait()
		})
		return cmd
	}
	agent := start(term.path, "agent", "exec", "--data", data, "--card", "worker.yaml", "--", "sh", "worker.sh")
	term.shows("worker joined")
	stays := start("nohup", term.path, "agent", "echo", "--data", data)
	term.shows("echo")
	term.types("work: please\r")
	term.shows("at work")
	for _, cmd := range []*exec.Cmd{agent, agent, stays} {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v, want 0", err)
	}
	for _, name := range []string{"pid", "child"} {
		pid, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ends(t, strings.TrimSpace(string(pid)))
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(stays.Process.Pid)).Output()
	if state := strings.TrimSpace(string(out)); err != nil || strings.HasPrefix(state, "Z") {
		t.Errorf("the agent under nohup is %q, %v", state, err)
	}
	term.pty.Close()
	<-term.ended
	if left := whoRuns(data); left.PID != 0 {
		t.Errorf("%+v is left by the chat whose terminal was closed", left)
	}
}

// ends waits until a process has ended.
func ends(t *testing.T, pid string) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
		if state := strings.TrimSpace(string(out)); err != nil || state == "" || strings.HasPrefix(state, "Z") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s does not end", pid)
		}
	}
}

// hearHangup makes this process handle SIGHUP until t ends. Otherwise child processes would ignore the signal when the tests run under nohup.
func hearHangup(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
}
