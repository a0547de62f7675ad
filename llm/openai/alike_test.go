package openai

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const usual = `{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`

// TestAlikeFramesAreRead checks that frames which differ in their text alone are read without decoding, with the same result.
func TestAlikeFramesAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"word": ` word`, "empty": ``, "quote": ` \"a\" \\ \n`, "letters": `Größe 語 \u00e9`, "invalid": "a\xffb", "half a pair": `\ud83d`, "the same": `first`,
	} {
		t.Run(name, func(t *testing.T) {
			var c chatFormat
			c.frame("", fmt.Appendf(nil, usual, "first"))
			data := fmt.Appendf(nil, usual, text)
			got, ok := c.earlier.read(data)
			if !ok {
				t.Fatalf("%s was not taken for a frame like the one before", data)
			}
			want, ok := new(chatFormat).frame("", data)
			if !ok || len(want.frames) != 1 {
				t.Fatalf("%s is no frame", data)
			}
			if diff := cmp.Diff(added(want), added(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// added returns what a reading adds to an answer.
func added(r reading) string {
	a := answer{}
	var all []string
	for _, p := range r.frames {
		text, err := p.addTo(&a)
		all = append(all, fmt.Sprintf("%q %v", text, err))
	}
	return fmt.Sprint(all, a.model, a.usage, a.finish, r.ends, r.last, r.err, string(r.failed))
}

// TestUnlikeFramesAreDecoded checks frames that look like the one before, and are not.
func TestUnlikeFramesAreDecoded(t *testing.T) {
	first := fmt.Sprintf(usual, "first")
	for name, tt := range map[string]struct{ first, second string }{
		"another field":       {first, strings.Replace(fmt.Sprintf(usual, "x"), "null", `"stop"`, 1)},
		"text that ends":      {first, fmt.Sprintf(usual, `x","refusal":"no`)},
		"text that is open":   {first, fmt.Sprintf(usual, `x\`)},
		"a line within":       {first, fmt.Sprintf(usual, "x\ty")},
		"no text":             {first, strings.Replace(fmt.Sprintf(usual, "x"), `"x"`, "null", 1)},
		"shorter than before": {first, `{"choices":[]}`},
		"text that is there twice": {
			`{"model":"word","choices":[{"index":0,"delta":{"content":"word"}}]}`, `{"model":"other","choices":[{"index":0,"delta":{"content":"word"}}]}`,
		},
		"text of two parts": {
			`{"model":"ab","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`,
			`{"model":"xy","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`,
		},
		"another choice": {
			`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"c"}},{"index":1,"delta":{"content":"b"}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c chatFormat
			c.frame("", []byte(tt.first))
			got, gotOK := c.frame("", []byte(tt.second))
			want, wantOK := new(chatFormat).frame("", []byte(tt.second))
			if gotOK != wantOK || added(got) != added(want) {
				t.Errorf("got %v %s, want %v %s", gotOK, added(got), wantOK, added(want))
			}
		})
	}
}

// FuzzAlike compares a frame that follows another one with the same frame alone.
func FuzzAlike(f *testing.F) {
	for _, s := range []string{"a", `\"`, "x\",\"content\":\"y", `\u00`, "\xff", ""} {
		f.Add(fmt.Sprintf(usual, "first"), fmt.Sprintf(usual, s))
	}
	f.Add(`{"choices":[{"delta":{"content":"a","content":"b"}}]}`, `{"choices":[{"delta":{"content":"a","content":"c"}}]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		if first == "" || second == "" {
			return
		}
		var c chatFormat
		c.frame("", []byte(first))
		got, gotOK := c.frame("", []byte(second))
		want, wantOK := new(chatFormat).frame("", []byte(second))
		if gotOK != wantOK || added(got) != added(want) {
			t.Errorf("%q behind %q: got %v %s, want %v %s", second, first, gotOK, added(got), wantOK, added(want))
		}
	})
}
