package rockbottest

import (
	"os/exec"
	"syscall"
)

// group has a process be in a group of its own, and end with this one.
func group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
