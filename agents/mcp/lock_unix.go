//go:build unix

package mcp

import (
	"os"
	"syscall"
)

// lock locks f until it is closed or the process exits. It returns false if another process has locked it.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
