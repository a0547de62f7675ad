//go:build !unix

package cli

import "os"

// tryLock does nothing where there is no flock: two nodes on one data folder are then not told apart.
func tryLock(*os.File) error { return nil }
