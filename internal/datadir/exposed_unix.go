//go:build unix

package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// nobody is the owner of files that belong to nobody who is known here, as in a container with users of its own.
const nobody = 65534

// Exposed says why others on this machine may replace what is in a data folder, or read and change it; "" if nothing tells that they may. It looks at the folder and
// at those that it is in, as programs that keep keys do.
func Exposed(data string) string {
	path, err := filepath.Abs(data)
	if err != nil {
		return "" // whoever opens it says why
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	groups, _ := os.Getgroups() // without them, more is said
	why := exposed(path, os.Geteuid(), os.Getegid(), groups, os.Stat)
	if why == "" && resolved != path { // who may replace a link has another folder taken
		why = exposed(resolved, os.Geteuid(), os.Getegid(), groups, os.Stat)
	}
	return why
}

func exposed(path string, user, group int, groups []int, stat func(string) (fs.FileInfo, error)) string {
	trusted := []int{user, 0, nobody}
	for at := path; ; at = filepath.Dir(at) {
		info, err := stat(at)
		if err != nil {
			return ""
		}
		is, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return ""
		}
		owner, of := int(is.Uid), int(is.Gid)
		if user == 0 && at == path {
			trusted = append(trusted, owner) // root works for the owner, to whom everything is given back
		}
		sticky := at != path && info.Mode()&fs.ModeSticky != 0 // others may make files there, and not move those of this user
		// A group of one's own has nobody else, as a rule; and who provides a volume for a container has a group write to it.
		ours := of == group || of == 0 || owner == 0 && slices.Contains(groups, of)
		switch {
		case !slices.Contains(trusted, owner):
			return fmt.Sprintf("%s belongs to another user (%d)", at, owner)
		case info.Mode().Perm()&0o002 != 0 && !sticky:
			return fmt.Sprintf("everybody may write to %s: `chmod o-w` prevents that", at)
		case info.Mode().Perm()&0o020 != 0 && !sticky && !ours:
			return fmt.Sprintf("a group (%d) may write to %s: `chmod g-w` prevents that", of, at)
		case at == filepath.Dir(at):
			return ""
		}
	}
}
