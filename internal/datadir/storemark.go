package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/internal/home"
)

// A data folder has a mark of the store that was in it: if its disk is not mounted, the folder looks like a new one.

func markFile(data string) string    { return filepath.Join(data, "store") }
func storeIDFile(data string) string { return filepath.Join(Store(data), "id") }

// MissingStore returns an error when the data folder had a store according to its mark, and has none now.
func MissingStore(data string, store home.Folder) error {
	if _, err := os.Lstat(markFile(data)); err != nil || !store.Empty() {
		return nil // it never had a store, or an old version wrote no mark: see GoneStore
	}
	return fmt.Errorf("the store that was in %s is not there: if it is on another disk, mount that; if it is gone for good, remove %s and start again with an empty one",
		Store(data), markFile(data))
}

// GoneStore returns a warning that the store is new although other files show that there was one before; "" otherwise.
func GoneStore(data string, store home.Folder) string {
	if !store.Empty() {
		return ""
	}
	for _, left := range []string{storeIDFile(data), AddressFile(data), LastFile(data)} {
		if _, err := os.Lstat(left); err == nil {
			return fmt.Sprintf("the store that was in %s is gone, of which %s is left", Store(data), left)
		}
	}
	return ""
}

// MarkStore writes the mark of the store in the data folder, and logs when it differs from the previous one.
func MarkStore(data string, log *slog.Logger) {
	id, err := Read(storeIDFile(data))
	was, werr := Read(markFile(data))
	mark := strings.TrimSpace(string(id))
	if err != nil || mark == "" {
		mark = uuid.NewString()
		err = Leave(storeIDFile(data), []byte(mark+"\n"))
	}
	switch before := strings.TrimSpace(string(was)); {
	case err != nil:
	case werr == nil && before == mark:
		return
	case werr == nil && before == "", werr != nil && !errors.Is(werr, fs.ErrNotExist):
		log.Warn("the file that says which store the data folder had was damaged: it is written again", "file", markFile(data), "err", cmp.Or(werr, errors.New("it is empty")),
			"do", "see whether the store is the one that was there")
	case werr == nil:
		log.Warn("the store in the data folder is another one than the last time", "store", Store(data), "was", before, "is", mark)
	}
	if err == nil {
		err = Leave(markFile(data), []byte(mark+"\n"))
	}
	if err != nil {
		log.Warn("the data folder cannot say which store it has: if that is missing one day, this is not noticed", "err", err)
	}
}
