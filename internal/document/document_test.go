package document_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	yamlv2 "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

// TestBombsAreRefused checks that no bomb costs much memory.
func TestBombsAreRefused(t *testing.T) {
	for name, bomb := range documenttest.Bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := document.Parse([]byte(bomb))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("Parse() = nil, want an error")
			} else if !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("Parse() = %q, want one short line that names the line", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
				t.Errorf("Parse() of %d bytes allocated %d MB", len(bomb), used>>20)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `null`,
		"# nothing\n":                     `null`,
		"--- # as editors write it\na: 1": `{"a":1}`,
		"a: 1\n...\n":                     `{"a":1}`,
		"\ufeffa: no":                     `{"a":false}`,
		`{"a": [1, "b"], "c": null}`:      `{"a":[1,"b"],"c":null}`,
		"a: &x {s: [1]}\nb: *x\n":         `{"a":{"s":[1]},"b":{"s":[1]}}`,
		"a: !!str 1\nb: !!map {c: !!seq [!!int 2]}": `{"a":"1","b":{"c":[2]}}`,
		"a: &x {s: 1}\nb: {<<: *x, t: 2}":           `{"a":{"s":1},"b":{"s":1,"t":2}}`,
	} {
		d, err := document.Parse([]byte(text))
		if err != nil || string(d.JSON) != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", text, d, err, want)
		}
	}
	for text, want := range map[string]string{
		"a: 1\n---\nb: 2":        "line 2: a second document begins here",
		"a: 1\n---\n":            "line 2: a second document begins here",
		"a: 1\nb: [.NaN]":        "line 2: .NaN is no number",
		"a: {c: -.inf}":          "line 1: -.inf is no number",
		"---\n---\na: 1":         "line 2: a second document begins here",
		"a: 1\n...\n---\n[":      "line ",
		"a: 1\n--- |\n  b\n":     "line 2: a second document begins here",
		"{\"a\": 1}\n{\"b\": 2}": "line ",
		"a: 1\na: 2":             `line 2: key "a" already set in map`,
		"a: [":                   "line 1: ",
		"a: !!python/object []":  "line 1: the tag !!python/object is not known here: leave it out",
		"a: 1\nb: !secret x":     "line 2: the tag !secret is not known here: leave it out",
		"a: !!map []":            "line 1: the tag !!map is of something else",
		"a: !!str {}":            "line 1: the tag !!str is of something else",
		"a: *b":                  "unknown anchor 'b' referenced",
		"a: \x00":                "line 1: control characters are not allowed",
	} {
		if _, err := document.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%q) = %v, want %s", text, err, want)
		}
	}
}

// TestErrorsAreShort checks that a file of many mistakes, or of a long one, has the words of one line.
func TestErrorsAreShort(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a: 1\n", 1000):                       `line 2: key "a" already set in map`,
		strings.Repeat(strings.Repeat("k", 1000)+": 1\n", 2): `line 2: key "kkk`,
	} {
		if _, err := document.Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("Parse(%.20q…) = %v, want %s", text, err, want)
		}
	}
}

func TestLine(t *testing.T) {
	d, err := document.Parse([]byte(`# a comment
auth: ""
budget:
  turn:
    tokens: many
rules:
- agents: [a]
- agents: [b]
  alow: false
skills:
- id: x
- id: y
  nmae: z
llms: {main: {provider: clippy},
  other: {}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"auth: it is empty": 2, "budget.turn.tokens: want a number": 5, "budget.turn: want tokens": 4, `unknown key "auth"`: 2,
		`rule 2: unknown key "alow": did you mean`: 9, "rule 2: agents: wrong": 8, "rule 7: agents: wrong": 0, "rules: it is a list": 6,
		`unknown field "skills[1].nmae"; remove it`: 13, "skills[1].name is missing": 12, "skills[9]: x": 10,
		"llms.main: provider \"clippy\" is not known": 14, "llms.other: x": 15, "something else": 0, "authors: x": 0, "": 0,
	} {
		if got := d.Line(text); got != want {
			t.Errorf("Line(%q) = %d, want %d", text, got, want)
		}
	}
	if got := d.Explain(errors.New("auth: x")).Error(); got != "auth: x (line 2)" {
		t.Errorf("Explain() = %q", got)
	}
}

func TestCheckJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[{"a": 1, "b": {"a": "a"}, "c": ["a", {"a": 1}]}, {"a": 2}]`: "",
		"[{\"a\": 1,\n \"a\": 2}]":                                    `line 2: key "a" is there twice`,
		`{"a": [], "a": 1}`:                                           `line 1: key "a" is there twice`,
		`{"a": {}, "b": "a", "b": 1}`:                                 `line 1: key "b" is there twice`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000):         "line 1: it is nested too deep",
	} {
		err := document.CheckJSON([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("CheckJSON(%.80s) = %v, want %q", text, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := document.Read(t.Context(), path, 5); err != nil || string(b) != "12345" {
		t.Errorf("Read() = %q, %v", b, err)
	}
	if b, info, err := document.ReadRegular(path, 5); err != nil || string(b) != "12345" || info.Size() != 5 {
		t.Errorf("ReadRegular() = %q, %v", b, err)
	}
	if _, err := document.Read(t.Context(), path, 4); !errors.Is(err, document.ErrTooLarge) || err.Error() != path+" is too large: at most 4 bytes are allowed" {
		t.Errorf("Read() of too much = %v", err)
	}
	if _, _, err := document.ReadRegular(path, 4); !errors.Is(err, document.ErrTooLarge) {
		t.Errorf("ReadRegular() of too much = %v", err)
	}
	if _, err := document.Read(t.Context(), dir, 5); err == nil || err.Error() != dir+" is a folder, not a file" {
		t.Errorf("Read() of a folder = %v", err)
	}
	if _, err := document.Read(t.Context(), path+".not", 5); !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "open") {
		t.Errorf("Read() of nothing = %v", err)
	}
}

// FuzzParse checks that nothing panics or costs much, and that every input that Parse accepts is a single document for the decoder too.
func FuzzParse(f *testing.F) {
	for _, s := range documenttest.Seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 64<<10 {
			return
		}
		d, err := document.Parse([]byte(s))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Parse(%q) = %q, want one line", s, err)
			}
			return
		}
		if !json.Valid(d.JSON) {
			t.Errorf("Parse(%q) = %q, which is no JSON", s, d.JSON)
		}
		d.Line(s)
		in := yamlv2.NewDecoder(bytes.NewReader([]byte(s)))
		var v any
		if err := in.Decode(&v); err == nil {
			if err := in.Decode(&v); !errors.Is(err, io.EOF) {
				t.Errorf("Parse(%q) takes one document of several: %v", s, err)
			}
		}
	})
}
