//go:build unix

package taskfile

import (
	"os"
	"syscall"
)

// Lock locks f until it is closed or the process exits. It returns false if another process has locked it.
func Lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
