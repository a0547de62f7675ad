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
	// page is how many bytes are skipped where a file cannot be read.
	page = 64 << 10
	// maxPages bounds the skipped pages, since a failing disk is slow for each.
	maxPages = 16
)

var (
	errNoFile   = errors.New("it is not a regular file")
	errNoFolder = errors.New("it is not a folder")
	errLink     = errors.New("it is a link to a file: put the file itself there")
)

// readBounded reads a file, up to maxBlock bytes. With an error of reading it returns what could be read, with zeros for the rest. It opens only
// regular files: a pipe would block.
func readBounded(path string) ([]byte, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readPages(f, int(min(size, maxBlock)))
}

// open opens a regular file for reading. A server would follow a link to a file, but replacing the link here would separate it from its target.
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

// readPages reads up to size bytes and skips pages that cannot be read.
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

// readFolder returns the entries of a folder.
func readFolder(path string) ([]fs.DirEntry, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || gone(err) && exists(path) {
		return nil, errNoFolder // or a dangling link
	}
	if err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

// gone reports whether err says that a file is missing.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// unlessGone returns err unless it says that a file is missing.
func unlessGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// isLocal reports whether err concerns this process (its permissions or open files) and not the file.
func isLocal(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, errLink) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// advised adds advice to err.
func advised(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: give the store to the user who runs cortex", err)
	}
	return err
}

// plain returns err without its path.
func plain(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}
