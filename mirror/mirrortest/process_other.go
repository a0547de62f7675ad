//go:build !linux

package mirrortest

import (
	"os/exec"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }

func start(cmd *exec.Cmd) error { return cmd.Start() }
