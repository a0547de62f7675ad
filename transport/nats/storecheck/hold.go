package storecheck

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// heldDir has other names of files while a server opens them.
const heldDir = "opening"

// Hold gives the messages of streams, each named "account/stream", another name until Release: a server that cannot open a stream deletes it,
// for whatever reason. Nothing is held where a file can have one name only, or of a folder on another disk.
func Hold(dir string, streams []string) {
	for _, name := range streams {
		root, err := streamDir(dir, name)
		if err != nil {
			continue
		}
		held := filepath.Join(dir, heldDir, filepath.FromSlash(name))
		if os.MkdirAll(filepath.Join(held, messagesDir), 0o700) != nil {
			return
		}
		for _, file := range heldFiles(root) {
			if os.Link(filepath.Join(root, file), filepath.Join(held, file)) != nil {
				return
			}
		}
	}
}

// heldFiles returns what of a stream's folder cannot be made again.
func heldFiles(root string) []string {
	all := []string{metaFile, metaSum}
	entries, _ := os.ReadDir(filepath.Join(root, messagesDir)) // what cannot be read the check has told
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), blockSuffix) {
			all = append(all, filepath.Join(messagesDir, e.Name()))
		}
	}
	return all
}

// Release ends what Hold began: the server has opened the streams.
func Release(dir string) error { return os.RemoveAll(filepath.Join(dir, heldDir)) }

// PutBack ends what Hold began when the server has not opened all streams, or its process ended meanwhile. It puts back those of which no
// message is left, and returns their names.
func PutBack(dir string) (back []string, err error) {
	accounts, err := os.ReadDir(filepath.Join(dir, heldDir))
	if err != nil {
		return nil, unlessGone(err)
	}
	for _, account := range accounts {
		streams, err := os.ReadDir(filepath.Join(dir, heldDir, account.Name()))
		if err != nil {
			return back, err
		}
		for _, stream := range streams {
			name := account.Name() + "/" + stream.Name()
			root, err := streamDir(dir, name)
			if err != nil {
				return back, err
			}
			put, err := putBack(filepath.Join(dir, heldDir, filepath.FromSlash(name)), root)
			if err != nil {
				return back, err
			}
			if put {
				back = append(back, name)
			}
		}
	}
	return back, Release(dir)
}

// isEmpty reports whether a file has nothing in it: a server that opens a store removes such blocks.
func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

func putBack(held, root string) (put bool, err error) {
	files := heldFiles(held)
	for _, file := range files {
		if strings.HasSuffix(file, blockSuffix) && there(filepath.Join(root, file)) {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Join(root, messagesDir), 0o700); err != nil {
		return false, err
	}
	for _, file := range files {
		err := os.Link(filepath.Join(held, file), filepath.Join(root, file))
		if err == nil && strings.HasSuffix(file, blockSuffix) && !isEmpty(filepath.Join(held, file)) { // a server removes empty ones
			put = true
		}
		if err != nil && !errors.Is(err, fs.ErrExist) && !gone(err) {
			return put, err
		}
	}
	return put, nil
}
