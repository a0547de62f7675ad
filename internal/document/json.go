package document

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// CheckJSON returns an error for JSON with a duplicate key in an object, or that is nested too deep. b has to be valid JSON.
func CheckJSON(b []byte) error {
	in := json.NewDecoder(bytes.NewReader(b))
	in.UseNumber()
	type level struct {
		keys map[string]bool // nil in a list
		key  bool            // a key comes next
	}
	var levels []level
	for {
		t, err := in.Token()
		if err != nil {
			return nil // the end
		}
		top := len(levels) - 1
		line := func() int { return 1 + bytes.Count(b[:min(int(in.InputOffset()), len(b))], []byte("\n")) }
		switch t {
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:top]
			if top--; top >= 0 {
				levels[top].key = levels[top].keys != nil
			}
			continue
		case json.Delim('{'), json.Delim('['):
			if len(levels) == maxDepth {
				return fmt.Errorf("line %d: it is nested too deep: at most %d levels are allowed", line(), maxDepth)
			}
			next := level{}
			if t == json.Delim('{') {
				next = level{map[string]bool{}, true}
			}
			levels = append(levels, next)
			continue
		}
		if top < 0 || levels[top].keys == nil {
			continue
		}
		if key, ok := t.(string); ok && levels[top].key {
			if levels[top].keys[key] {
				return fmt.Errorf("line %d: key %.100q is there twice", line(), key)
			}
			levels[top].keys[key], levels[top].key = true, false
			continue
		}
		levels[top].key = true
	}
}
