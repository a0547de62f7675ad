//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// entry is a folder of a made-up disk.
type entry struct {
	fs.FileInfo
	mode      fs.FileMode
	owner, of uint32
}

func (e entry) Mode() fs.FileMode { return e.mode }
func (e entry) Sys() any          { return &syscall.Stat_t{Uid: e.owner, Gid: e.of} }

// TestExposed has folders of all kinds around a data folder, and tells whether others may replace it.
func TestExposed(t *testing.T) {
	const me, mine, other = 1000, 1000, 1001
	tmp := entry{mode: 0o777 | fs.ModeSticky}
	for name, test := range map[string]struct {
		above, data entry
		user        int
		want        string
	}{
		"a home":                          {entry{mode: 0o755, owner: me, of: mine}, entry{mode: 0o700, owner: me, of: mine}, me, ""},
		"a home with umask 002":           {entry{mode: 0o775, owner: me, of: mine}, entry{mode: 0o775, owner: me, of: mine}, me, ""},
		"/tmp":                            {tmp, entry{mode: 0o700, owner: me}, me, ""},
		"/tmp, made by another":           {tmp, entry{mode: 0o700, owner: other}, me, "belongs to another user (1001)"},
		"/tmp, everybody may write to it": {tmp, entry{mode: 0o777, owner: me}, me, "everybody may write to /above/data"},
		"/tmp, and the folder is like it": {tmp, tmp, me, "everybody may write to /above/data"},
		"a temporary folder, not sticky":  {entry{mode: 0o777}, entry{mode: 0o700, owner: me}, me, "everybody may write to /above:"},
		"the folder of another":           {entry{mode: 0o755, owner: other}, entry{mode: 0o700, owner: me}, me, "/above belongs to another user"},
		"a group of others":               {entry{mode: 0o755}, entry{mode: 0o770, owner: me, of: 50}, me, "a group (50) may write to /above/data"},
		"a volume of a container":         {entry{mode: 0o755}, entry{mode: 0o775, of: 2000}, me, ""},
		"a container with other users":    {entry{mode: 0o755, owner: nobody, of: nobody}, entry{mode: 0o700, owner: me}, me, ""},
		"root, for another":               {entry{mode: 0o755, owner: other}, entry{mode: 0o700, owner: other}, 0, ""},
		"root, in the folder of another":  {entry{mode: 0o755, owner: other}, entry{mode: 0o700}, 0, "/above belongs to another user"},
	} {
		stat := func(path string) (fs.FileInfo, error) {
			e, ok := map[string]entry{"/": {mode: 0o755}, "/above": test.above, "/above/data": test.data}[path]
			if !ok {
				return nil, errors.New("not looked for: " + path)
			}
			return e, nil
		}
		if got := exposed("/above/data", test.user, mine, []int{mine, 2000}, stat); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	// A real one, by way of a link.
	above := t.TempDir()
	data, link := filepath.Join(above, "data"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Symlink(data, link), os.Chmod(above, 0o777)); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	if got := Exposed(link); !strings.Contains(got, "everybody may write to "+above) {
		t.Errorf("in a folder that everybody may write to: %q", got)
	}
	// And one that is safe, by way of a link that is not.
	shared, own := t.TempDir(), t.TempDir()
	link = filepath.Join(shared, "link")
	if err := errors.Join(os.Symlink(own, link), os.Chmod(shared, 0o777)); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	if got := Exposed(link); !strings.Contains(got, "everybody may write to "+shared) {
		t.Errorf("by a link in a folder that everybody may write to: %q", got)
	}
}
