package storecheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Trace is what the files of a stream look like from outside. Comparing two traces shows whether something other than the server may have changed
// the files.
type Trace struct {
	folders [2]fs.FileInfo // the stream's, and that of its messages
	blocks  map[uint32]fs.FileInfo
	newest  time.Time // when a block was last written
	bytes   int64     // of the blocks
}

// Traced looks at the files of a stream, named "account/stream", in the store in dir. Files that cannot be read count as missing.
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

// identity returns what distinguishes a file from a later one of the same name; nil when there is none.
func identity(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	_ = os.SameFile(info, info) // makes os.FileInfo load the file's identity now, on systems where only an open file has it
	return info
}

// Same reports whether every file of before is still the same file and no shorter. A server replaces and removes some files itself; [Counted] tells
// whether it was the server.
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

// Written reports whether the blocks were written to since before.
func (t *Trace) Written(before *Trace) bool {
	return t.bytes != before.bytes || len(t.blocks) != len(before.blocks) || !t.newest.Equal(before.newest)
}
