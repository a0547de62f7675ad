//go:build unix && !linux

package torture

import (
	"os/exec"
	"syscall"
)

// isolate gives the program a process group of its own, so that a Ctrl-C is not for it.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
