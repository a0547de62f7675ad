package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Bounds of the file of hashes.
const (
	maxPinFile = 1 << 20             // bytes
	maxPins    = 4000                // tools, whose names have up to 128 bytes
	pinAge     = 90 * 24 * time.Hour // after which a full file forgets a tool that was not seen
)

// pins keeps a hash of each tool as it was first seen, and the day on which it was last seen. A server may change a tool's description after the user
// came to trust it.
type pins struct {
	path string
}

func openPins(folder string) *pins { return &pins{filepath.Join(folder, "tools.json")} }

// compare adds new tools to the file. It returns the names of changed tools, and of those that are not in the file, so that a change of them would not
// be seen: all of them after an error. A tool counts as changed until its line is removed from the file.
func (p *pins) compare(tools []*tool, now time.Time) (changed, strange []string, err error) {
	known, err := p.read()
	if err != nil {
		return nil, nameAll(tools), fmt.Errorf("%w: remove it to have the tools remembered as they are now", err)
	}
	was, today := maps.Clone(known), now.Format(time.DateOnly)
	var fresh []*tool
	for _, t := range tools {
		hash, _, _ := strings.Cut(known[t.Name], " ")
		if hash == "" {
			fresh = append(fresh, t)
			continue
		}
		if hash != t.hash() {
			changed = append(changed, t.Name)
		}
		known[t.Name] = hash + " " + today
	}
	if len(known)+len(fresh) > maxPins {
		old := now.Add(-pinAge).Format(time.DateOnly)
		maps.DeleteFunc(known, func(_, v string) bool {
			_, seen, ok := strings.Cut(v, " ")
			return ok && seen < old
		})
	}
	for _, t := range fresh {
		if len(known) < maxPins {
			known[t.Name] = t.hash() + " " + today
			continue
		}
		strange = append(strange, t.Name)
		err = fmt.Errorf("%s has %d tools, of which many are gone: remove it to have the tools remembered as they are now", p.path, len(known))
	}
	slices.Sort(changed)
	if maps.Equal(known, was) {
		return changed, strange, err
	}
	if err := p.write(known); err != nil {
		return changed, nameAll(tools), err
	}
	return changed, strange, err
}

func (p *pins) read() (map[string]string, error) {
	known := map[string]string{}
	b, _, err := document.ReadRegular(p.path, maxPinFile)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	if known == nil {
		return nil, fmt.Errorf("%s has no object", p.path)
	}
	return known, nil
}

func (p *pins) write(known map[string]string) error {
	b, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(p.path, b)
}

func nameAll(tools []*tool) []string {
	var all []string
	for _, t := range tools {
		all = append(all, t.Name)
	}
	return all
}

// hash covers a tool's name, title, description, schemas and annotations.
func (t *tool) hash() string {
	b, err := json.Marshal([]any{t.Name, t.Title, t.Description, t.input, t.output, t.Annotations})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
