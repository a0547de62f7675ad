package storecheck

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// page is how much is left out where a file cannot be read.
	page = 64 << 10
	// maxPages bounds those, since a disk that fails takes its time for each.
	maxPages = 16
)

var (
	errNoFile   = errors.New("it is not a regular file")
	errNoFolder = errors.New("it is not a folder")
	errLink     = errors.New("it is a link to a file: put the file itself there")
)

// readBounded reads a file as far as it may reach. Beside the error for one that cannot be read it returns what of it can, with zeros
// for the rest. Nothing but a regular file is opened: a pipe would wait for ever.
func readBounded(path string) ([]byte, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readPages(f, int(min(size, maxBlock)))
}

// open opens a regular file to read it. A server follows a link to one, but what is made anew here would no longer be where it leads.
func open(path string) (f *os.File, size int64, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, 0, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := os.Stat(path); err == nil && to.Mode().IsRegular() {
			return nil, 0, &fs.PathError{Op: "open", Path: path, Err: errLink}
		}
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errNoFile
	}
	f, err = os.Open(path)
	return f, info.Size(), err
}

// readPages reads size bytes, as far as there are as many, and leaves out what cannot be read.
func readPages(f io.ReaderAt, size int) (b []byte, unreadable error) {
	b = make([]byte, size)
	for at, pages := 0, 0; at < size; pages++ {
		n, err := f.ReadAt(b[at:], int64(at))
		switch at += n; {
		case errors.Is(err, io.EOF):
			return b[:at], unreadable
		case err == nil:
			return b, unreadable
		case pages == maxPages:
			return b[:at], err
		}
		unreadable = err
		end := min((at/page+1)*page, size)
		clear(b[at:end])
		at = end
	}
	return b, unreadable
}

// readFolder returns what is in a folder.
func readFolder(path string) ([]fs.DirEntry, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || gone(err) && there(path) {
		return nil, errNoFolder // or a link to nowhere
	}
	if err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

// gone reports whether an error says that a file is not there.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// unlessGone returns an error that says something else.
func unlessGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// ours reports whether an error is about this process, which has too much open or may not do something, and not about the file.
func ours(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, errLink) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// advised adds to an error what to do about it.
func advised(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: give the store to the user who runs cortex", err)
	}
	return err
}

// plain returns an error without the path that it is about.
func plain(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
