//go:build unix

package openfiles

import "syscall"

// Limit returns how many files this process may open. The Go runtime has raised that limit to the maximum.
func Limit() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return elsewhere
	}
	return int(min(uint64(r.Cur), 1<<20)) //nolint:unconvert // signed on some systems
}
