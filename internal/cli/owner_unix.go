//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// giveBack gives what root has made in a data folder to whom the folder belongs, who could not use it any more. It follows no link, and leaves
// alone what has another name elsewhere.
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
			return nil // what cannot be read was not made here
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == 0 && (d.IsDir() || is.Nlink == 1) {
			_ = root.Lchown(path, int(owner.Uid), int(owner.Gid)) // whoever misses it says so
		}
		return nil
	})
}
