package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// ErrTooLarge is wrapped by the errors for a file above its bound.
var ErrTooLarge = errors.New("too large")

// pipePatience bounds how long a pipe may have no writer, or nothing new to read. It leaves time for a program that makes a file as it is read.
const pipePatience = 30 * time.Second

// quiet is how long a file may keep a reader waiting before that is told, see [Telling].
const quiet = time.Second

type tellKey struct{}

// Telling returns a context with which readers tell that they wait for a pipe, a terminal or a device, since who has named it may not know that.
func Telling(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, tellKey{}, tell)
}

// Read returns the content of a file of at most most bytes. The file may be a pipe, a terminal or a device, which is read to its end or to one byte
// too many, so that an endless one is refused as too large. Waiting for it ends with ctx, and waiting for a pipe also when nothing comes of it for
// half a minute, for a file after [Patience]. Errors name the file.
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
	f, err := OpenRegular(context.Background(), path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	b, err := io.ReadAll(&File{f: f, path: path, left: most, most: most, came: func() {}, ended: func() error { return nil }})
	return b, f.Info(), err
}

// File is a file with a bound on its size. See [Open].
type File struct {
	f    io.ReadCloser
	path string
	left int // bytes
	most int

	ended func() error // returns why waiting has ended, or nil
	stop  func()
	came  func()      // something has come, or nobody waits
	late  *time.Timer // ends waiting for a pipe, or nil
	wait  time.Duration
}

// Open opens a file for reading piece by piece, with the bounds of [Read]. The caller closes it.
func Open(ctx context.Context, path string, most int) (*File, error) {
	return openFor(ctx, path, most, pipePatience)
}

func openFor(ctx context.Context, path string, most int, patience time.Duration) (*File, error) {
	info, err := stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, not a file", path)
	}
	ctx, end := context.WithCancelCause(ctx)
	o := &File{path: path, left: most, most: most, wait: patience, came: func() {}, ended: func() error { return context.Cause(ctx) }}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		o.late = time.AfterFunc(patience, func() {
			end(fmt.Errorf("%s is a pipe of which nothing has come for %s: does a program write to it? Else name a file", path, patience))
		})
	}
	if tell, ok := ctx.Value(tellKey{}).(func(string)); ok && !info.Mode().IsRegular() {
		t := time.AfterFunc(quiet, func() {
			tell("waiting for " + path + ", of which nothing has come: it is a pipe, a terminal or a device, and no plain file")
		})
		o.came = func() { t.Stop() }
	}
	if info.Mode().IsRegular() {
		o.f, err = OpenRegular(ctx, path)
	} else {
		o.f, err = openStream(ctx, path)
	}
	o.pause()
	if err != nil {
		o.came()
		end(nil)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		if !info.Mode().IsRegular() {
			o.f.Close() //nolint:errcheck // it unblocks Read
		}
	})
	o.stop = func() {
		o.came()
		stop()
		end(nil)
	}
	return o, nil
}

// pause stops the time that a pipe has, while nobody waits for it.
func (f *File) pause() {
	if f.late != nil {
		f.late.Stop()
	}
}

// Read implements [io.Reader]. The error wraps [ErrTooLarge] when the file exceeds its bound.
func (f *File) Read(b []byte) (int, error) {
	if f.left < 0 {
		return 0, f.tooLarge()
	}
	if f.late != nil {
		f.late.Reset(f.wait)
	}
	n, err := f.f.Read(b[:min(len(b), f.left+1)])
	f.pause()
	if n > 0 {
		f.came()
	}
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
