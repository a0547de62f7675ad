//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Isolate puts the program into its own process group.
func Isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate sends SIGTERM to the program and its group.
func Terminate(p *os.Process, _ string) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// IsGone reports whether the group that pid led has ended.
func IsGone(pid int, _ string) bool { return syscall.Kill(-pid, 0) != nil }
