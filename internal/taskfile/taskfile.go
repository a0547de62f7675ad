// Package taskfile keeps a small file for each task that an agent needs to remember, such as a question or the outcome of a call, in a folder of the
// agent's machine. The name of a file tells its conversation, so that it can be erased with it, and its end whose it is, so that nobody's files make room
// for those of somebody else who keeps more.
package taskfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// A folder is swept when something is written to it, and this time has passed, or so many files were written, or this part of the bytes that it may have.
const (
	sweepEvery = time.Hour
	sweepAfter = 256
	sweepPart  = 8
)

// Folder keeps files. Its fields are set before the first use; its methods are safe for concurrent use, also by several processes.
type Folder struct {
	Dir   string
	Age   time.Duration // at which a file is removed
	Most  int           // files
	Bytes int64         // of all files; 0: any number

	// Warn says what a sweep has to say, as that of a logger; nil says nothing.
	Warn func(text string, attrs ...any)
	// Open reports whether the task of a file is not done; nil: nothing is said of the files that are removed. Then says what becomes of such a task.
	Open func(path string) bool
	Then string

	mu      sync.Mutex
	written int   // files since the last sweep
	bytes   int64 // of them
	swept   time.Time

	sweeps sync.Mutex       // of whoever sweeps, which may have to read all files: nobody waits for that to write another
	owners map[string]owned // of the files that the last sweep of a full folder has seen, by their names
	failed bool             // the last sweep after a write has, and it was said
}

// owned is whose a file was when it was last changed.
type owned struct {
	changed time.Time
	owner   string
}

// Path returns the file of a task.
func (f *Folder) Path(tenant, contextID string, task a2a.TaskID) string {
	return filepath.Join(f.Dir, prefix(tenant, contextID)+digest(string(task))+".json")
}

// names matches what Path returns, with what Write adds until a file is whole. Version 0.1.0 had no conversation in it.
var names = regexp.MustCompile(`^([0-9a-f]{32}-)?[0-9a-f]{32}\.json(\.[0-9]+)?$`)

// prefix begins the names of a conversation's files.
func prefix(tenant, contextID string) string { return digest(tenant, contextID) + "-" }

func digest(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Write writes and syncs the file at path atomically, and sweeps now and then. What was written is there also when the sweep fails, which Warn says once.
func (f *Folder) Write(path string, b []byte) error {
	if err := Write(path, b); err != nil {
		return err
	}
	f.count(int64(len(b)))
	if !f.sweeps.TryLock() { // then it counts for the next sweep
		return nil
	}
	defer f.sweeps.Unlock()
	if now := time.Now(); f.due(now) {
		err := f.sweep(now)
		if err != nil && !f.failed {
			f.warn("old files of tasks cannot be removed", "folder", f.Dir, "err", err)
		}
		f.failed = err != nil
	}
	return nil
}

func (f *Folder) warn(text string, attrs ...any) {
	if f.Warn != nil {
		f.Warn(text, attrs...)
	}
}

// count notes that a file of this size was written.
func (f *Folder) count(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written++
	f.bytes += size
}

// due reports whether the folder is to be swept, for a caller that holds f.sweeps and does so.
func (f *Folder) due(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written < sweepAfter && (f.Bytes == 0 || f.bytes <= f.Bytes/sweepPart) && now.Sub(f.swept) < sweepEvery {
		return false
	}
	f.written, f.bytes, f.swept = 0, 0, now
	return true
}

// Sweep removes old files, and if there are too many the oldest ones of whoever has most. Files that have no names of [Folder.Path] are somebody else's, and stay.
func (f *Folder) Sweep(now time.Time) error {
	f.sweeps.Lock()
	defer f.sweeps.Unlock()
	return f.sweep(now)
}

// sweep is Sweep for a caller that holds f.sweeps.
func (f *Folder) sweep(now time.Time) error {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return err
	}
	old, many := 0, 0 // of tasks that are not done
	defer func() {
		if old > 0 {
			f.warn("records of tasks without a result were removed, since they are old: those that have failed, or wait for a reply no longer, need none; if others were open, see whether the clock of this machine was set forward",
				"tasks", old, "older", f.Age, "folder", f.Dir, "then", f.Then)
		}
		if many > 0 {
			f.warn("records of tasks without a result were removed, since there are too many", "tasks", many, "folder", f.Dir, "then", f.Then)
		}
	}()
	var all []fs.FileInfo
	size := int64(0)
	for _, e := range entries {
		if !names.MatchString(e.Name()) {
			continue
		}
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case now.Sub(info.ModTime()) >= f.Age:
			if err := f.drop(info.Name(), &old); err != nil {
				return err
			}
		default:
			all = append(all, info)
			size += info.Size()
		}
	}
	if len(all) <= f.Most && (f.Bytes == 0 || size <= f.Bytes) {
		return nil
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	shares := f.shares(all)
	for left := len(all); left > 0; left-- {
		var from *share
		switch {
		case left > f.Most:
			from = slices.MaxFunc(shares, func(a, b *share) int {
				return cmp.Or(cmp.Compare(len(a.files), len(b.files)), b.oldest().Compare(a.oldest()))
			})
		case f.Bytes > 0 && size > f.Bytes:
			from = slices.MaxFunc(shares, func(a, b *share) int { return cmp.Or(cmp.Compare(a.bytes, b.bytes), b.oldest().Compare(a.oldest())) })
		default:
			return nil
		}
		if err := f.drop(from.files[0].Name(), &many); err != nil {
			return err
		}
		size -= from.files[0].Size()
		from.bytes -= from.files[0].Size()
		from.files = from.files[1:]
	}
	return nil
}

