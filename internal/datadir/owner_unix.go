//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// giveBack changes the owner of files that root created in a data folder to the owner of the folder, who could not use them otherwise. It follows no
// links, and leaves alone files with several hard links.
func giveBack(data string) {
	info, err := os.Stat(data)
	if err != nil || os.Geteuid() != 0 {
		return
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files that cannot be read were not created here
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == 0 && (d.IsDir() || is.Nlink == 1) {
			_ = root.Lchown(path, int(owner.Uid), int(owner.Gid)) // on failure, a later command of the owner reports it
		}
		return nil
	})
}
