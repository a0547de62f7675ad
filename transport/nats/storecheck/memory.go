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

// Memory is a file beside the store with what the store itself cannot show: messages that are missing without a trace.
type Memory struct {
	// Clean says that the server was shut down properly and none was started since: Files is valid.
	Clean bool `json:"clean"`
	// Streams are the streams of Cortex, by "account/stream" such as "$G/CORTEX_LOG".
	Streams map[string]*Remembered `json:"streams"`
	// Found are the findings of the check at the last start, for readers while the server runs, and those losses of earlier checks that were not
	// accepted.
	Found []Finding `json:"found,omitempty"`
	// Unfinished says that the damage in Found was about to be moved aside.
	Unfinished bool `json:"unfinished,omitempty"`
	// Revoked is what the server has seen revoked, which it keeps in a file of its own as well.
	Revoked json.RawMessage `json:"revoked,omitempty"`
	// Notes is for the program that started the server.
	Notes json.RawMessage `json:"notes,omitempty"`
}

// Names returns the names of the streams, sorted.
func (m *Memory) Names() []string { return slices.Sorted(maps.Keys(m.Streams)) }

// Accept marks everything that is missing from an account as known, so that it is not reported again.
func (m *Memory) Accept(account string) {
	for name, r := range m.Streams {
		if strings.HasPrefix(name, account+"/") {
			r.Since = r.Last
		}
	}
	m.Found = slices.DeleteFunc(slices.Clone(m.Found), func(f Finding) bool { return f.Account == account })
	m.Notes = nil // the program makes new ones
}

// Remembered is the memory of a stream.
type Remembered struct {
	Last uint64 `json:"last"` // sequence
	// Durable is the last sequence that is certainly on the disk: a power cut may lose later ones.
	Durable uint64 `json:"durable"`
	// Since is the sequence after which every missing message can be accounted for.
	Since uint64 `json:"since,omitempty"`
	// Had is the server's state of the stream; nil when it is unknown.
	Had *Had `json:"had,omitempty"`
	// Files are the files of the stream's folder at a proper shutdown.
	Files map[string]File `json:"files,omitempty"`
}

// File is the memory of a file.
type File struct {
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum,omitempty"` // of a file without checksums of its own
}

// sealed is the stored form of a Memory.
type sealed struct {
	Sum    uint32          `json:"sum"` // of Memory
	Memory json.RawMessage `json:"memory"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrForgotten is the error of ReadMemory for an invalid file.
var ErrForgotten = errors.New("what was remembered of the store cannot be read")

// ReadMemory reads a Memory; nil when there is none.
func ReadMemory(path string) (*Memory, error) {
	b, err := readBounded(path)
	switch {
	case gone(err):
		return nil, nil
	case isLocal(err):
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

// Write replaces the file that ReadMemory reads, atomically.
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

// replace writes a file atomically, also with regard to a power cut.
func replace(path string, b []byte) error {
	tmp := path + ".new"
	if err := unlessGone(os.Remove(tmp)); err != nil { // left over from another write, or in the way
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

// Ours reports whether a stream is one of Cortex. Only those are remembered, since other programs make and remove streams as they like.
func Ours(stream string) bool {
	return strings.HasPrefix(strings.TrimPrefix(stream, "KV_"), "CORTEX_")
}

// Convenient reports whether Cortex can do without the content of a stream.
func Convenient(stream string) bool {
	return bucket(stream) || stream == "CORTEX_KEYS"
}

func bucket(stream string) bool { return strings.HasPrefix(stream, "KV_") }

// Remember adds the files of all known streams to m, after the server has ended.
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

// filesIn returns the files of a stream's folder and its subfolders, each of which may be a link to another place.
func filesIn(root string) (map[string]File, error) {
	all := map[string]File{}
	for _, dir := range foldersOf(root) {
		entries, err := readFolder(filepath.Join(root, filepath.FromSlash(dir)))
		if isLocal(err) {
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

// foldersOf returns the folders of a stream in which a server has files, including the stream's own.
func foldersOf(root string) []string {
	all := []string{"", messagesDir, consumersDir}
	consumers, _ := readFolder(filepath.Join(root, consumersDir)) // callers that need the error read the folder themselves
	for _, c := range consumers {
		all = append(all, consumersDir+"/"+c.Name())
	}
	return all
}

// look returns the memory of a file.
func look(path string) (File, error) {
	if derived(path) {
		sum, size, err := sumOf(path)
		if errors.Is(err, errLarge) {
			err = nil // the file is not used again
		}
		return File{Size: size, Sum: sum}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	return File{Size: info.Size()}, nil
}

// derived reports whether a server can make a file again from the records.
func derived(path string) bool {
	switch filepath.Base(path) {
	case consumerState, ttlState, timerState, indexState:
		return true
	}
	return false
}

// streamDir returns the folder of a stream, named "account/stream".
func streamDir(dir, name string) (string, error) {
	account, stream, ok := strings.Cut(name, "/")
	if !ok || !filepath.IsLocal(account) || !filepath.IsLocal(stream) {
		return "", fmt.Errorf("%q is no name of a stream", name)
	}
	return filepath.Join(dir, "jetstream", account, "streams", stream), nil
}
