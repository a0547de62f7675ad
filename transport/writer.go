package transport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// writer encodes as EncodeValue does, byte for byte.
type writer struct {
	b   []byte
	err error
}

// maxNested bounds the nesting of values before the depth is checked: encoding/json decodes at most 10,000 levels.
const maxNested = 5000

// marshal is EncodeValue, but rejects values that are nested too deeply to be decoded.
func marshal(p any) ([]byte, error) { return appendJSON(nil, p) }

// appendJSON appends the result of marshal.
func appendJSON(to []byte, p any) ([]byte, error) {
	f := fieldsOf(p)
	if f[0].name == "" {
		b, err := EncodeValue(p)
		return append(to, b...), err
	}
	w := writers.Get().(*writer)
	defer w.free()
	w.object(&f)
	if w.err != nil {
		return nil, w.err
	}
	if bytes.Count(w.b, []byte("{"))+bytes.Count(w.b, []byte("[")) > maxNested && !json.Valid(w.b) {
		return nil, errors.New("it is nested too deeply")
	}
	return append(to, w.b...), nil
}

// writers pools idle writers with their buffers.
var writers = sync.Pool{New: func() any { return &writer{b: make([]byte, 0, 4<<10)} }}

// maxKept bounds a pooled buffer, in bytes.
const maxKept = 64 << 10

func (w *writer) free() {
	if cap(w.b) <= maxKept {
		w.b, w.err = w.b[:0], nil
		writers.Put(w)
	}
}

// EncodeValue encodes a value as in payloads: as [json.Marshal], but with <, > and & unescaped. Escapes, which only web pages need, take six times as
// much space: a text of a permitted size would become too large. [json.Encoder] could also leave them out, but not in the output of types with their
// own encoding, such as those of A2A.
func EncodeValue(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || !bytes.Contains(b, []byte(`\u00`)) {
		return b, err
	}
	n := 0
	for i := 0; i < len(b); n++ {
		switch c := b[i]; {
		case c != '\\':
			b[n], i = c, i+1
		case bytes.HasPrefix(b[i:], []byte(`\u003c`)):
			b[n], i = '<', i+6
		case bytes.HasPrefix(b[i:], []byte(`\u003e`)):
			b[n], i = '>', i+6
		case bytes.HasPrefix(b[i:], []byte(`\u0026`)):
			b[n], i = '&', i+6
		default: // an escaped backslash begins no other escape
			b[n], b[n+1] = c, b[i+1]
			n, i = n+1, i+2
		}
	}
	return b[:n], nil
}

func (w *writer) object(f *fields) {
	w.byte('{')
	for k := 0; k < len(f) && f[k].name != ""; k++ {
		begin := len(w.b)
		w.comma('{')
		w.text(f[k].name)
		w.byte(':')
		if empty := w.write(f[k].value); empty && !f[k].always {
			w.b = w.b[:begin]
		}
	}
	w.byte('}')
}

// write also reports whether the value is empty.
func (w *writer) write(value any) (empty bool) {
	switch v := value.(type) {
	case *string:
		w.text(*v)
		return *v == ""
	case **string:
		if *v == nil {
			return true
		}
		w.text(**v)
	case *[]string:
		list(w, *v, w.text)
		return len(*v) == 0
	case *[]a2a.TaskID:
		list(w, *v, func(id a2a.TaskID) { w.text(string(id)) })
		return len(*v) == 0
	case *bool:
		w.b = strconv.AppendBool(w.b, *v)
		return !*v
	case *time.Time:
		w.time(*v)
	case **time.Time:
		if *v == nil {
			return true
		}
		w.time(**v)
	case *map[string]any:
		if len(*v) == 0 {
			return true
		}
		w.values(*v, 0)
	case **any:
		if *v == nil {
			return true
		}
		w.any(**v, 0)
	case *[]byte:
		w.bytes(*v)
		return *v == nil
	case **[]byte:
		if *v == nil {
			return true
		}
		w.bytes(**v)
	case *json.RawMessage:
		w.b = append(w.b, *v...)
		return len(*v) == 0
	case *a2a.MessageRole:
		w.text(v.String())
	case *a2a.TaskState:
		w.text(v.String())
	case *a2a.ContentParts:
		list(w, *v, w.part)
	case *[]*a2a.Message:
		list(w, *v, func(m *a2a.Message) { writeAt(w, m) })
		return len(*v) == 0
	case *[]*a2a.Artifact:
		list(w, *v, func(a *a2a.Artifact) { writeAt(w, a) })
		return len(*v) == 0
	case **a2a.Message:
		return writeAt(w, *v)
	case **a2a.Artifact:
		return writeAt(w, *v)
	case *a2a.TaskStatus:
		f := fieldsOf(v)
		w.object(&f)
	default:
		w.err = fmt.Errorf("a field of type %T is not known", value)
	}
	return false
}

