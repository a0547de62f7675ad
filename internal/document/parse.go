// Package document reads files that people write for Cortex: a configuration, a policy, a card. It bounds the size of a file, accepts one document
// in YAML or JSON, and names the line of what is refused.
package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"
)

// maxError bounds the libraries' words about a document, in bytes.
const maxError = 300

// Bounds of a document beside its size.
const (
	// maxDepth bounds the nesting, with aliases expanded. Real documents have a tenth of it.
	maxDepth = 200
	// maxAliased bounds the bytes that all aliases expand to, about as if they were written out. A few kilobytes of aliases of aliases could otherwise
	// expand to gigabytes. What a card shares, such as a schema, has some kilobytes.
	maxAliased = 64 << 10
	nodeCost   = 16 // bytes of a node beside its text
)

// Document is a parsed file.
type Document struct {
	JSON []byte // the whole document; null when it is empty

	root *yaml.Node // nil when the document is empty
}

// Parse parses one YAML document, or JSON, which is YAML too. Errors are: duplicate keys, a second document (it would be unclear which one counts),
// tags that are not YAML's own, aliases that expand to much, and deep nesting. They are one line and name the line of the document.
func Parse(b []byte) (*Document, error) {
	d := &Document{}
	in := yaml.NewDecoder(bytes.NewReader(b))
	var first, second yaml.Node
	switch err := in.Decode(&first); {
	case errors.Is(err, io.EOF):
		d.JSON = []byte("null")
		return d, nil
	case err != nil:
		return nil, readable(b, err)
	}
	switch err := in.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document begins here: a file has one, and this one needs a file of its own", second.Line)
	case !errors.Is(err, io.EOF):
		return nil, readable(b, err)
	}
	if len(first.Content) > 0 {
		d.root = first.Content[0]
		if _, err := (&weigher{known: map[*yaml.Node]weight{}}).weigh(d.root, 1); err != nil {
			return nil, err
		}
	}
	var err error
	if d.JSON, err = sigs.YAMLToJSONStrict(b); err != nil {
		return nil, plainYAML(err)
	}
	return d, nil
}

// weight is the size of a node with aliases expanded.
type weight struct{ cost, depth int }

// weigher adds up the weights of aliases without expanding them.
type weigher struct {
	known   map[*yaml.Node]weight // of nodes with an anchor; depth 0 while a node is being weighed
	aliased int
}

// weigh returns the weight of n, which is at depth at.
func (w *weigher) weigh(n *yaml.Node, at int) (weight, error) {
	if at > maxDepth {
		return weight{}, fmt.Errorf("line %d: it is nested too deep: at most %d levels are allowed", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		of, ok := w.known[n.Alias]
		if !ok || of.depth == 0 {
			return weight{}, fmt.Errorf("line %d: the alias *%.40s is within what it stands for", n.Line, n.Value)
		}
		if at+of.depth > maxDepth {
			return weight{}, fmt.Errorf("line %d: with what *%.40s stands for it is nested too deep: at most %d levels are allowed", n.Line, n.Value, maxDepth)
		}
		if w.aliased += of.cost; w.aliased > maxAliased {
			return weight{}, fmt.Errorf("line %d: with *%.40s the aliases stand for over %d bytes: write them out, or into files of their own", n.Line, n.Value, maxAliased)
		}
		return of, nil
	}
	if err := cmp.Or(checkTag(n), checkNumber(n)); err != nil {
		return weight{}, err
	}
	all := weight{nodeCost + len(n.Value) + len(n.Tag), 1}
	if n.Anchor != "" {
		w.known[n] = weight{}
	}
	for _, c := range n.Content {
		part, err := w.weigh(c, at+1)
		if err != nil {
			return weight{}, err
		}
		all.cost += part.cost
		all.depth = max(all.depth, part.depth+1)
	}
	if n.Anchor != "" {
		w.known[n] = all
	}
	return all, nil
}

// checkTag returns an error for an unknown tag, which would be dropped silently.
func checkTag(n *yaml.Node) error {
	if n.Style&yaml.TaggedStyle == 0 {
		return nil
	}
	kind := yaml.ScalarNode
	switch n.ShortTag() {
	case "!!map":
		kind = yaml.MappingNode
	case "!!seq":
		kind = yaml.SequenceNode
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!binary", "!!timestamp", "!!merge":
	default:
		return fmt.Errorf("line %d: the tag %.100s is not known here: leave it out", n.Line, n.ShortTag())
	}
	if n.Kind != kind {
		return fmt.Errorf("line %d: the tag %s is of something else than what stands behind it: leave it out", n.Line, n.ShortTag())
	}
	return nil
}

// checkNumber returns an error for what is a number in YAML and cannot be one in JSON.
func checkNumber(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!float" {
		return nil
	}
	switch strings.ToLower(strings.TrimLeft(n.Value, "+-")) {
	case ".nan", ".inf":
		return fmt.Errorf("line %d: %.20s is no number that can be used here", n.Line, n.Value)
	}
	return nil
}

// readable is plainYAML for an error of the decoder of characters, which does not say where in b it stopped.
func readable(b []byte, err error) error {
	plain := plainYAML(err)
	if strings.HasPrefix(plain.Error(), "line ") {
		return plain
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r) {
			return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:i], []byte("\n")), plain)
		}
		i += size
	}
	return plain
}

// plainYAML returns the libraries' error as one line without their prefixes.
func plainYAML(err error) error {
	text := err.Error()
	for _, step := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: ", "unmarshal errors:"} {
		text = strings.TrimPrefix(strings.TrimSpace(text), strings.TrimSpace(step))
	}
	text, _, _ = strings.Cut(text, "\n") // the first one: there may be one for each line
	if len(text) > maxError {
		text = text[:maxError] + "…" // it names a key
	}
	return errors.New(strings.Join(strings.Fields(string(bytes.ToValidUTF8([]byte(text), []byte("?")))), " "))
}
