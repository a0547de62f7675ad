package agentcard

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of values for a Schema.
const (
	MaxValue      = 1 << 20 // bytes of a value
	MaxValueDepth = 100     // levels of lists and maps
)

// Schema validates JSON values. It is safe for concurrent use. Schemas with the same text may be shared, and validation can take long, so it permits
// a few concurrent validations.
type Schema struct {
	unresolved []string
	raw        json.RawMessage
	kept       atomic.Pointer[checker] // of the first lane; nil: it is made again
	lanes      [maxChecks]sync.Mutex   // each held during a validation
}

// maxChecks bounds the concurrent validations of a Schema.
const maxChecks = 4

// checker performs one validation at a time.
type checker struct {
	meter  *meter
	root   *jsonschema.Schema // its hooks use meter
	misfit *jsonschema.Schema // accepts what root rejects
	weight int                // bytes, about
}

// schemaWeight is about what a schema within a schema takes, in bytes, and textWeight what each byte of the text does.
const (
	schemaWeight = 1 << 10
	textWeight   = 48
)

// Compile compiles raw as JSON Schema 2020-12, or an older draft that its $schema names. It reads nothing but raw: a reference that cannot be
// resolved within raw permits everything, and is reported by [Schema.Unresolved]. Formats are not checked; patterns are those of package regexp. An
// error is one line, and has the location in the schema. Compile caches the latest schemas, so the same text may give the same Schema.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("the schema is %d bytes long, at most %d are allowed", len(raw), MaxSchema)
	}
	key := sha256.Sum256(raw)
	if c, ok := compiled.get(key); ok {
		return c.schema, c.err
	}
	c, unresolved, err := newChecker(raw)
	if err != nil {
		compiled.put(key, result{err: err}, 0)
		return nil, err
	}
	s := &Schema{unresolved: unresolved, raw: bytes.Clone(raw)}
	s.keep(c)
	return s, nil
}

// keep keeps a checker for the next validation, until the cache needs its room: whoever keeps many schemas keeps little more than their texts.
func (s *Schema) keep(c *checker) {
	s.kept.Store(c)
	compiled.put(sha256.Sum256(s.raw), result{schema: s}, c.weight)
}

// newChecker also returns the references that cannot be resolved.
func newChecker(raw []byte) (check *checker, unresolved []string, err error) {
	// The library is not designed for untrusted schemas: unexpected ones may make it panic.
	defer func() {
		if p := recover(); p != nil {
			check, err = nil, errors.New("the schema cannot be used: it takes too long, or says what makes no sense")
		}
	}()
	doc, err := decode(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("the schema is not JSON: %s", oneLine(err.Error(), 200))
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, nil, fmt.Errorf("a schema is a group of fields, not %s", article(kindOf(doc)))
	}
	if !shallow(doc, maxDepth) {
		return nil, nil, fmt.Errorf("the schema is nested too deep: at most %d levels are allowed", maxDepth)
	}
	m := &meter{}
	unresolved = localize(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(m.regexp)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, nil, explainSchema(err)
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, nil, explainSchema(err)
	}
	seen := map[*jsonschema.Schema]bool{}
	m.watch(root, seen)
	misfit := &jsonschema.Schema{DraftVersion: root.DraftVersion, Not: root}
	return &checker{m, root, misfit, len(raw)*textWeight + len(seen)*schemaWeight + m.weight}, unresolved, nil
}

// schemaURL is the URL of every schema within the library.
const schemaURL = "schema:///schema"

// noLoader rejects loading; localize has removed all references that would need it.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("it is not in the schema") }

// Validate returns nil when value, a JSON text, is valid; otherwise an error of one line that explains at most three violations and where they are.
// It also rejects a value above [MaxValue] or [MaxValueDepth], and one that takes too long to validate.
func (s *Schema) Validate(value json.RawMessage) (err error) {
	if len(value) > MaxValue {
		return fmt.Errorf("the value is %d bytes long, at most %d are allowed", len(value), MaxValue)
	}
	v, err := decode(value)
	if err != nil {
		return fmt.Errorf("the value is not JSON: %s", oneLine(err.Error(), 200))
	}
	if !shallow(v, MaxValueDepth) {
		return fmt.Errorf("the value is nested too deep: at most %d levels are allowed", MaxValueDepth)
	}
	i := s.lane()
	defer s.lanes[i].Unlock()
	if i == 0 {
		if c := s.kept.Load(); c != nil {
			return c.validate(v)
		}
	}
	c, _, err := newChecker(s.raw)
	if err != nil { // impossible: it compiled before
		return err
	}
	if i == 0 {
		s.keep(c)
	}
	return c.validate(v)
}

// lane locks a lane, and returns its number.
func (s *Schema) lane() int {
	for i := range s.lanes {
		if s.lanes[i].TryLock() {
			return i
		}
	}
	i := rand.N(maxChecks)
	s.lanes[i].Lock()
	return i
}

func (c *checker) validate(v any) (err error) {
	// Validating with misfit stores no reasons; validating with root stores every one.
	fits := false
	if !c.meter.run(effort, func() { fits = c.misfit.Validate(v) != nil }) {
		return errors.New("the value cannot be checked against its schema: it takes too long")
	}
	if fits {
		return nil
	}
	if !c.meter.run(explainEffort, func() { err = c.root.Validate(v) }) {
		return errors.New("the value does not fit its schema: there is too much wrong with it to say what")
	}
	return explain(err)
}

// Unresolved returns the references of the schema that cannot be resolved, such as "#/defs/Other", without duplicates, in order.
func (s *Schema) Unresolved() []string { return slices.Clone(s.unresolved) }

// decode decodes one JSON value. Numbers become float64, as after a transport, which bounds the cost of computing with them.
func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after it")
	}
	return v, nil
}
