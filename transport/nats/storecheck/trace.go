package storecheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Trace is what the files of a stream look like from outside. Two of them tell whether somebody else than a server may have changed the files.
type Trace struct {
	folders [2]fs.FileInfo // the stream's, and that of its messages
	blocks  map[uint32]fs.FileInfo
	newest  time.Time // when a block was last written
	bytes   int64     // of the blocks
}

// Traced looks at the files of a stream, named "account/stream", in the store in dir. What cannot be looked at is not there.
func Traced(dir, name string) *Trace {
	t := &Trace{blocks: map[uint32]fs.FileInfo{}}
	root, err := streamDir(dir, name)
	if err != nil {
		return t
	}
	msgs := filepath.Join(root, messagesDir)
	t.folders = [2]fs.FileInfo{identity(root), identity(msgs)}
	entries, _ := readFolder(msgs)
	for _, index := range blockIndices(namesOf(entries)) {
		info := identity(filepath.Join(root, filepath.FromSlash(blockFileOf(index))))
		if info == nil {
			continue
		}
		t.blocks[index] = info
		t.bytes += info.Size()
		if info.ModTime().After(t.newest) {
			t.newest = info.ModTime()
		}
	}
	return t
}

// identity returns what tells a file from one that has its name later, nil when there is none.
func identity(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	_ = os.SameFile(info, info) // where only an open file tells which it is, that is asked for now
	return info
}

// Same reports whether all that was there before is the same file, and no shorter. A server makes some anew itself, and removes some: whether
// that was a server [Counted] tells.
func (t *Trace) Same(before *Trace) bool {
	for i, was := range before.folders {
		if was != nil && !same(was, t.folders[i]) {
			return false
		}
	}
	for index, was := range before.blocks {
		if is := t.blocks[index]; !same(was, is) || is.Size() < was.Size() {
			return false
		}
	}
	return true
}

func same(was, is fs.FileInfo) bool { return is != nil && os.SameFile(was, is) }

// Written reports whether something was written to the blocks since before.
func (t *Trace) Written(before *Trace) bool {
	return t.bytes != before.bytes || len(t.blocks) != len(before.blocks) || !t.newest.Equal(before.newest)
}
