//go:build unix

package agents

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file is this user's.
func isOwn(info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(is.Uid) == os.Geteuid()
}
