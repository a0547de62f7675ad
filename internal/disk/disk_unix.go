//go:build linux || darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Room returns how many bytes of the disk of a folder this process may still write, and how many it has.
func Room(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	block := uint64(s.Bsize)                                       //nolint:unconvert // other types on other systems
	return uint64(max(s.Bavail, 0)) * block, s.Blocks * block, nil //nolint:unconvert // likewise; below 0 where only root may write
}

// Inodes returns how many more files and folders the disk of a folder may have, and how many it may have at all; 0 of 0 where that has no bound of its own.
func Inodes(dir string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return uint64(max(s.Ffree, 0)), s.Files, nil //nolint:unconvert,gosec // below 0 on some systems
}

// MayWrite returns why this process may not create files in a folder, or nil.
func MayWrite(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