// writeAt encodes the object at p, and reports whether it is nil.
func writeAt[T any](w *writer, p *T) (none bool) {
	if p == nil {
		w.null()
		return true
	}
	f := fieldsOf(p)
	w.object(&f)
	return false
}

func (w *writer) part(p *a2a.Part) {
	if p == nil {
		w.null()
		return
	}
	j := toJSON(p)
	f := fieldsOf(&j)
	w.object(&f)
}

func list[T any](w *writer, all []T, element func(T)) {
	if all == nil {
		w.null()
		return
	}
	w.byte('[')
	for i, v := range all {
		if i > 0 {
			w.byte(',')
		}
		element(v)
	}
	w.byte(']')
}

func (w *writer) values(all map[string]any, depth int) {
	names := make([]string, 0, 16)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	w.byte('{')
	for i, name := range names {
		if i > 0 {
			w.byte(',')
		}
		w.text(name)
		w.byte(':')
		w.any(all[name], depth)
	}
	w.byte('}')
}

func (w *writer) any(value any, depth int) {
	if depth++; w.err != nil {
		return // a cyclic value would be endless
	}
	switch v := value.(type) {
	case nil:
		w.null()
		return
	case string:
		w.text(v)
		return
	case bool:
		w.b = strconv.AppendBool(w.b, v)
		return
	case int:
		w.b = strconv.AppendInt(w.b, int64(v), 10)
		return
	case float64:
		if abs := math.Abs(v); v == 0 || abs >= 1e-6 && abs < 1e21 {
			w.b = strconv.AppendFloat(w.b, v, 'f', -1, 64)
			return
		}
	case []string:
		list(w, v, w.text)
		return
	case []any:
		if depth < maxPlain {
			list(w, v, func(a any) { w.any(a, depth) })
			return
		}
	case map[string]any:
		if v != nil && depth < maxPlain {
			w.values(v, depth)
			return
		}
	}
	w.viaEncodingJSON(value)
}

// viaEncodingJSON encodes other values, and cyclic ones, with encoding/json. A value that is JSON already may have a number that nobody can read again.
func (w *writer) viaEncodingJSON(v any) {
	b, err := EncodeValue(v)
	switch v.(type) {
	case string, time.Time, float64:
	default:
		if n := tooLarge(b); n != "" && err == nil {
			err = fmt.Errorf("the number %.40s is larger than a float64 can be, some 1.8e308", n)
		}
	}
	w.b = append(w.b, b...)
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			w.viaEncodingJSON(s)
			return
		}
	}
	w.byte('"')
	w.b = append(w.b, s...)
	w.byte('"')
}

func (w *writer) bytes(b []byte) {
	if b == nil {
		w.null()
		return
	}
	w.byte('"')
	w.b = base64.StdEncoding.AppendEncode(w.b, b)
	w.byte('"')
}

func (w *writer) time(t time.Time) {
	w.byte('"')
	b, err := t.AppendText(w.b)
	if err != nil {
		w.viaEncodingJSON(t) // returns the error
		return
	}
	w.b = b
	w.byte('"')
}

func (w *writer) null() { w.b = append(w.b, "null"...) }

func (w *writer) byte(c byte) { w.b = append(w.b, c) }

// comma writes a comma, unless begin was written last.
func (w *writer) comma(begin byte) {
	if w.b[len(w.b)-1] != begin {
		w.byte(',')
	}
}
