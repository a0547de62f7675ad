// Package pin remembers what others said of their things when they were first seen, such as the tools of a server or the skills of an agent. Who offers
// one may change what it says after its user came to trust it.
package pin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// Bounds of the file of hashes.
const (
	maxFile = 1 << 20             // bytes
	maxPins = 4000                // things, whose names have up to 128 bytes
	age     = 90 * 24 * time.Hour // after which a full file forgets a thing that was not seen
)

// File keeps a hash of each thing as it was first seen, and the day on which it was last seen. One goroutine at a time may use it.
type File struct {
	Path string
	Noun string // what the things are, such as "tools"
}

// Thing is something with a name, of at most 128 bytes, and what is said of it.
type Thing struct {
	Name string
	hash string
}

// Of returns a thing of which all this is said, values that JSON can express.
func Of(name string, said ...any) Thing {
	b, err := json.Marshal(said)
	if err != nil {
		return Thing{Name: name}
	}
	sum := sha256.Sum256(b)
	return Thing{name, hex.EncodeToString(sum[:16])}
}

// Compare adds new things to the file. It returns the names of changed things, and of those that are not in the file, so that a change of them would not
// be seen: all of them after an error. A thing counts as changed until its line is removed from the file.
func (f *File) Compare(things []Thing, now time.Time) (changed, strange []string, err error) {
	known, err := f.read()
	if err != nil {
		return nil, nameAll(things), fmt.Errorf("%w: remove it to have the %s remembered as they are now", err, f.Noun)
	}
	was, today := maps.Clone(known), now.Format(time.DateOnly)
	var fresh []Thing
	for _, t := range things {
		hash, _, _ := strings.Cut(known[t.Name], " ")
		if hash == "" {
			fresh = append(fresh, t)
			continue
		}
		if hash != t.hash {
			changed = append(changed, t.Name)
		}
		known[t.Name] = hash + " " + today
	}
	if len(known)+len(fresh) > maxPins {
		old := now.Add(-age).Format(time.DateOnly)
		maps.DeleteFunc(known, func(_, v string) bool {
			_, seen, ok := strings.Cut(v, " ")
			return ok && seen < old
		})
	}
	for _, t := range fresh {
		if len(known) < maxPins {
			known[t.Name] = t.hash + " " + today
			continue
		}
		strange = append(strange, t.Name)
		err = fmt.Errorf("%s has %d %s, of which many are gone: remove it to have the %s remembered as they are now", f.Path, len(known), f.Noun, f.Noun)
	}
	slices.Sort(changed)
	if maps.Equal(known, was) {
		return changed, strange, err
	}
	if err := f.write(known); err != nil {
		return changed, nameAll(things), err
	}
	return changed, strange, err
}

func (f *File) read() (map[string]string, error) {
	known := map[string]string{}
	b, _, err := document.ReadRegular(f.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if known == nil {
		return nil, fmt.Errorf("%s has no object", f.Path)
	}
	return known, nil
}

func (f *File) write(known map[string]string) error {
	b, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return taskfile.Write(f.Path, b)
}

func nameAll(things []Thing) []string {
	var all []string
	for _, t := range things {
		all = append(all, t.Name)
	}
	return all
}
