package taskfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// sumLine is the length of the line behind the JSON of a record: a line end, its checksum (CRC-32C) in hexadecimal digits, and a line end. Before it is, with
// a line end, who keeps the record: see [Owner].
const (
	sumLine   = 1 + 8 + 1
	ownerLine = 1 + ownerSize
	ownerSize = 16
)

// noWait has a file opened without waiting for somebody at the other end of a pipe that is in its place.
const noWait = syscall.O_NONBLOCK

// Owner returns the name by which a record says for whom it is kept; "" if that is not known.
func Owner(tenant, requester string) string {
	if requester == "" {
		return ""
	}
	return digest(tenant, requester)[:ownerSize]
}

// ownerOf returns the owner that is named in the file at path, or "". It does not look for damage.
func ownerOf(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < ownerLine+sumLine {
		return ""
	}
	var end [ownerLine + sumLine]byte
	if _, err := f.ReadAt(end[:], info.Size()-int64(len(end))); err != nil || end[ownerLine] != '\n' {
		return ""
	}
	_, owner := cutOwner(end[:ownerLine])
	return owner
}

// cutOwner returns b without the owner's line at its end. JSON that was encoded here has no line ends.
func cutOwner(b []byte) (rest []byte, owner string) {
	at := len(b) - ownerLine
	if at < 0 || b[at] != '\n' {
		return b, ""
	}
	return b[:at], string(b[at+1:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed returns b with its owner, if there is one, and its checksum, which covers the name of its file: the record of another task does not pass for this one's.
func summed(name, owner string, b []byte) []byte {
	if owner != "" {
		b = fmt.Appendf(b, "\n%s", owner)
	}
	return fmt.Appendf(b, "\n%08x\n", checksum(name, b))
}

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
		if bytes.Equal(b, summed(of, "", bytes.Clone(b[:at]))) {
			b, _ = cutOwner(b[:at])
			return b, nil
		}
	}
	return nil, errDamaged
}

// ReadRecord decodes the JSON of the file at path, of at most most bytes, into v; ok is false if there is none. A record that was damaged since it was
// written, or is that of another file, is an error, since each word of it may decide what is done next. Errors do not name the path.
func ReadRecord(path string, most int, v any) (ok bool, err error) {
	b, _, err := document.ReadRegular(path, most+ownerLine+sumLine)
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

// WriteRecord writes v as JSON with its owner (see [Owner]) and a checksum, as Write does. Without an owner it stays that of the record that is there. What has
// more than most bytes could not be read, and is an error.
func (f *Folder) WriteRecord(path, owner string, most int, v any) error {
	b, err := json.Marshal(v)
	if err == nil && len(b) > most {
		err = fmt.Errorf("it has %d bytes: at most %d are allowed", len(b), most)
	}
	if err == nil {
		err = f.Write(path, summed(filepath.Base(path), cmp.Or(owner, ownerOf(path)), b))
	}
	if err != nil {
		return fmt.Errorf("what is asked cannot be kept: %w", Pathless(err))
	}
	return nil
}

// Mark makes a file at path that has only an owner, and the folder if there is none. It is not synced.
func (f *Folder) Mark(path, owner string) error {
	err := os.MkdirAll(f.Dir, 0o700)
	if err == nil {
		var file *os.File
		if file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|noWait, 0o600); err == nil {
			if owner != "" {
				_, err = file.Write(summed(filepath.Base(path), owner, nil))
			}
			err = errors.Join(err, file.Close())
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
