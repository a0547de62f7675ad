package nats

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxReserveFile = 32 << 20         // bytes; on a small disk, half of what new messages leave free
	reserveAfter   = 10 * time.Second // how long the server runs before the file is made
)

// reserve is a file that occupies space on the disk of the store. A start on a full disk removes it: the server cannot start without writing, and
// without a server no conversation can be deleted.
type reserve struct {
	file string
	disk func(dir string) (free, size uint64, err error)
	log  *slog.Logger
}

func newReserve(o *ServerOptions, log *slog.Logger) *reserve {
	r := &reserve{file: filepath.Join(o.Dir, "reserve"), disk: o.disk, log: log}
	if r.disk == nil {
		r.disk = diskOf
	}
	return r
}

// sizeOf returns the size of the file, in bytes, on a disk of this size.
func (r *reserve) sizeOf(disk uint64) uint64 { return min(talkOf(disk)/2, maxReserveFile) }

// giveUp removes the file if less than its size is free.
func (r *reserve) giveUp() {
	free, size, err := r.disk(filepath.Dir(r.file))
	if err != nil || free >= r.sizeOf(size) {
		return
	}
	switch err := os.Remove(r.file); {
	case errors.Is(err, fs.ErrNotExist): // it was given up before, or this is a new store
	case err != nil:
		r.log.Warn("the disk of the store is full, and the reserve cannot be given up", "file", r.file, "err", err)
	default:
		r.log.Warn("the disk of the store is full: the reserve is given up for this start",
			"free", transport.SizeText(int64(free)), "do", "make room on the disk, or delete conversations (`cortex conversations delete`), before anything else")
	}
}

// make writes the file if it does not exist and the disk has plenty of free space. Its bytes are random, since some file systems store zeros without
// using space.
func (r *reserve) make() error {
	if _, err := os.Lstat(r.file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	free, size, err := r.disk(filepath.Dir(r.file))
	n := r.sizeOf(size)
	if least := reserveOf(size); err != nil || free < least+least/4+n {
		return err
	}
	f, err := os.OpenFile(r.file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, int64(n))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return os.Rename(f.Name(), r.file)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// keepReserve makes the reserve if it does not exist.
func (r *diskRoom) keepReserve() {
	if r.reserve == nil {
		return
	}
	if err := r.reserve.make(); err != nil {
		r.log.Debug("there is no reserve on the disk of the store", "err", err)
	}
}
