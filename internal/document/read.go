package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrTooLarge is wrapped by the errors for a file above its bound.
var ErrTooLarge = errors.New("too large")

// Read returns the content of a file of at most most bytes. The file may be a pipe, a terminal or a device, which is read to its end or to one byte
// too many, so that an endless one is refused as too large. Waiting for it ends with ctx. Errors name the file.
func Read(ctx context.Context, path string, most int) ([]byte, error) {
	f, err := Open(ctx, path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	return io.ReadAll(f)
}

// ReadRegular is [Read] for files that are read again, or whose owner and mode matter: it refuses a pipe or a device. It also returns the
// information of the file that was read, since another file may have that name by now.
func ReadRegular(path string, most int) ([]byte, fs.FileInfo, error) {
	info, err := stat(path) // before opening it: opening a pipe blocks
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(&File{f: f, path: path, left: most, most: most, ended: func() error { return nil }})
	return b, info, err
}

// File is a file with a bound on its size. See [Open].
type File struct {
	f    *os.File
	path string
	left int // bytes
	most int

	ended func() error // returns why waiting has ended, or nil
	stop  func() bool
}

// Open opens a file for reading piece by piece, with the bounds of [Read]. The caller closes it.
func Open(ctx context.Context, path string, most int) (*File, error) {
	info, err := stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, not a file", path)
	}
	var f *os.File
	if info.Mode().IsRegular() {
		f, err = open(path)
	} else {
		f, err = openStream(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	return &File{
		f: f, path: path, left: most, most: most,
		ended: func() error { return context.Cause(ctx) },
		stop:  context.AfterFunc(ctx, func() { f.Close() }), //nolint:errcheck // it unblocks Read
	}, nil
}

// Read implements [io.Reader]. The error wraps [ErrTooLarge] when the file exceeds its bound.
func (f *File) Read(b []byte) (int, error) {
	if f.left < 0 {
		return 0, f.tooLarge()
	}
	n, err := f.f.Read(b[:min(len(b), f.left+1)])
	if f.left -= n; f.left < 0 {
		return n + f.left, f.tooLarge()
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if ended := f.ended(); ended != nil {
		return n, ended
	}
	return n, plain(f.path, err)
}

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.f.Close()
}

func (f *File) tooLarge() error {
	return fmt.Errorf("%s is %w: at most %d bytes are allowed", f.path, ErrTooLarge, f.most)
}

// openStream opens a file that may block until another process opens the other end. When ctx ends first, the goroutine stays until the process
// ends, since only the other end wakes it.
func openStream(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened)
	go func() {
		f, err := open(path)
		select {
		case done <- opened{f, err}:
		case <-ctx.Done():
			f.Close() //nolint:errcheck // nobody reads it
		}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	return f, plain(path, err)
}

func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	return info, plain(path, err)
}

// plain removes the name of the system call from err, and keeps the file's.
func plain(path string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path, failed.Err)
	}
	return err
}
