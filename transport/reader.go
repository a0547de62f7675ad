package transport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// reader decodes plain JSON. It sets odd for anything else, and then its result is void: invalid JSON or UTF-8, deep nesting, a name that is unknown,
// duplicate or in another case, null instead of a value.
type reader struct {
	b   []byte
	s   string // b as a string that texts share; "": texts are copied
	i   int    // the next byte
	odd bool
}

// maxShared bounds a body that texts share, in bytes: a short text would keep a longer body in memory.
const maxShared = 4 << 10

// readPlain decodes body into p, which is new, and reports whether it succeeded. Otherwise p is void. kept says that body will not be modified.
func readPlain(body []byte, p any, kept bool) bool {
	f := fieldsOf(p)
	if f[0].name == "" {
		return false
	}
	r := reader{b: body}
	if kept && len(body) <= maxShared {
		r.s = unsafe.String(unsafe.SliceData(body), len(body))
	}
	r.object(&f)
	r.space()
	return !r.odd && r.i == len(body)
}

func (r *reader) object(f *fields) {
	if r.want('{'); r.next('}') {
		return
	}
	for seen := 0; !r.odd; r.want(',') {
		name, _ := r.quoted() // not unescaped: no known name contains escapes
		r.want(':')
		k := 0
		for k < len(f) && f[k].name != string(name) {
			k++
		}
		if k == len(f) || seen&(1<<k) != 0 {
			break
		}
		seen |= 1 << k
		if r.read(f[k].value); r.next('}') {
			return
		}
	}
	r.odd = true
}

func (r *reader) read(to any) {
	switch v := to.(type) {
	case *string:
		*v = r.text()
	case **string:
		s := r.text()
		*v = &s
	case *[]string:
		*v = []string{}
		r.list(func() { *v = append(*v, r.text()) })
	case *[]a2a.TaskID:
		*v = []a2a.TaskID{}
		r.list(func() { *v = append(*v, a2a.TaskID(r.text())) })
	case *bool:
		*v = r.bool()
	case *time.Time:
		*v = r.time()
	case **time.Time:
		t := r.time()
		*v = &t
	case *map[string]any:
		*v = r.values(0)
	case **any:
		a := r.any(0)
		r.odd = r.odd || a == nil
		*v = &a
	case *[]byte:
		*v = r.bytes()
	case **[]byte:
		b := r.bytes()
		*v = &b
	case *json.RawMessage:
		*v = r.raw()
	case *a2a.MessageRole:
		if *v = a2a.MessageRole(r.text()); *v == "ROLE_UNSPECIFIED" {
			*v = a2a.MessageRoleUnspecified
		}
	case *a2a.TaskState:
		if *v = a2a.TaskState(r.text()); *v == "TASK_STATE_UNSPECIFIED" {
			*v = a2a.TaskStateUnspecified
		}
	case *a2a.ContentParts:
		*v = a2a.ContentParts{}
		r.list(func() {
			var j partJSON
			f := fieldsOf(&j)
			r.object(&f)
			p, ok := j.part()
			r.odd = r.odd || !ok
			*v = append(*v, p)
		})
	case *[]*a2a.Message:
		readList(r, v)
	case *[]*a2a.Artifact:
		readList(r, v)
	case **a2a.Message:
		*v = readNew[a2a.Message](r)
	case **a2a.Artifact:
		*v = readNew[a2a.Artifact](r)
	case *a2a.TaskStatus:
		f := fieldsOf(v)
		r.object(&f)
	default:
		r.odd = true
	}
}

func readNew[T any](r *reader) *T {
	v := new(T)
	f := fieldsOf(v)
	r.object(&f)
	return v
}

func readList[T any](r *reader, to *[]*T) {
	*to = []*T{}
	r.list(func() { *to = append(*to, readNew[T](r)) })
}

// list calls element for each element of an array, to decode it.
func (r *reader) list(element func()) {
	if r.want('['); r.next(']') {
		return
	}
	for ; !r.odd; r.want(',') {
		if element(); r.next(']') {
			return
		}
	}
}

