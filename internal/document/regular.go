package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Patience bounds one read of a [Regular]. Some files claim to be regular but block, such as /proc/kmsg, or one on an unreachable network disk.
const Patience = 10 * time.Second

// regularPiece is the size of one read, in bytes.
const regularPiece = 256 << 10

// Regular is a regular file that one goroutine reads sequentially, without blocking for long. See [OpenRegular].
type Regular struct {
	f    waiting
	info fs.FileInfo
	path string
	ctx  context.Context //nolint:containedctx // of its reader: an io.Reader is given none

	piece []byte
	rest  []byte // the unread part of piece
	err   error  // of the last read
	left  bool   // a blocked read was abandoned, which still uses piece
}

// waiting is a file whose reads may block.
type waiting interface {
	io.ReadSeekCloser
}

// OpenRegular opens a regular file for reading. It refuses a pipe or a device without reading from it or blocking, even when that has just replaced
// the file. Reads end with ctx, and fail when no data comes within [Patience]. Errors name the file.
func OpenRegular(ctx context.Context, path string) (*Regular, error) {
	if _, err := StatRegular(path); err != nil { // opening a device may have effects
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return checked(ctx, path, f, err)
}

// OpenRegularIn is OpenRegular for a file in a folder. It follows no link out of the folder.
func OpenRegularIn(ctx context.Context, root *os.Root, name string) (*Regular, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return checked(ctx, name, f, err)
}

func checked(ctx context.Context, path string, f *os.File, err error) (*Regular, error) {
	if err != nil {
		return nil, plain(path, err)
	}
	info, err := f.Stat()
	if err = plain(path, err); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return &Regular{f: f, info: info, path: path, ctx: ctx}, nil
}

// StatRegular returns the file's information, and an error unless the file is regular.
func StatRegular(path string) (fs.FileInfo, error) {
	info, err := stat(path)
	if err == nil {
		err = regular(path, info)
	}
	return info, err
}

// regular returns an error that says what path is instead of a regular file.
func regular(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a folder, not a file", path)
	default:
		return fmt.Errorf("%s is no file but a pipe, a socket or a device: name a file", path)
	}
}

// Info returns the information of the opened file.
func (r *Regular) Info() fs.FileInfo { return r.info }

// Read implements [io.Reader].
func (r *Regular) Read(b []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		r.fill()
	}
	n := copy(b, r.rest)
	if r.rest = r.rest[n:]; n > 0 || len(b) == 0 {
		return n, nil
	}
	return 0, r.err
}

// fill reads the next piece. It abandons a read that takes too long, which only closing the file may end.
func (r *Regular) fill() {
	if r.err = context.Cause(r.ctx); r.err != nil {
		return
	}
	if r.piece == nil {
		r.piece = make([]byte, min(max(r.size()+1, 512), regularPiece)) // with room for what tells the end of a small file
	}
	type read struct {
		n   int
		err error
	}
	done := make(chan read, 1)
	go func() {
		n, err := r.f.Read(r.piece)
		done <- read{n, err}
	}()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case got := <-done:
		r.rest = r.piece[:got.n]
		if r.err = got.err; r.err != nil && !errors.Is(r.err, io.EOF) {
			r.err = fmt.Errorf("read %w", plain(r.path, r.err))
		}
		return
	case <-r.ctx.Done():
		r.err = context.Cause(r.ctx)
	case <-late.C:
		r.err = fmt.Errorf("read %s: nothing came of it for %s: it is no plain file, or its disk does not answer", r.path, Patience)
	}
	r.left = true
	_ = r.f.Close() // the file was only read
}

// size returns the size of the file as its information has it, which is 0 for some that are not empty.
func (r *Regular) size() int64 {
	if r.info == nil {
		return regularPiece
	}
	return r.info.Size()
}

// Rewind continues reading from the beginning.
func (r *Regular) Rewind() error {
	if r.left {
		return r.err
	}
	if _, err := r.f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %w", plain(r.path, err))
	}
	r.rest, r.err = nil, nil
	return nil
}

// Close closes the file. It does not block.
func (r *Regular) Close() error {
	if r.left {
		return nil
	}
	return r.f.Close()
}
