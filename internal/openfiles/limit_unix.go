//go:build unix

package openfiles

import "syscall"

// Limit returns how many files this process may have open. The Go runtime has raised it as far as it may be raised.
func Limit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return elsewhere
	}
	return int(min(uint64(r.Cur), 1<<20)) //nolint:unconvert // signed on some systems
}
