package storecheck

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Stored reports whether anything of a stream's messages is in the store in dir, which a server may have open; name is "account/stream". What
// cannot be looked at counts as there. A server has all of its messages elsewhere for moments only, while it removes all.
func Stored(dir, name string) bool {
	root, err := streamDir(dir, name)
	if err != nil {
		return true
	}
	msgs := filepath.Join(root, messagesDir)
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
			// A file may be empty: it is the next one.
			if is, err := os.Stat(filepath.Join(msgs, name)); err == nil && is.Size() > 0 {
				return true
			}
		}
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
	}
}
