//go:build !linux && !darwin && !freebsd

package cli

import "errors"

// diskOf returns an error: it is not implemented on this system.
func diskOf(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// mayWrite returns nil: it is not implemented on this system, and writing reports the error.
func mayWrite(string) error { return nil }
