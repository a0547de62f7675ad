package metrics

import (
	"strings"
	"sync"
	"unicode"
)

const (
	// MaxAgents bounds the values of the label agent. With twelve series of an agent, all of them take some 200 KB of a scrape.
	MaxAgents = 100
	// MaxModels bounds the values of the label model.
	MaxModels = 20

	maxLabel = 64 // bytes of a label value
	other    = "other"
)

// values gives names of strangers as label values, the first most of them as they are.
type values struct {
	most int

	mu    sync.Mutex
	known map[string]string
}

func newValues(most int) *values { return &values{most: most, known: map[string]string{}} }

// of returns the label value of a name. The empty name is "none".
func (v *values) of(name string) string {
	if name == "" {
		return "none"
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if value, ok := v.known[name]; ok {
		return value
	}
	if len(v.known) >= v.most {
		return other
	}
	value := clean(name)
	v.known[strings.Clone(name)] = value
	return value
}

// clean returns a name without characters that do not print, cut to maxLabel bytes.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, name[:min(len(name), 4*maxLabel)])
	for i := range name {
		if i > maxLabel {
			return name[:maxLabelAt(name)]
		}
	}
	return name
}

// maxLabelAt returns where the last whole character of name within maxLabel bytes ends. The name is longer.
func maxLabelAt(name string) (at int) {
	for i := range name {
		if i > maxLabel {
			break
		}
		at = i
	}
	return at
}
