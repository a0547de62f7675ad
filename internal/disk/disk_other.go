//go:build !linux && !darwin && !freebsd && !windows

package disk

import "errors"

// Room returns errors.ErrUnsupported on this system.
func Room(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// Inodes returns errors.ErrUnsupported on this system.
func Inodes(string) (free, all uint64, err error) { return 0, 0, errors.ErrUnsupported }

// MayWrite returns nil: writing reports the error.
func MayWrite(string) error { return nil }
