package taskfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Claim makes an agent's folder and the folders of its files, locks it until the returned file is closed, and sweeps them. It is an error if another
// process has locked it.
func Claim(folder string, now time.Time, of ...*Folder) (lock *os.File, err error) {
	for _, f := range of {
		if err := os.MkdirAll(f.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("no folder for what is asked: %w", err)
		}
	}
	if lock, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("no folder for what is asked: %w", err)
	}
	if !Lock(lock) {
		return nil, errors.Join(fmt.Errorf("it is an agent already: another process works with %s", folder), lock.Close())
	}
	for _, f := range of {
		err = errors.Join(err, f.Sweep(now))
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Release closes the lock of [Claim]; more than once does no harm.
func Release(lock *os.File) error {
	if err := lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// sumLine is the length of the line behind the JSON of a record: a line end, its checksum (CRC-32C) in hexadecimal digits, and a line end.
const sumLine = 1 + 8 + 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed returns b with its checksum, which covers the name of its file: the record of another task does not pass for this one's.
func summed(name string, b []byte) []byte { return fmt.Appendf(b, "\n%08x\n", checksum(name, b)) }

func checksum(name string, b []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, b)
}

// errDamaged is the error for a record that is not what was written.
var errDamaged = errors.New("its record is damaged: ask again for all of it")

// checked returns what [summed] was given. A record without the line is of an older version, and is returned as it is: to lose just this line is no
// damage of the rest, and whatever else happens to it leaves no JSON. The checksum of a later version did not cover the name.
func checked(name string, b []byte) ([]byte, error) {
	at := len(b) - sumLine
	if at < 0 || b[at] != '\n' || b[len(b)-1] != '\n' {
		return b, nil
	}
	for _, of := range []string{name, ""} {
		if bytes.Equal(b, summed(of, bytes.Clone(b[:at]))) {
			return b[:at], nil
		}
	}
	return nil, errDamaged
}

// ReadRecord decodes the JSON of the file at path, of at most most bytes, into v; ok is false if there is none. A record that was damaged since it was
// written, or is that of another file, is an error, since each word of it may decide what is done next. Errors do not name the path.
func ReadRecord(path string, most int, v any) (ok bool, err error) {
	b, _, err := document.ReadRegular(path, most+sumLine)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), path, "its record")) // as pathless
	}
	if err == nil {
		b, err = checked(filepath.Base(path), b)
	}
	if err == nil && json.Unmarshal(b, v) != nil {
		err = errDamaged
	}
	if err != nil {
		return false, fmt.Errorf("what was asked before cannot be read: %w", err)
	}
	return true, nil
}

// WriteRecord writes v as JSON with a checksum, as Write does. What has more than most bytes could not be read, and is an error.
func (f *Folder) WriteRecord(path string, most int, v any) error {
	b, err := json.Marshal(v)
	if err == nil && len(b) > most {
		err = fmt.Errorf("it has %d bytes: at most %d are allowed", len(b), most)
	}
	if err == nil {
		err = f.Write(path, summed(filepath.Base(path), b))
	}
	if err != nil {
		return fmt.Errorf("what is asked cannot be kept: %w", Pathless(err))
	}
	return nil
}

// Mark makes an empty file at path, and the folder if there is none. It is not synced.
func (f *Folder) Mark(path string) error {
	err := os.MkdirAll(f.Dir, 0o700)
	if err == nil {
		var file *os.File
		if file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("what is asked cannot be kept: %w", Pathless(err))
	}
	return nil
}

// Pathless returns the error of a file without its path: users see why their task failed, and not how folders are named elsewhere.
func Pathless(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
