package storecheck

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Stored reports whether the store in dir, which a server may have open, has any messages of a stream, named "account/stream". What cannot be read
// counts as stored. A server has all its messages elsewhere only for moments, while it removes all of them.
func Stored(dir, name string) bool {
	root, err := streamDir(dir, name)
	if err != nil {
		return true
	}
	msgs := filepath.Join(root, messagesDir)
	if info, err := os.Stat(msgs); err != nil || !info.IsDir() { // a pipe would block
		return err != nil && !errors.Is(err, fs.ErrNotExist)
	}
	f, err := os.Open(msgs)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(64)
		for _, name := range names {
			if !strings.HasSuffix(name, ".blk") {
				continue
			}
			// An empty block is one that the server has just begun.
			if is, err := os.Stat(filepath.Join(msgs, name)); err == nil && is.Size() > 0 {
				return true
			}
		}
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
	}
}

// Odd returns the path of something in the place of a block of a stream of Cortex that is no file, such as a pipe, for which a server may wait without
// end; "" when there is none.
func Odd(dir string) string {
	blocks, _ := fs.Glob(os.DirFS(dir), "jetstream/*/streams/*/"+messagesDir+"/*"+blockSuffix) // the pattern is a good one
	for _, block := range blocks {
		stream := path.Base(path.Dir(path.Dir(block)))
		file := filepath.Join(dir, filepath.FromSlash(block))
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() && Ours(stream) {
			return file
		}
	}
	return ""
}
