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

	"github.com/cortex-orchestrator/cortex/internal/disk"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// reserveBytes is the size of the reserve on any disk. To free space, the server first writes a new copy of a block of up to 8 MB; each half of the
	// reserve has room for two.
	reserveBytes = 32 << 20
	reserveAfter = 10 * time.Second // how long the server runs before the file is made
	reserveAgain = 10 * time.Minute // pause after the file could not be made: each try may write all of it
)

// reserve is a file that occupies space on the disk of the store. A start on a full disk gives up half of it: the server cannot start without
// writing, and without a server no conversation can be deleted. The file stays as a sign of that, be it empty, until there is room for all of it.
type reserve struct {
	file string
	disk func(dir string) (free, size uint64, err error)
	log  *slog.Logger
	next time.Time // it is not tried before
}

func newReserve(o *ServerOptions, log *slog.Logger) *reserve {
	r := &reserve{file: filepath.Join(o.Dir, "reserve"), disk: o.disk, log: log}
	if r.disk == nil {
		r.disk = disk.Room
	}
	return r
}

// size returns the size of the file; ok is false when there is none. A link in its place may lead to something that is needed, which is not to be given up.
func (r *reserve) size() (n uint64, ok bool) {
	info, err := os.Lstat(r.file)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return uint64(max(info.Size(), 0)), true
}

// given returns how many bytes of the reserve were given up.
func (r *reserve) given() uint64 {
	n, ok := r.size()
	if !ok {
		return 0
	}
	return reserveBytes - min(n, reserveBytes)
}

// giveUp gives up half of the reserve if less than that is free: the first half, or what is left.
func (r *reserve) giveUp() {
	free, _, err := r.disk(filepath.Dir(r.file))
	n, ok := r.size()
	if err != nil || free >= reserveBytes/2 || !ok || n == 0 {
		return
	}
	keep := int64(reserveBytes / 2)
	if n <= reserveBytes/2 {
		keep = 0
	}
	if err := os.Truncate(r.file, keep); err != nil {
		r.log.Warn("the disk of the store is full, and the reserve cannot be given up", "file", r.file, "err", err)
		return
	}
	r.log.Warn("the disk of the store is full: a part of the reserve is given up for this start",
		"free", transport.SizeText(int64(free)), "left", transport.SizeText(keep), "do", "make room on the disk, or delete conversations (`cortex conversations delete`), before anything else")
}

// make writes the file if it is not whole and the disk has plenty of free space. Its bytes are random, since some file systems store zeros without
// using space.
func (r *reserve) make() error {
	if n, _ := r.size(); n >= reserveBytes {
		return nil
	}
	free, size, err := r.disk(filepath.Dir(r.file))
	if least := reserveOf(size); err != nil || free < least+least/4+reserveBytes {
		return err
	}
	half := r.file + ".new"
	if err := os.Remove(half); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed; or a pipe, which would block
		return err
	}
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // not by a link, which may lead to something that is needed
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, reserveBytes)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(half, r.file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(half))
	}
	return err
}

// keepReserve makes the reserve if it does not exist.
func (r *diskRoom) keepReserve() {
	if r.reserve == nil || time.Now().Before(r.reserve.next) {
		return
	}
	if err := r.reserve.make(); err != nil {
		r.reserve.next = time.Now().Add(reserveAgain)
		r.log.Warn("there is no reserve on the disk of the store: a start on a full disk would fail", "file", r.reserve.file, "err", err,
			"do", "remove what is in its place, or see what limits its size", "again_in", reserveAgain)
	}
}
