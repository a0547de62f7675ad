package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Explain returns err with the line that the beginning of its text names, in the form of settings' readers: keys separated by dots or colons, list
// elements as [0] or "rule 1". When the document has no such key, it uses the line of the innermost parent that exists; for a document that is a
// list or a text, the document's own line.
func (d *Document) Explain(err error) error {
	if err == nil {
		return nil
	}
	if n := d.Line(err.Error()); n > 0 {
		return fmt.Errorf("%w (line %d)", err, n)
	}
	return err
}

// Line returns the line that the beginning of text names, or 0; see [Document.Explain].
func (d *Document) Line(text string) int {
	if d.root == nil {
		return 0
	}
	line := 0
	if d.root.Kind != yaml.MappingNode {
		line = d.root.Line
	}
	for n := d.root; n != nil; {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		at, next, rest := step(n, text)
		if at == nil {
			break
		}
		line, n, text = at.Line, next, rest
	}
	return line
}

var (
	unknown = regexp.MustCompile(`^(?:unknown (?:key|field) |field )?["']?`)
	place   = regexp.MustCompile(`^\[([0-9]+)\]`)
	counted = regexp.MustCompile(`^([a-z_]+) ([0-9]+)\b`)
)

// step finds the element of n that text begins with: at has its line, next is where the search continues with rest.
func step(n *yaml.Node, text string) (at, next *yaml.Node, rest string) {
	text = strings.TrimLeft(text, ".: ")
	text = text[len(unknown.FindString(text)):]
	switch n.Kind {
	case yaml.SequenceNode:
		if m := place.FindStringSubmatch(text); m != nil {
			if i, err := strconv.Atoi(m[1]); err == nil && i < len(n.Content) {
				return n.Content[i], n.Content[i], text[len(m[0]):]
			}
		}
	case yaml.MappingNode:
		best := -1
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if key != "" && strings.HasPrefix(text, key) && !wordGoesOn(text[len(key):]) && (best < 0 || len(key) > len(n.Content[best].Value)) {
				best = i
			}
		}
		if best >= 0 {
			return n.Content[best], n.Content[best+1], text[len(n.Content[best].Value):]
		}
		if m := counted.FindStringSubmatch(text); m != nil { // "rule 2" in the list rules
			for i := 0; i+1 < len(n.Content); i += 2 {
				if list := n.Content[i+1]; n.Content[i].Value == m[1]+"s" && list.Kind == yaml.SequenceNode {
					if at, err := strconv.Atoi(m[2]); err == nil && at > 0 && at <= len(list.Content) {
						return list.Content[at-1], list.Content[at-1], text[len(m[0]):]
					}
				}
			}
		}
	}
	return nil, nil, ""
}

// wordGoesOn reports whether rest continues the word before it.
func wordGoesOn(rest string) bool {
	return rest != "" && (rest[0] == '_' || rest[0] == '-' || '0' <= rest[0] && rest[0] <= '9' || 'a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z')
}
