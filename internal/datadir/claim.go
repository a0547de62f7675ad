package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Claim is the data folder of this process, which holds its lock.
type Claim struct {
	data string
	open map[string]*os.File // files and folders that must not be replaced, by path; one of them is the lock, another the store when it is there
}

// How often a process checks that the data folder is still its own, and how long a process with the lock waits for a previous owner that still
// answers.
const (
	lookEvery = 500 * time.Millisecond
	lastWord  = 5 * time.Second
)

// Store is the folder of the embedded server's store.
func Store(data string) string { return filepath.Join(data, "nats") }

func lockFile(data string) string { return filepath.Join(data, "lock") }

// Take locks the data folder for this process. It returns [ErrLocked] while another process runs on it.
func Take(ctx context.Context, data string) (*Claim, error) {
	if err := Make(data); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(lockFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if openfiles.None(err) {
		return nil, fmt.Errorf("the data folder %s: %w: %s", data, err, openfiles.Advice())
	}
	if disk.Full(err) {
		return nil, fmt.Errorf("the data folder %s cannot be written: %w: %s, or choose another with --data", data, err, disk.FullText(data))
	}
	if err != nil {
		return nil, fmt.Errorf("the data folder %s cannot be written: %w: choose another with --data", data, err)
	}
	err = tryLock(f)
	for try := 0; errors.Is(err, ErrLocked) && try < 10; try++ { // held may have the lock for a moment, to look
		time.Sleep(20 * time.Millisecond)
		err = tryLock(f)
	}
	c := &Claim{data: data, open: map[string]*os.File{lockFile(data): f}}
	if err == nil {
		err = c.Keep(data)
	}
	if err == nil {
		err = c.lost() // the lock file may have been replaced since it was opened
	}
	if err != nil {
		c.close()
		return nil, err
	}
	awaitPreviousOwner(ctx, data)
	if err := c.KeepStore(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.close()
		return nil, err
	}
	withdrawAddress(data) // left by a process that was killed
	return c, nil
}

// awaitPreviousOwner waits while a process still answers although its lock is free: somebody removed the lock file, and that process ends, and stops
// writing, as soon as it notices.
func awaitPreviousOwner(ctx context.Context, data string) {
	at, err := WhereNow(data)
	u, perr := url.Parse(at.URL)
	if err != nil || perr != nil {
		return
	}
	for end := time.Now().Add(lastWord); time.Now().Before(end); {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return
		}
		conn.Close()
		if rest.For(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// Keep makes Watch report when a folder is removed or replaced.
func (c *Claim) Keep(path string) error {
	f, err := openFolder(path)
	if err == nil {
		c.open[path] = f
	}
	return err
}

// openFolder opens a folder, or a file in its place, of which others say what is wrong. A pipe would block.
func openFolder(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a folder", path)
	}
	return os.Open(path)
}

// KeepStore is Keep for the store, which another data folder may lead to as well, by a link or a mount: it is locked itself, where the system can lock
// folders. A process that was killed may have its store for a moment longer than its data folder. The error wraps [fs.ErrNotExist] when there is no
// store.
func (c *Claim) KeepStore(ctx context.Context) error {
	path := Store(c.data)
	if c.open[path] != nil {
		return nil
	}
	f, err := openFolder(path)
	if err != nil {
		return err
	}
	for end := time.Now().Add(lastWord); errors.Is(tryLock(f), ErrLocked); {
		if err := rest.For(ctx, 20*time.Millisecond); err != nil {
			f.Close()
			return err
		}
		if time.Now().After(end) {
			f.Close()
			return fmt.Errorf("the store %s is in use: another cortex runs on it by way of another data folder, and both would destroy it: end that one, or choose another folder with --data", path)
		}
	}
	c.open[path] = f
	return nil
}

// lost returns an error when a file or folder of the claim has been removed or replaced. One that cannot be examined does not count as lost.
func (c *Claim) lost() error {
	for _, path := range slices.Sorted(maps.Keys(c.open)) { // the folder comes before its files
		own, err := c.open[path].Stat() // each time: on some file systems inode numbers change
		if err != nil {
			continue
		}
		is, err := os.Stat(path)
		what := "replaced"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			what = "removed"
		case err != nil || os.SameFile(own, is):
			continue
		}
		if path == lockFile(c.data) {
			return fmt.Errorf("the lock %s was %s while cortex runs: another one could write to the same files now, so this one ends; start it again, and leave the lock where it is", path, what)
		}
		return fmt.Errorf("the folder %s was %s while cortex runs: what it would store now would be lost, so it ends; put the folder back if you have it, and start again", path, what)
	}
	return nil
}

// Watch returns an error as soon as the data folder is no longer this process's, or nil when ctx ends.
func (c *Claim) Watch(ctx context.Context) error {
	for rest.For(ctx, lookEvery) == nil {
		if err := c.lost(); err != nil {
			return err
		}
	}
	return nil
}

// Release lets other processes have the data folder. It touches nothing in a folder that is lost, which may belong to another process by now.
func (c *Claim) Release() {
	if c.lost() == nil {
		withdrawAddress(c.data)
		giveBack(c.data)
	}
	c.close()
}

// close ends with the lock of the data folder: whoever has that finds the store free.
func (c *Claim) close() {
	last := c.open[lockFile(c.data)]
	for _, f := range c.open {
		if f != last {
			f.Close()
		}
	}
	last.Close()
}

// Make creates a folder that only its owner can read.
func Make(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the data folder %s cannot be written: choose another with --data", dir)
	}
	if disk.Full(err) {
		return fmt.Errorf("data folder: %w: %s, or choose another with --data", err, disk.FullText(filepath.Dir(dir)))
	}
	if err != nil {
		return fmt.Errorf("data folder: %w: choose another with --data", err)
	}
	return nil
}
