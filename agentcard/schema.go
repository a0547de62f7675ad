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

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what a Schema checks.
const (
	MaxValue      = 1 << 20 // bytes of a value
	MaxValueDepth = 100     // levels of lists and maps in it
)

// Schema checks JSON values. It is safe for concurrent use. Everybody who has a schema of the same text may share it, and a check can
// take long: so a few are done at the same time.
type Schema struct {
	unresolved []string
	raw        json.RawMessage
	lanes      [maxChecks]lane
}

// maxChecks is how many checks by one Schema are done at the same time.
const maxChecks = 4

// lane is for one check at a time. Only the first has its checker for good, since one may be over a hundred times as large as its text.
type lane struct {
	mu    sync.Mutex // held during a check
	check *checker
}

// checker does one check at a time.
type checker struct {
	meter  *meter
	root   *jsonschema.Schema // its hooks use meter
	misfit *jsonschema.Schema // what does not fit root
}

// Compile returns the schema of raw, JSON Schema 2020-12, or an older draft that its $schema names. It reads nothing but raw: a
// reference to what is not in it allows everything, and is named by [Schema.Unresolved]. A format is a remark and not
// checked; patterns are those of package regexp. An error is one line, and says where in the schema it is. It keeps the
// latest schemas, so that compiling one again costs little; the same text may give the same Schema.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchema {
		return nil, fmt.Errorf("the schema is %d bytes long, at most %d are allowed", len(raw), MaxSchema)
	}
	key := sha256.Sum256(raw)
	if c, ok := compiled.get(key); ok {
		return c.schema, c.err
	}
	s, err := compile(raw)
	compiled.put(key, result{s, err}, len(raw))
	return s, err
}

func compile(raw []byte) (*Schema, error) {
	c, unresolved, err := newChecker(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{unresolved: unresolved, raw: bytes.Clone(raw)}
	s.lanes[0].check = c
	return s, nil
}

// newChecker also returns the references that cannot be followed.
func newChecker(raw []byte) (check *checker, unresolved []string, err error) {
	// The library is not made for schemas of strangers: what it does not expect may make it panic.
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
	m.watch(root, map[*jsonschema.Schema]bool{})
	return &checker{meter: m, root: root, misfit: &jsonschema.Schema{DraftVersion: root.DraftVersion, Not: root}}, unresolved, nil
}

// schemaURL is the name of every schema inside the library.
const schemaURL = "schema:///schema"

// noLoader refuses to read anything; localize has left no reference that would.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("it is not in the schema") }

// Validate returns nil when value, a JSON text, fits the schema; else an error of one line that says what is wrong and where,
// for at most three places. It also refuses a value over [MaxValue] or [MaxValueDepth], and one that takes too long to check.
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
	p := s.lane()
	defer p.mu.Unlock()
	if p.check != nil {
		return p.check.validate(v)
	}
	c, _, err := newChecker(s.raw)
	if err != nil { // not possible: it was compiled before
		return err
	}
	return c.validate(v)
}

// lane returns a lane that nobody else has until it is unlocked.
func (s *Schema) lane() *lane {
	for i := range s.lanes {
		if p := &s.lanes[i]; p.mu.TryLock() {
			return p
		}
	}
	p := &s.lanes[rand.N(maxChecks)]
	p.mu.Lock()
	return p
}

func (c *checker) validate(v any) (err error) {
	// A check that only finds out whether the value fits keeps nothing; one for the reasons keeps every one of them.
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

// Unresolved returns the references of the schema that it cannot follow, such as "#/defs/Other", each once, in order.
func (s *Schema) Unresolved() []string { return slices.Clone(s.unresolved) }

// decode reads one JSON value. Numbers are float64, as they are after a transport: none is so large that it takes long.
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
