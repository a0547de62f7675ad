package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
)

// errKeyed is the error for a Cortex without keys where the previous one had keys.
var errKeyed = errors.New("had keys")

// keepKeys refuses to run a Cortex without keys on a data folder where one with keys has run: its users rely on the keys, and what was stored must
// not become readable without credentials. Even --auth none has an effect only after the folder of keys was removed. The caller holds the folder.
func (s *settings) keepKeys() error {
	if s.node.auth != "" {
		return nil
	}
	keys := filepath.Join(s.data, "auth") // where `cortex auth init` puts them
	elsewhere := "for one without keys, choose another folder with --data"
	b, err := datadir.Read(datadir.LastFile(s.data))
	var last datadir.Address
	if err == nil {
		err = json.Unmarshal(b, &last)
	}
	if dir := last.Node.Of("auth"); dir != "" {
		keys = dir
	}
	stored, unread := s.folder().Keyed()
	_, gone := os.Lstat(keys)
	switch {
	case s.node.keyless && errors.Is(gone, fs.ErrNotExist): // the keys are gone, or are for another folder
		return nil
	case last.Node.Of("auth") != "", stored && !errors.Is(gone, fs.ErrNotExist):
		return fmt.Errorf("the cortex on %s %w, and lets in only whom they know: start it with --auth %s; %s; to give up the keys for good, with all that was stored with them, remove %s and then start with --auth none",
			s.data, errKeyed, shellWord(keys), elsewhere, shellWord(keys))
	case stored:
		return fmt.Errorf("the store in %s is one that %w, which are not in %s: give --auth DIR; %s; if the keys are gone for good, and with them all that was stored with them, start with --auth none",
			s.data, errKeyed, keys, elsewhere)
	case unread != nil:
		return fmt.Errorf("whether the store in %s is one that %w cannot be read (%w): give it to the user who runs cortex, and put back what was there, or give --auth DIR", s.data, errKeyed, unread)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("whether the cortex that ran last on %s %w cannot be read in %s (%w): give --auth DIR, or, if it had none, remove that file", s.data, errKeyed, datadir.LastFile(s.data), err)
	}
	return nil
}
