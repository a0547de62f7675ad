//go:build linux || darwin || freebsd

package cli

import "golang.org/x/sys/unix"

// diskOf returns how many bytes this process may still write on the disk of a folder, and the size of the disk in bytes.
func diskOf(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := uint64(s.Bsize)                                       //nolint:unconvert // other types on other systems
	return uint64(max(s.Bavail, 0)) * block, s.Blocks * block, nil //nolint:unconvert // likewise; below 0 where only root may write
}

// mayWrite returns why this process may not create files in a folder, or nil.
func mayWrite(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
