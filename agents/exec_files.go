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
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Environment variables that name the folders of a run.
const (
	filesVar = "CORTEX_FILES"
	outVar   = "CORTEX_OUT"
)

// maxTaskFiles bounds the files that one run gets, and those that it leaves, in bytes.
const maxTaskFiles = 256 << 20

const (
	folderPrefix = "cortex-task-"
	// folderAge is the age at which the folder of a killed agent is removed where its process is unknown: no task takes that long.
	folderAge = 7 * 24 * time.Hour
)

// removeFolders removes the folders that killed agents of this user have left: at once where the process that made a folder is known, as on
// Linux. Others may share the folder for temporary files: theirs are left alone, which may have any number of folders, or lead elsewhere meanwhile.
func removeFolders(now time.Time) {
	left, _ := os.ReadDir(os.TempDir()) // the next start tries again
	for _, e := range left {
		name, ours := strings.CutPrefix(e.Name(), folderPrefix)
		if !ours || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && isOwn(info) && (now.Sub(info.ModTime()) > folderAge || process.IsOrphan(name)) {
			(&folder{dir: filepath.Join(os.TempDir(), e.Name())}).remove()
		}
	}
}

// folder holds the files of a run's task and of its result. It is disabled when dir is empty.
type folder struct {
	dir   string
	root  *os.Root             // of dir as it was made, even if its path leads elsewhere now
	paths map[*a2a.Part]string // of the files of the task

	mu    sync.Mutex
	size  int64           // of all files that were written
	taken map[string]bool // names in in()
}

// newFolder makes a folder for a task. When none can be made, as in a container without room for temporary files, a task without files runs
// without a folder.
func newFolder(t *Task) (*folder, error) {
	dir, err := os.MkdirTemp("", folderPrefix+process.Name()+"-")
	if err != nil && len(t.Files()) == 0 {
		return &folder{}, nil
	}
	if err != nil {
		return nil, noFolder(err)
	}
	f := &folder{dir: dir, paths: map[*a2a.Part]string{}, taken: map[string]bool{}}
	for _, d := range []string{f.in(), f.out()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			f.remove()
			return nil, noFolder(err)
		}
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		f.remove()
		return nil, noFolder(err)
	}
	return f, nil
}

// noFolder is the error of [newFolder], which people read to whom the names of folders here say nothing.
func noFolder(err error) error {
	return fmt.Errorf("no folder for the files of the task: %w", taskfile.Pathless(err))
}

func (f *folder) in() string  { return filepath.Join(f.dir, "files") }
func (f *folder) out() string { return filepath.Join(f.dir, "out") }

func (f *folder) env() []string {
	if f.dir == "" {
		return []string{filesVar + "=", outVar + "="}
	}
	return []string{filesVar + "=" + f.in(), outVar + "=" + f.out()}
}

// remove removes the folder and everything that a program has left in it.
func (f *folder) remove() {
	if f.root != nil {
		_ = errors.Join(f.root.RemoveAll(filepath.Base(f.in())), f.root.RemoveAll(filepath.Base(f.out()))) // even if the folder was moved
		_ = f.root.Close()
	}
	if f.dir == "" || os.RemoveAll(f.dir) == nil {
		return
	}
	_ = filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error { // a program may have made folders unwritable
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) //nolint:gosec // a folder of this user's, which is removed
		}
		return nil
	})
	_ = os.RemoveAll(f.dir)
}

// fill writes the files of a task into the folder, under names that are safe and distinct.
func (f *folder) fill(ctx context.Context, t *Task) error {
	for _, file := range t.Files() {
		path, err := f.add(ctx, file)
		if err != nil {
			return err
		}
		f.paths[file.part] = path
	}
	return nil
}

// add writes a file into the folder, and returns its path. It is safe for concurrent use.
func (f *folder) add(ctx context.Context, file File) (string, error) {
	if f.dir == "" {
		return "", fmt.Errorf("%s: there is no folder for files", file.Name)
	}
	f.mu.Lock()
	if file.Size > maxTaskFiles-f.size {
		f.mu.Unlock()
		return "", fmt.Errorf("%w: the files of the task have more than %d bytes together", transport.ErrTooLarge, int64(maxTaskFiles))
	}
	f.size += file.Size
	name := freeName(file.Name, f.taken)
	f.mu.Unlock()
	return filepath.Join(f.in(), name), f.write(ctx, file, name)
}

// message returns the task as the program reads it, with a file: URL for each stored file. The program cannot use a reference and must not see
// the key in it.
func (f *folder) message(m *a2a.Message) *a2a.Message {
	if len(f.paths) == 0 {
		return m
	}
	said := *m
	said.Parts = f.located(m.Parts, transport.IsFileRef)
	return &said
}

// located returns parts with a file: URL for each file in the folder for which it is wanted.
func (f *folder) located(parts a2a.ContentParts, wanted func(*a2a.Part) bool) a2a.ContentParts {
	parts = slices.Clone(parts)
	for i, p := range parts {
		if path, ok := f.paths[p]; ok && wanted(p) {
			at := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
			parts[i] = &a2a.Part{Content: a2a.URL(at.String()), Filename: p.Filename, MediaType: p.MediaType}
		}
	}
	return parts
}

func (f *folder) write(ctx context.Context, file File, name string) error {
	r, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(filepath.Join(f.in(), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = io.Copy(w, r)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, taskfile.Pathless(err))
	}
	return nil
}

// freeName returns name, or a similar one that is not taken, also on a file system that ignores case.
func freeName(name string, taken map[string]bool) string {
	free := transport.FreeName(name, func(name string) bool { return taken[strings.ToLower(name)] })
	taken[strings.ToLower(free)] = true
	return free
}

// Bounds for collect, since a program can leave any number of files.
const (
	maxLooked = 10_000 // entries of the folder that are looked at, the first by name
	maxNotes  = 10     // notes about files that are left out
)

// collect adds the files that the program has left to the result, sorted by name. It reads the folder that was made for the run, even if its path
// leads elsewhere now. It leaves out what is not a regular file in the folder, and what exceeds the limits, with a note for each of the first
// maxNotes.
func (f *folder) collect(ctx context.Context, t *Task) (notes []string, err error) {
	if f.dir == "" {
		return nil, nil
	}
	out := filepath.Base(f.out())
	info, err := f.root.Lstat(out)
	if err != nil {
		return nil, nil // the program has removed it
	}
	if !info.IsDir() { // a link could lead to files of others
		return []string{"[" + outVar + " is no folder any more: nothing was taken from it]"}, nil
	}
	root, err := f.root.OpenRoot(out)
	if err != nil {
		return nil, fmt.Errorf("read what the program has left: %w", taskfile.Pathless(err))
	}
	defer root.Close()
	entries, more, err := firstEntries(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("read what the program has left: %w", taskfile.Pathless(err))
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
		if limit := t.maxFile(); info.Size() > limit {
			leave(fmt.Sprintf("[%s: left out, a file has at most %d bytes]", name, limit))
			continue
		}
		n++
		room -= info.Size()
		r, err := document.OpenRegularIn(ctx, root, e.Name()) // a process that still runs may have replaced the file by a pipe
		if err != nil {
			return notes, fmt.Errorf("read what the program has left: %w", taskfile.Pathless(err))
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

// firstEntries returns the first maxLooked entries of a folder by name, and the number of the others.
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
