package storecheck

import (
	"encoding/json"
	"path/filepath"
)

// unopened sets aside the whole folder of a foreign stream that no server opens, such as a copy of another stream: its configuration does not
// belong to a stream of this name. The content is kept, since it may be the only copy.
func (s *checking) unopened() (bool, error) {
	conf, err := readBounded(filepath.Join(s.root, metaFile))
	if isLocal(err) {
		return true, err
	}
	if err == nil && (s.sealed(conf) || s.unsealed(conf)) {
		return false, nil
	}
	const what = "it is no stream of Cortex, and no server opens it: it may be a copy of another stream, or its configuration is damaged; "
	if s.o.Aside == "" {
		s.found(Made, "", "", what+"the next start sets it aside, unless you move it out of the store")
		return true, nil
	}
	kept, err := s.putAside("")
	if err == nil {
		s.found(Made, "", kept, what+"it is set aside")
	}
	return true, err
}

// unsealed reports whether the stream's configuration is complete but lacks the checksum, which the server writes after it.
func (s *checking) unsealed(conf []byte) bool {
	var c struct {
		Name string `json:"name"`
	}
	return !exists(filepath.Join(s.root, metaSum)) && json.Unmarshal(conf, &c) == nil && c.Name == s.name
}
