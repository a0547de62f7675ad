//go:build unix

package rockbottest

import (
	"os/exec"
	"syscall"
)

// endGroup ends a process and those that it has started.
func endGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
