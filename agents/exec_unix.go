//go:build unix

package agents

import (
	"os"
	"syscall"
)

// terminate asks the program and all that it started to end.
func terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup ends what is left of the group that pid leads or led.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
