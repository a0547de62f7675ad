//go:build unix

package cli

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks f until it is closed or the process ends. It returns errLocked when another open file has the lock.
func tryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
