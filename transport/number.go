package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// JSON values in metadata and in data parts are decoded as by encoding/json, with one exception: a number that a float64 cannot represent, such as an
// id of 64 bits, becomes a [json.Number]. It is encoded unchanged.

// DecodeValue decodes one JSON value as in payloads: numbers become float64, or [json.Number] if a float64 cannot represent them.
func DecodeValue(b []byte) (any, error) {
	r := reader{b: b}
	v := r.any(0)
	if r.space(); !r.odd && r.i == len(b) {
		return v, nil
	}
	v = nil
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	v = nil
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return replaced(v, func(v any) any {
		if n, ok := v.(json.Number); ok {
			return number(string(n))
		}
		return v
	}), nil
}

// Float returns v, a number in metadata, as a float64, or false when v is no number.
func Float(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// number returns the value for a number in JSON.
func number(text string) any {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || holds(f, text) {
		return f
	}
	return json.Number(text)
}

// tooLarge returns the first number in JSON that is larger than any float64, or "".
func tooLarge(b []byte) string {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c >= '0' && c <= '9':
			begin := i
			for i+1 < len(b) && strings.IndexByte("0123456789.eE+-", b[i+1]) >= 0 {
				i++
			}
			text := string(b[begin : i+1])
			if f, _ := strconv.ParseFloat(text, 64); math.IsInf(f, 0) { //nolint:errcheck // it is JSON, so that the only error is this
				return text
			}
		}
	}
	return ""
}

// holds reports whether f, the float64 nearest to a number in JSON, equals that number, in whatever notation.
func holds(f float64, text string) bool {
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") { // this many digits always fit
		return true
	}
	return digits(text) == digits(strconv.FormatFloat(f, 'e', -1, 64)) // equal digits mean equal numbers, since f is the nearest
}

// digits returns the significant digits of a number in JSON.
func digits(text string) string {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	return strings.Trim(whole+fraction, "0")
}

// unmarshal is [json.Unmarshal] into a new payload of a kind, except for numbers that a float64 cannot represent.
func unmarshal(kind, version string, body []byte) (Payload, error) {
	p := newPayload(kind, version)
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	if fieldsOf(p)[0].name == "" {
		return p, nil
	}
	mark := rand.Text() // no string contains it, since it was chosen after body was written
	marked := markNumbers(body, mark)
	if marked == nil {
		return p, nil
	}
	again := newPayload(kind, version)
	if err := json.Unmarshal(marked, again); err != nil {
		return nil, err
	}
	replaceIn(again, func(v any) any {
		if s, ok := v.(string); ok && strings.HasPrefix(s, mark) {
			return json.Number(s[len(mark):])
		}
		return v
	})
	return again, nil
}

// markNumbers replaces the numbers of body, which is JSON, that a float64 cannot represent by strings: mark and the number. It returns nil when there
// are none.
func markNumbers(body []byte, mark string) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			for i++; body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			begin := i
			i = begin + numberLen(body[begin:])
			if n, ok := number(string(body[begin:i])).(json.Number); ok {
				out = append(append(append(out, body[done:begin]...), '"'), mark...)
				out = append(append(out, n...), '"')
				done = i
			}
			i--
		}
	}
	if out == nil {
		return nil
	}
	return append(out, body[done:]...)
}

// numberLen returns the number of bytes at the start of b that can be part of a number.
func numberLen(b []byte) int {
	for i, c := range b {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return i
		}
	}
	return len(b)
}

// replaceIn replaces the values in the metadata and the data parts of p by the results of by.
func replaceIn(p any, by func(any) any) {
	for _, f := range fieldsOf(p) {
		switch v := f.value.(type) {
		case *map[string]any:
			replaced(*v, by)
		case *a2a.ContentParts:
			for _, part := range *v {
				if part == nil {
					continue
				}
				replaced(part.Metadata, by)
				if d, ok := part.Content.(a2a.Data); ok {
					part.Content = a2a.Data{Value: replaced(d.Value, by)}
				}
			}
		case *[]*a2a.Message:
			replaceInEach(*v, by)
		case *[]*a2a.Artifact:
			replaceInEach(*v, by)
		case **a2a.Message:
			replaceInEach([]*a2a.Message{*v}, by)
		case **a2a.Artifact:
			replaceInEach([]*a2a.Artifact{*v}, by)
		case *a2a.TaskStatus:
			replaceIn(v, by)
		}
	}
}

func replaceInEach[T any](all []*T, by func(any) any) {
	for _, p := range all {
		if p != nil {
			replaceIn(p, by)
		}
	}
}

// replaced returns v with each value in it replaced by the result of by. It modifies maps and lists.
func replaced(v any, by func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = replaced(e, by)
		}
	case []any:
		for i, e := range v {
			v[i] = replaced(e, by)
		}
	default:
		return by(v)
	}
	return v
}
