package storecheck

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// aside returns the path to which a damaged file of the stream is moved.
func (s *checking) aside(file string) string {
	return filepath.Join(s.o.Aside, s.account, s.name, filepath.FromSlash(file))
}

// putAside moves a file or folder of the stream to aside and returns the new path, unless nothing may be changed. If a file that Cortex can do
// without cannot be moved, putAside removes it.
func (s *checking) putAside(file string) (string, error) {
	from := filepath.Join(s.root, filepath.FromSlash(file))
	if s.o.Aside == "" || !exists(from) {
		return "", nil
	}
	to := s.aside(file)
	if !s.mayMove {
		return to, nil
	}
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = move(from, to)
	}
	if err != nil && Convenient(s.name) {
		return "", os.RemoveAll(from)
	}
	return to, err
}

// keepAside writes bytes that were cut out of a file to aside, under the same conditions.
func (s *checking) keepAside(file string, b []byte) (string, error) {
	if s.o.Aside == "" || len(b) == 0 {
		return "", nil
	}
	to := s.aside(file)
	if !s.mayMove {
		return to, nil
	}
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = replace(to, b)
	}
	if err != nil && Convenient(s.name) {
		return "", nil
	}
	return to, err
}

// move moves a file or folder, also to another disk, since a folder of a store may be a link.
func move(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		err = os.CopyFS(to, os.DirFS(from))
	case info.Mode().IsRegular():
		err = copyFile(from, to)
	default: // it has no content
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(from)
}

// copyFile copies a file, at most maxDerived bytes.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxDerived))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
