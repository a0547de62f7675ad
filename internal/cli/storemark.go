package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// A data folder has a mark of the store that was in it: if its disk is not mounted, the folder looks like a new one.

func markFile(data string) string    { return filepath.Join(data, "store") }
func storeIDFile(data string) string { return filepath.Join(storeDir(data), "id") }

// missingStore returns an error when the data folder had a store according to its mark, and has none now.
func (s *settings) missingStore() error {
	data := s.data
	if _, err := os.Lstat(markFile(data)); err != nil || !s.folder().Empty() {
		return nil // it never had a store, or an old version wrote no mark: see goneStore
	}
	return fmt.Errorf("the store that was in %s is not there: if it is on another disk, mount that; if it is gone for good, remove %s and start again with an empty one",
		storeDir(data), markFile(data))
}

// goneStore returns a warning that the store is new although other files show that there was one before; "" otherwise.
func (s *settings) goneStore() string {
	data := s.data
	if !s.folder().Empty() {
		return ""
	}
	for _, left := range []string{storeIDFile(data), addressFile(data), lastFile(data)} {
		if _, err := os.Lstat(left); err == nil {
			return fmt.Sprintf("the store that was in %s is gone, of which %s is left", storeDir(data), left)
		}
	}
	return ""
}

// markStore writes the mark of the store in the data folder, and logs when it differs from the previous one.
func markStore(data string, log *slog.Logger) {
	id, err := readLeft(storeIDFile(data))
	was, werr := readLeft(markFile(data))
	mark := strings.TrimSpace(string(id))
	if err != nil || mark == "" {
		mark = uuid.NewString()
		err = leave(storeIDFile(data), []byte(mark+"\n"))
	}
	switch before := strings.TrimSpace(string(was)); {
	case err != nil:
	case werr == nil && before == mark:
		return
	case werr == nil && before != "":
		log.Warn("the store in the data folder is another one than the last time", "store", storeDir(data), "was", before, "is", mark)
	}
	if err == nil {
		err = leave(markFile(data), []byte(mark+"\n"))
	}
	if err != nil {
		log.Warn("the data folder cannot say which store it has: if that is missing one day, this is not noticed", "err", err)
	}
}