// values decodes an object with any names. Of duplicate names the last counts, as in encoding/json.
func (r *reader) values(depth int) map[string]any {
	all := map[string]any{}
	if r.want('{'); r.next('}') {
		return all
	}
	for ; !r.odd; r.want(',') {
		name := r.text()
		r.want(':')
		if all[name] = r.any(depth); r.next('}') {
			break
		}
	}
	return all
}

func (r *reader) any(depth int) any {
	if depth++; depth > maxPlain {
		r.odd = true
	}
	if r.space(); r.odd || r.i == len(r.b) {
		r.odd = true
		return nil
	}
	switch r.b[r.i] {
	case '"':
		return r.text()
	case '{':
		return r.values(depth)
	case '[':
		all := []any{}
		r.list(func() { all = append(all, r.any(depth)) })
		return all
	case 't', 'f':
		return r.bool()
	case 'n':
		r.literal("null")
		return nil
	}
	return r.number()
}

func (r *reader) number() any {
	text := r.b[r.i:][:numberLen(r.b[r.i:])]
	r.i += len(text)
	if len(text) == 1 && text[0] >= '0' && text[0] <= '9' { // the usual case
		return float64(text[0] - '0')
	}
	f := decode[float64](r, text)
	if r.odd || holds(f, string(text)) {
		return f
	}
	return json.Number(text)
}

// decode decodes a value with encoding/json, which accepts more forms.
func decode[T any](r *reader, b []byte) (v T) {
	r.odd = r.odd || json.Unmarshal(b, &v) != nil
	return v
}

func (r *reader) bool() bool {
	r.space()
	if r.i < len(r.b) && r.b[r.i] == 't' {
		r.literal("true")
		return true
	}
	r.literal("false")
	return false
}

func (r *reader) literal(word string) {
	if !bytes.HasPrefix(r.b[r.i:], []byte(word)) {
		r.odd = true
		return
	}
	r.i += len(word)
}

func (r *reader) time() (t time.Time) {
	r.space()
	begin := r.i
	r.quoted()
	r.odd = r.odd || t.UnmarshalJSON(r.b[begin:r.i]) != nil
	if _, zone := t.Zone(); zone <= -24*60*60 || zone >= 24*60*60 {
		r.odd = true // it can be decoded, but not encoded again
	}
	return t
}

func (r *reader) bytes() []byte {
	b, err := base64.StdEncoding.DecodeString(r.text())
	r.odd = r.odd || err != nil
	return b
}

func (r *reader) text() string {
	r.space()
	begin := r.i
	text, escaped := r.quoted()
	switch {
	case r.odd:
		return ""
	case !escaped && r.s != "":
		return r.s[begin+1 : r.i-1]
	case !escaped:
		return string(text)
	}
	return decode[string](r, r.b[begin:r.i])
}

// quoted reads a string and returns the text between its quotes, and whether there are escapes in it, which it does not check.
func (r *reader) quoted() (text []byte, escaped bool) {
	r.want('"')
	begin, ascii := r.i, true
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; {
		case c == '"':
			text = r.b[begin:r.i]
			r.i++
			r.odd = r.odd || !ascii && !utf8.Valid(text)
			return text, escaped
		case c == '\\':
			escaped = true
			r.i++
		case c < ' ':
			r.odd = true
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.i, r.odd = len(r.b), true
	return nil, false
}

// raw reads an object and returns it. It does not check the text between the first and the last brace.
func (r *reader) raw() []byte {
	r.space()
	begin, depth := r.i, 0
	if r.i == len(r.b) || r.b[r.i] != '{' {
		r.odd = true
	}
	for !r.odd && r.i < len(r.b) {
		switch r.b[r.i] {
		case '"':
			r.quoted()
			continue
		case '{':
			depth++
		case '}':
			depth--
		}
		if r.i++; depth == 0 {
			return r.b[begin:r.i]
		}
	}
	r.odd = true
	return nil
}

// want reads c.
func (r *reader) want(c byte) {
	if !r.next(c) {
		r.odd = true
	}
}

// next reads c, if it is the next byte.
func (r *reader) next(c byte) bool {
	if r.space(); r.odd || r.i == len(r.b) || r.b[r.i] != c {
		return false
	}
	r.i++
	return true
}

func (r *reader) space() {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\n' || r.b[r.i] == '\t' || r.b[r.i] == '\r') {
		r.i++
	}
}
