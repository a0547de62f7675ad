package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Variables that name the folders of a run.
const (
	filesVar = "CORTEX_FILES"
	outVar   = "CORTEX_OUT"
)

// maxTaskFiles bounds the files that one run gets, and those that it leaves, in bytes.
const maxTaskFiles = 256 << 20

const (
	folderPrefix = "cortex-task-"
	// folderAge is how old a folder is that an agent which was killed has left: no task takes so long.
	folderAge = 7 * 24 * time.Hour
)

// removeFolders removes the folders that agents of this user have left which were killed.
func removeFolders(now time.Time) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > folderAge {
			(&folder{dir}).remove() // that of another user stays
		}
	}
}

// folder is where a run of a program finds the files of its task, and leaves those of its result.
type folder struct{ dir string }

func newFolder() (*folder, error) {
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("no folder for the files of the task: %w", err)
	}
	f := &folder{dir}
	for _, d := range []string{f.in(), f.out()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			f.remove()
			return nil, fmt.Errorf("no folder for the files of the task: %w", err)
		}
	}
	return f, nil
}

func (f *folder) in() string  { return filepath.Join(f.dir, "files") }
func (f *folder) out() string { return filepath.Join(f.dir, "out") }

func (f *folder) env() []string { return []string{filesVar + "=" + f.in(), outVar + "=" + f.out()} }

// remove removes the folder, with what a program has left in it.
func (f *folder) remove() {
	if os.RemoveAll(f.dir) == nil {
		return
	}
	_ = filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error { // it may have taken its own rights away
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) //nolint:gosec // a folder of this user's, which is removed
		}
		return nil
	})
	_ = os.RemoveAll(f.dir)
}

// fill writes the files of a task into the folder. Their names are made safe, and told apart when several files have the same.
func (f *folder) fill(ctx context.Context, t *Task) error {
	room, taken := int64(maxTaskFiles), map[string]bool{}
	for _, file := range t.Files() {
		if room -= file.Size; room < 0 {
			return fmt.Errorf("%w: the files of the task have more than %d bytes together", transport.ErrTooLarge, int64(maxTaskFiles))
		}
		if err := f.write(ctx, file, freeName(file.Name, taken)); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) write(ctx context.Context, file File, name string) error {
	r, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(filepath.Join(f.in(), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// freeName returns name, or one like it that is not taken, whatever a file system thinks of upper and lower case.
func freeName(name string, taken map[string]bool) string {
	free := transport.FreeName(name, func(name string) bool { return taken[strings.ToLower(name)] })
	taken[strings.ToLower(free)] = true
	return free
}

// collect adds what the program has left to the result, by the names in the order of the alphabet. What is no file of the folder itself is
// left out, and so is what is too much; it says so in a line for each.
func (f *folder) collect(ctx context.Context, t *Task) (notes []string, err error) {
	root, err := os.OpenRoot(f.out())
	if err != nil {
		return nil, nil // it has removed it
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("read what the program has left: %w", pathless(err))
	}
	n, room, taken := 0, int64(maxTaskFiles), map[string]bool{}
	for _, e := range entries {
		name := transport.FileName(e.Name(), "", n+1)
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			notes = append(notes, "["+name+": left out, it is no file]")
			continue
		case n == transport.MaxFiles || info.Size() > room:
			notes = append(notes, fmt.Sprintf("[%s: left out, a result has at most %d files and %d bytes]", name, transport.MaxFiles, int64(maxTaskFiles)))
			continue
		}
		n++
		room -= info.Size()
		r, err := root.Open(e.Name())
		if err != nil {
			return notes, fmt.Errorf("read what the program has left: %w", pathless(err))
		}
		err = t.AddFile(ctx, freeName(name, taken), "", r)
		_ = r.Close() // it was only read
		if err != nil {
			return notes, err
		}
	}
	return notes, nil
}
