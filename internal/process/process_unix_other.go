//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Isolate puts the program into its own process group.
func Isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// NewMark names a run.
func NewMark() string { return "1" }

// Terminate sends SIGTERM to the program and its group.
func Terminate(p *os.Process, _ string) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// IsGone reports whether the group that pid led has ended.
func IsGone(pid int, _ string) bool { return syscall.Kill(-pid, 0) != nil }

// KillAll does nothing: the group is all that is known of a run.
func KillAll(int, string) {}

// KillOrphans does nothing.
func KillOrphans() {}

// Name is empty: this process is not told from others.
func Name() string { return "" }

// IsOrphan is always false.
func IsOrphan(string) bool { return false }
