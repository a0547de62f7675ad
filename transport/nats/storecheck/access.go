package storecheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// probe is the prefix of files that are made only to test whether files can be made.
const probe = ".cortex-probe-"

// maxKey bounds the key of an encrypted stream or consumer, in bytes.
const maxKey = 4 << 10

var errEncrypted = errors.New("it is encrypted, as by a server of somebody else: Cortex cannot read it, and leaves it as it is")

// usable returns an error unless this process can read and write the files in the stream's folder, and make new ones. A server that cannot do so
// deletes the stream.
func (s *checking) usable() error {
	for _, dir := range foldersOf(s.root) {
		path := filepath.Join(s.root, filepath.FromSlash(dir))
		entries, err := readFolder(path)
		if isLocal(err) {
			return err
		}
		if err != nil {
			continue // callers that read the folder report it
		}
		if err := accessible(path); err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := accessible(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
		if strings.Contains(dir, "/") {
			continue // there are many consumers, and the server deletes none of them
		}
		if err := tryFile(path); err != nil {
			return fmt.Errorf("no file can be made in %s: %w", path, plain(err))
		}
	}
	return nil
}

// tryFile makes a file in a folder and removes it.
func tryFile(dir string) error {
	f, err := os.CreateTemp(dir, probe)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// strays sets aside files that no server of Cortex has written but a server would use. leave tells the caller to leave the stream as it is: a
// foreign one that is encrypted or about to lose all its messages.
func (s *checking) strays() (leave bool, err error) {
	mine := Ours(s.name)
	if exists(filepath.Join(s.root, metaKey)) {
		switch {
		case mine && s.encrypted():
			return true, errEncrypted
		case !mine && isKey(filepath.Join(s.root, metaKey)):
			return true, nil
		}
		kept, err := s.putAside(metaKey)
		if err != nil {
			return true, err
		}
		s.found(Made, metaKey, kept, "it says that the stream is encrypted, which it is not: a server would delete the stream")
	}
	for _, dir := range []string{purgedDir, removedDir} {
		if !exists(filepath.Join(s.root, dir)) {
			continue
		}
		if !mine {
			return true, nil
		}
		kept, err := s.putAside(dir)
		if err != nil {
			return true, err
		}
		s.found(Lost, dir, kept, "it says that all messages of the stream are being removed, which Cortex never asks for: they stay")
	}
	for _, dir := range foldersOf(s.root)[1:] {
		entries, err := readFolder(filepath.Join(s.root, filepath.FromSlash(dir)))
		if isLocal(err) {
			return true, err
		}
		for _, e := range entries {
			if !stray(dir, e, mine) && (e.Name() != metaKey || isKey(filepath.Join(s.root, filepath.FromSlash(dir), metaKey))) {
				continue
			}
			file := dir + "/" + e.Name()
			kept, err := s.putAside(file)
			if err != nil {
				return true, err
			}
			s.found(Made, file, kept, "no server of Cortex has written it: it is not used")
		}
	}
	return false, nil
}

// stray reports whether a server would read a file that this version, or Cortex, never writes.
func stray(dir string, e fs.DirEntry, mine bool) bool {
	name := e.Name()
	switch {
	case dir == consumersDir:
		return false
	case dir != messagesDir:
		return mine && name == metaKey
	case strings.HasSuffix(name, blockSuffix):
		_, ok := blockIndex(name)
		return !ok
	}
	return strings.HasSuffix(name, ".idx") || mine && strings.HasSuffix(name, ".key")
}

// encrypted reports whether the stream's configuration is intact but not readable JSON.
func (s *checking) encrypted() bool {
	conf, err := readBounded(filepath.Join(s.root, metaFile))
	return err == nil && len(conf) > 0 && s.sealed(conf) && !json.Valid(conf)
}

// isKey reports whether a file may be the key of an encrypted stream or consumer.
func isKey(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() <= maxKey
}
