//go:build !unix

package openfiles

// Limit returns how many files this process may have open, as far as can be known.
func Limit() int { return elsewhere }
