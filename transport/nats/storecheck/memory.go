package storecheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Memory is what is remembered of a store beside it: what is missing altogether cannot be seen in the store.
type Memory struct {
	// Clean says that the server has ended properly and that nobody has started another since: Files holds.
	Clean bool `json:"clean"`
	// Streams are the streams of Cortex, by account and name: "$G/CORTEX_LOG".
	Streams map[string]*Remembered `json:"streams"`
	// Found is what the check at the last start has found, for who looks while the server runs, and what earlier ones have found that is
	// lost and was not accepted.
	Found []Finding `json:"found,omitempty"`
	// Unfinished says that what is in Found was about to be set aside.
	Unfinished bool `json:"unfinished,omitempty"`
	// Notes is for whoever started the server.
	Notes json.RawMessage `json:"notes,omitempty"`
}

// Names returns the names of the streams, in order.
func (m *Memory) Names() []string { return slices.Sorted(maps.Keys(m.Streams)) }

// Accept takes note of all that is missing from an account: it is not told again.
func (m *Memory) Accept(account string) {
	for name, r := range m.Streams {
		if strings.HasPrefix(name, account+"/") {
			r.Since = r.Last
		}
	}
	m.Found = slices.DeleteFunc(slices.Clone(m.Found), func(f Finding) bool { return f.Account == account })
	m.Notes = nil // it is made anew
}

// Remembered is what is remembered of a stream.
type Remembered struct {
	Last uint64 `json:"last"` // sequence
	// Durable is the last sequence that is on the disk for certain: the end of the machine loses what comes behind it.
	Durable uint64 `json:"durable"`
	// Since is the sequence from which on all that is missing can be accounted for.
	Since uint64 `json:"since,omitempty"`
	// Had is what the server had of the stream, nil when that is not known.
	Had *Had `json:"had,omitempty"`
	// Files are those of the stream's folder at a proper end.
	Files map[string]File `json:"files,omitempty"`
}

// File is what is remembered of a file.
type File struct {
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum,omitempty"` // of a file that has no checksums itself
}

// sealed is a Memory as it is written.
type sealed struct {
	Sum    uint32          `json:"sum"` // of Memory
	Memory json.RawMessage `json:"memory"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrForgotten is in the errors of ReadMemory for a file that is not what was written.
var ErrForgotten = errors.New("what was remembered of the store cannot be read")

// ReadMemory reads a Memory, nil when there is none.
func ReadMemory(path string) (*Memory, error) {
	b, err := readBounded(path)
	switch {
	case gone(err):
		return nil, nil
	case ours(err):
		return nil, advised(err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrForgotten, path, plain(err))
	}
	var s sealed
	m := &Memory{}
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrForgotten, path, err)
	}
	if crc32.Checksum(s.Memory, castagnoli) != s.Sum {
		return nil, fmt.Errorf("%w: %s: its checksum does not fit", ErrForgotten, path)
	}
	if err := json.Unmarshal(s.Memory, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrForgotten, path, err)
	}
	return m, nil
}

// Write replaces the file that ReadMemory reads, whole.
func (m *Memory) Write(path string) error {
	b, err := json.Marshal(m)
	if err == nil {
		b, err = json.Marshal(sealed{crc32.Checksum(b, castagnoli), b})
	}
	if err != nil {
		return err
	}
	return replace(path, b)
}

// replace writes a file so that it is there as a whole or not at all, also when the machine ends.
func replace(path string, b []byte) error {
	tmp := path + ".new"
	if err := unlessGone(os.Remove(tmp)); err != nil { // what was left of another write, or is in the way
		return err
	}
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}

// Ours reports whether a stream is Cortex's own: only those are remembered, since others come and go as somebody else likes.
func Ours(stream string) bool {
	return strings.HasPrefix(strings.TrimPrefix(stream, "KV_"), "CORTEX_")
}

// Convenient reports whether a stream only has what Cortex can do without.
func Convenient(stream string) bool {
	return bucket(stream) || stream == "CORTEX_KEYS"
}

func bucket(stream string) bool { return strings.HasPrefix(stream, "KV_") }

// Remember adds the files of all streams that it knows to m: the server has ended.
func (m *Memory) Remember(dir string) error {
	for name, r := range m.Streams {
		root, err := streamDir(dir, name)
		if err != nil {
			return err
		}
		r.Durable = r.Last
		if r.Files, err = filesIn(root); err != nil {
			return err
		}
	}
	m.Clean = true
	return nil
}

// filesIn returns the files of a stream's folder. Any of its folders may be a link to one elsewhere.
func filesIn(root string) (map[string]File, error) {
	all := map[string]File{}
	for _, dir := range foldersOf(root) {
		entries, err := readFolder(filepath.Join(root, filepath.FromSlash(dir)))
		if ours(err) {
			return nil, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			file := strings.TrimPrefix(dir+"/"+e.Name(), "/")
			f, err := look(filepath.Join(root, filepath.FromSlash(file)))
			if unlessGone(err) != nil {
				return nil, err
			}
			if err == nil {
				all[file] = f
			}
		}
	}
	return all, nil
}

// foldersOf returns the folders in a stream's folder in which a server has files, itself too.
func foldersOf(root string) []string {
	all := []string{"", messagesDir, consumersDir}
	consumers, _ := readFolder(filepath.Join(root, consumersDir)) // who needs to know reads it, too
	for _, c := range consumers {
		all = append(all, consumersDir+"/"+c.Name())
	}
	return all
}

// look returns what is to be remembered of a file.
func look(path string) (File, error) {
	if derived(path) {
		sum, size, err := sumOf(path)
		if errors.Is(err, errLarge) {
			err = nil // it is not used again
		}
		return File{Size: size, Sum: sum}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	return File{Size: info.Size()}, nil
}

// derived reports whether a server can do without a file: it has it in the records, too.
func derived(path string) bool {
	switch filepath.Base(path) {
	case consumerState, ttlState, timerState, indexState:
		return true
	}
	return false
}

// streamDir returns the folder of a stream that Memory names.
func streamDir(dir, name string) (string, error) {
	account, stream, ok := strings.Cut(name, "/")
	if !ok || !filepath.IsLocal(account) || !filepath.IsLocal(stream) {
		return "", fmt.Errorf("%q is no name of a stream", name)
	}
	return filepath.Join(dir, "jetstream", account, "streams", stream), nil
}
