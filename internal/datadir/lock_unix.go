//go:build unix

package datadir

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks f until it is closed or the process ends. It returns ErrLocked when another open file has the lock.
func tryLock(f *os.File) error {
	return flock(f, syscall.LOCK_EX)
}

// shareLock is tryLock for a shared lock.
func shareLock(f *os.File) error {
	return flock(f, syscall.LOCK_SH)
}

func flock(f *os.File, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
