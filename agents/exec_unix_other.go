//go:build unix && !linux

package agents

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate puts the program into its own process group.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate sends SIGTERM to the program and its group.
func terminate(p *os.Process, _ string) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// isGone reports whether the group that pid led has ended.
func isGone(pid int, _ string) bool { return syscall.Kill(-pid, 0) != nil }
