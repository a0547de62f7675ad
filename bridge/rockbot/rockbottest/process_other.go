//go:build unix && !linux

package rockbottest

import (
	"os/exec"
	"syscall"
)

func group(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
