package storecheck

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// heldDir is the folder of hard links to files while a server opens the store.
const heldDir = "opening"

// Hold makes hard links to the files of streams, each named "account/stream", until Release: a server deletes a stream that it cannot open, for
// whatever reason. It stops silently where hard links are impossible, as for a folder on another disk.
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

// heldFiles returns the files of a stream's folder that cannot be made again.
func heldFiles(root string) []string {
	all := []string{metaFile, metaSum}
	entries, _ := os.ReadDir(filepath.Join(root, messagesDir)) // the check has reported what cannot be read
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), blockSuffix) {
			all = append(all, filepath.Join(messagesDir, e.Name()))
		}
	}
	return all
}

// Release removes the links after the server has opened the streams.
func Release(dir string) error { return os.RemoveAll(filepath.Join(dir, heldDir)) }

// PutBack ends what Hold began when the server has not opened all streams, or when the process ended meanwhile. It restores the streams that have
// no messages any more and returns their names.
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

// isEmpty reports whether a file is empty. A server that opens a store removes empty blocks.
func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

func putBack(held, root string) (put bool, err error) {
	files := heldFiles(held)
	for _, file := range files {
		if strings.HasSuffix(file, blockSuffix) && exists(filepath.Join(root, file)) {
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