// drop removes a file, and counts it if its task is not done.
func (f *Folder) drop(name string, open *int) error {
	is := f.Open != nil && f.Open(filepath.Join(f.Dir, name))
	if err := remove(f.Dir, name); err != nil {
		return err
	}
	if is {
		*open++
	}
	return nil
}

// share is what one owner has in a folder.
type share struct {
	files []fs.FileInfo // the oldest first
	bytes int64
}

// oldest returns the time of the oldest file, which is later than all others if there is none.
func (s *share) oldest() time.Time {
	if len(s.files) == 0 {
		return time.Unix(1<<40, 0)
	}
	return s.files[0].ModTime()
}

// shares returns the shares of all owners, of files that are sorted by age. A file that names no owner is its conversation's, or else nobody's.
func (f *Folder) shares(files []fs.FileInfo) (all []*share) {
	known, by := map[string]owned{}, map[string]*share{}
	for _, info := range files {
		name := info.Name()
		is, ok := f.owners[name]
		if !ok || !is.changed.Equal(info.ModTime()) {
			is = owned{info.ModTime(), ownerOf(filepath.Join(f.Dir, name))}
			if is.owner == "" {
				if conversation, _, ok := strings.Cut(name, "-"); ok {
					is.owner = conversation
				}
			}
		}
		known[name] = is
		s := by[is.owner]
		if s == nil {
			s = &share{}
			by[is.owner] = s
			all = append(all, s)
		}
		s.files = append(s.files, info)
		s.bytes += info.Size()
	}
	f.owners = known
	return all
}

// Forget removes the files of a conversation from a folder, which need not exist.
func Forget(dir, tenant, contextID string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix(tenant, contextID)) {
			err = errors.Join(err, remove(dir, e.Name()))
		}
	}
	return err
}

// Below calls forget with the folder of each agent in dir, which need not exist, and joins the errors.
func Below(dir string, forget func(agent string) error) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, a := range all {
		if a.IsDir() {
			err = errors.Join(err, forget(filepath.Join(dir, a.Name())))
		}
	}
	return err
}

// remove removes a file, which another process may have removed.
func remove(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Write writes and syncs a file atomically. The folder is made if there is none.
func Write(path string, b []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	_ = dir.Sync() // not all systems can sync folders
	return dir.Close()
}
