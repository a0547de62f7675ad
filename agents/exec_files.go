package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/process"
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
	// folderAge is how old a folder is that an agent which was killed has left, where nobody can say whose it was: no task takes so long.
	folderAge = 7 * 24 * time.Hour
)

// removeFolders removes the folders that agents of this user have left which were killed: where it is known which process has made one, as on
// Linux, at once.
func removeFolders(now time.Time) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if now.Sub(info.ModTime()) > folderAge || process.IsOrphan(strings.TrimPrefix(filepath.Base(dir), folderPrefix)) {
			(&folder{dir: dir}).remove() // that of another user stays
		}
	}
}

// folder is where a run of a program finds the files of its task, and leaves those of its result. Without a dir there is none.
type folder struct {
	dir   string
	root  *os.Root             // of dir as it was made, wherever its path may lead by now
	paths map[*a2a.Part]string // of the files of the task
}

// newFolder makes a folder for a task. Where none can be made, as in a container that has no room for temporary files, a task without files is
// done without one.
func newFolder(t *Task) (*folder, error) {
	dir, err := os.MkdirTemp("", folderPrefix+process.Name()+"-")
	if err != nil && len(t.Files()) == 0 {
		return &folder{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("no folder for the files of the task: %w", err)
	}
	f := &folder{dir: dir, paths: map[*a2a.Part]string{}}
	for _, d := range []string{f.in(), f.out()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			f.remove()
			return nil, fmt.Errorf("no folder for the files of the task: %w", err)
		}
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		f.remove()
		return nil, fmt.Errorf("no folder for the files of the task: %w", err)
	}
	return f, nil
}

func (f *folder) in() string  { return filepath.Join(f.dir, "files") }
func (f *folder) out() string { return filepath.Join(f.dir, "out") }

func (f *folder) env() []string {
	if f.dir == "" {
		return []string{filesVar + "=", outVar + "="}
	}
	return []string{filesVar + "=" + f.in(), outVar + "=" + f.out()}
}

// remove removes the folder, with what a program has left in it.
func (f *folder) remove() {
	if f.root != nil {
		_ = errors.Join(f.root.RemoveAll(filepath.Base(f.in())), f.root.RemoveAll(filepath.Base(f.out()))) // wherever it was moved to
		_ = f.root.Close()
	}
	if f.dir == "" || os.RemoveAll(f.dir) == nil {
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
		name := freeName(file.Name, taken)
		if err := f.write(ctx, file, name); err != nil {
			return err
		}
		f.paths[file.part] = filepath.Join(f.in(), name)
	}
	return nil
}

// message returns the task as a program reads it: a file that is not in it, but stored, is named by where the program finds it. The program has no
// use for a reference, nor for the key in it.
func (f *folder) message(m *a2a.Message) *a2a.Message {
	if len(f.paths) == 0 {
		return m
	}
	said := *m
	said.Parts = slices.Clone(m.Parts)
	for i, p := range said.Parts {
		if path, ok := f.paths[p]; ok && transport.IsFileRef(p) {
			at := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
			said.Parts[i] = &a2a.Part{Content: a2a.URL(at.String()), Filename: p.Filename, MediaType: p.MediaType}
		}
	}
	return &said
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

// Bounds of what a run leaves: a program can leave any number of files.
const (
	maxLooked = 10_000 // entries of the folder, the first by the alphabet, that are looked at
	maxNotes  = 10     // of those that are left out, which are named
)

// collect adds what the program has left to the result, by the names in the order of the alphabet. The folder is the one that was made for the
// run, also when its path leads elsewhere by now. What is no file of the folder itself is left out, and so is what is too much; it says so in a
// line for each of the first.
func (f *folder) collect(ctx context.Context, t *Task) (notes []string, err error) {
	if f.dir == "" {
		return nil, nil
	}
	out := filepath.Base(f.out())
	info, err := f.root.Lstat(out)
	if err != nil {
		return nil, nil // it has removed it
	}
	if !info.IsDir() { // a link leads to files that are not of this run
		return []string{"[" + outVar + " is no folder any more: nothing was taken from it]"}, nil
	}
	root, err := f.root.OpenRoot(out)
	if err != nil {
		return nil, fmt.Errorf("read what the program has left: %w", pathless(err))
	}
	defer root.Close()
	entries, more, err := firstEntries(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("read what the program has left: %w", pathless(err))
	}
	n, room, taken := 0, int64(maxTaskFiles), map[string]bool{}
	leave := func(note string) {
		if len(notes) < maxNotes {
			notes = append(notes, note)
		} else {
			more++
		}
	}
	for _, e := range entries {
		name := transport.FileName(e.Name(), "", n+1)
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			leave("[" + name + ": left out, it is no file]")
			continue
		case n == transport.MaxFiles || info.Size() > room:
			leave(fmt.Sprintf("[%s: left out, a result has at most %d files and %d bytes]", name, transport.MaxFiles, int64(maxTaskFiles)))
			continue
		}
		n++
		room -= info.Size()
		r, err := document.OpenRegularIn(ctx, root, e.Name()) // what the program has left running may have put a pipe there
		if err != nil {
			return notes, fmt.Errorf("read what the program has left: %w", pathless(err))
		}
		err = t.AddFile(ctx, freeName(name, taken), "", r)
		_ = r.Close() // it was only read
		if err != nil {
			return notes, err
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("[and %d more: left out]", more))
	}
	return notes, nil
}

// firstEntries returns the first entries of a folder by their names, and how many there are beside those.
func firstEntries(ctx context.Context, root *os.Root) (first []fs.DirEntry, more int, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	for {
		some, err := dir.ReadDir(maxLooked)
		first = append(first, some...)
		slices.SortFunc(first, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		if over := len(first) - maxLooked; over > 0 {
			more += over
			first = slices.Delete(first, maxLooked, len(first))
		}
		switch {
		case errors.Is(err, io.EOF):
			return first, more, nil
		case err != nil:
			return nil, 0, err
		case ctx.Err() != nil:
			return nil, 0, context.Cause(ctx)
		}
	}
}
