//go:build unix

package storecheck

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPermission has files and folders in the store that this process may not use, as after another user has put them there. That is no damage, and
// a server would delete the stream: the check returns an error and changes nothing.
func TestPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t) // root may use everything
		return
	}
	for _, c := range []struct {
		file string
		mode fs.FileMode
	}{
		{"", 0o555},
		{"", 0o000},
		{"msgs", 0o555},
		{"msgs", 0o000},
		{"obs", 0o555},
		{"obs/worker", 0o000},
		{"..", 0o000},
		{"../../../..", 0o555},
		{"meta.inf", 0o000},
		{"msgs/1.blk", 0o000},
		{"msgs/1.blk", 0o400},
		{"msgs/index.db", 0o000},
		{"obs/worker/meta.inf", 0o000},
	} {
		for _, clean := range []bool{true, false} {
			dir := store(t, 6, 10)
			worker(t, dir)
			m := remembered(t, dir, 6, clean)
			path := streamFile(dir, c.file)
			was, err := os.Stat(path)
			if err == nil {
				err = os.Chmod(path, c.mode)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, aside := range []string{"", filepath.Join(dir, "damaged")} {
				if _, err := Check(t.Context(), dir, Options{Memory: m, Aside: aside}); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("Check with mode %v of %q = %v, want that it is not permitted", c.mode, c.file, err)
				}
			}
			if err := os.Chmod(path, was.Mode()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "damaged")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("with mode %v of %q something is put aside: %v", c.mode, c.file, err)
			}
			if r := examine(t, dir, Options{Memory: m}); len(r.Findings) > 0 {
				t.Errorf("after mode %v of %q the check finds %+v", c.mode, c.file, r.Findings)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "remembered.json")
	if err := os.WriteFile(path, nil, 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMemory(path); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrForgotten) {
		t.Errorf("ReadMemory = %v, want that it is not permitted", err)
	}
}

// asNobody runs the test once more as the user nobody.
func asNobody(t *testing.T) {
	const nobody = 65534
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "test")
	b, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.WriteFile(bin, b, 0o755), os.Chmod(bin, 0o755), os.Chown(dir, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "GOCOVERDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
