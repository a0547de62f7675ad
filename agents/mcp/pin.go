package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxPins bounds the file of hashes, in bytes.
const maxPins = 1 << 20

// pins keeps a hash of each tool as it was first seen. A server may change a tool's description after the user came to trust it.
type pins struct {
	path string
}

func openPins(folder string) *pins { return &pins{filepath.Join(folder, "tools.json")} }

// compare returns the names of changed tools and adds new ones. A tool counts as changed until its line is removed from the file.
func (p *pins) compare(tools []*tool) (changed []string, err error) {
	known := map[string]string{}
	b, _, err := document.ReadRegular(p.path, maxPins)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(b, &known); err != nil {
			return nil, fmt.Errorf("%s: %w: remove it to have the tools remembered as they are now", p.path, err)
		}
	}
	n := len(known)
	for _, t := range tools {
		hash := t.hash()
		switch was, ok := known[t.Name]; {
		case !ok:
			known[t.Name] = hash
		case was != hash:
			changed = append(changed, t.Name)
		}
	}
	slices.Sort(changed)
	if len(known) == n {
		return changed, nil
	}
	if b, err = json.MarshalIndent(known, "", "  "); err != nil {
		return changed, err
	}
	return changed, writeFile(p.path, b)
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
