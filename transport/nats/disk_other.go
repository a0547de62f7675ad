//go:build !linux && !darwin && !freebsd && !windows

package nats

import "errors"

// diskOf returns errors.ErrUnsupported on this system.
func diskOf(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }
