package storecheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempSuffix is that of a file which a server writes to replace another one.
const tempSuffix = ".tmp"

// halfway removes files of a stream that a server was writing when it was killed, beside those that they were to replace. No server reads them, and what is
// deleted from the stream later would stay in them. One beside which there is nothing may be all that is left, and is kept.
func (s *checking) halfway(entries []fs.DirEntry) {
	if s.o.Aside == "" {
		return
	}
	for _, e := range entries {
		whole, ok := strings.CutSuffix(e.Name(), tempSuffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if info, err := os.Lstat(filepath.Join(s.root, messagesDir, whole)); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			_ = os.Remove(filepath.Join(s.root, messagesDir, e.Name())) // the next check tries again
		}
	}
}
