//go:build unix

package storecheck

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// accessible returns an error unless this process may read and write a file or folder. A missing one is accessible.
func accessible(path string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS); err != nil && unlessGone(err) != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}
