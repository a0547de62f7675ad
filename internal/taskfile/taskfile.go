// Package taskfile keeps a small file for each task that an agent needs to remember, such as a question or the outcome of a call, in a folder of the
// agent's machine. The name of a file tells its conversation, so that it can be erased with it.
package taskfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// A folder is swept when something is written to it, and this time has passed, or so many files were written.
const (
	sweepEvery = time.Hour
	sweepAfter = 256
)

// Folder keeps files. Its fields are set before the first use; its methods are safe for concurrent use, also by several processes.
type Folder struct {
	Dir   string
	Age   time.Duration // at which a file is removed
	Most  int           // files
	Bytes int64         // of all files; 0: any number

	mu      sync.Mutex
	written int
	swept   time.Time
}

// Path returns the file of a task.
func (f *Folder) Path(tenant, contextID string, task a2a.TaskID) string {
	return filepath.Join(f.Dir, prefix(tenant, contextID)+digest(string(task))+".json")
}

// prefix begins the names of a conversation's files.
func prefix(tenant, contextID string) string { return digest(tenant, contextID) + "-" }

func digest(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Write writes and syncs the file at path atomically, and sweeps now and then.
func (f *Folder) Write(path string, b []byte) error {
	if err := Write(path, b); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written++
	if now := time.Now(); f.written >= sweepAfter || now.Sub(f.swept) >= sweepEvery {
		f.written, f.swept = 0, now
		return f.Sweep(now)
	}
	return nil
}

// Sweep removes old files, and the oldest ones if there are too many.
func (f *Folder) Sweep(now time.Time) error {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return err
	}
	var all []fs.FileInfo
	size := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, info)
			size += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for i, info := range all {
		if now.Sub(info.ModTime()) < f.Age && len(all)-i <= f.Most && (f.Bytes == 0 || size <= f.Bytes) {
			break
		}
		size -= info.Size()
		if err := remove(f.Dir, info.Name()); err != nil {
			return err
		}
	}
	return nil
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
