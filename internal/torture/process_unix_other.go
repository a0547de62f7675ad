//go:build unix && !linux

package torture

import (
	"os/exec"
	"syscall"
)

// isolate gives the program a process group of its own, so that Ctrl-C does not reach it.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
