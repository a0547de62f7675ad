package persona

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// ownKey is the key below which the keys of Cortex are.
const ownKey = "cortex"

// fence is the line around the front matter.
const fence = "---"

// split returns the front matter of a Markdown file, nil if it has none, and its text.
func split(b []byte) (front []byte, body string, err error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != fence {
		return nil, strings.TrimSpace(text), nil
	}
	at := 0
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == fence {
			return []byte(rest[:at]), strings.TrimSpace(rest[at+len(line):]), nil
		}
		at += len(line)
	}
	return nil, "", errors.New("its front matter has no end: a line with three dashes")
}

// line matches a key with its value on one line.
var plainLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)$`)

// fields returns the keys of a front matter. Many files are no YAML, since their description has a colon: these are read line by line, and loose is true.
func fields(front []byte) (all map[string]json.RawMessage, loose bool, err error) {
	d, err := document.Parse(front)
	if err == nil {
		if bytes.Equal(d.JSON, []byte("null")) {
			return map[string]json.RawMessage{}, false, nil
		}
		if json.Unmarshal(d.JSON, &all) == nil {
			return all, false, nil
		}
		err = errors.New("its front matter has no keys")
	}
	all = map[string]json.RawMessage{}
	for text := range strings.Lines(string(front)) {
		text = strings.TrimRight(text, " \t\n")
		m := plainLine.FindStringSubmatch(text)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case m == nil, m[1] == ownKey:
			return nil, false, err // it needs YAML, and is none
		}
		value, _ := json.Marshal(unquoted(m[2]))
		if _, twice := all[m[1]]; twice {
			return nil, false, fmt.Errorf("its front matter has the key %s twice", m[1])
		}
		all[m[1]] = value
	}
	return all, true, nil
}

// unquoted returns a value without its quotes. Files that are no YAML write line ends as \n.
func unquoted(s string) string {
	for _, quote := range []string{`"`, "'"} {
		if len(s) > 1 && strings.HasPrefix(s, quote) && strings.HasSuffix(s, quote) {
			s = s[1 : len(s)-1]
			break
		}
	}
	return strings.ReplaceAll(s, `\n`, "\n")
}

// words reads a list of words: a list, or one text with commas, or with spaces if it has no comma. What stands in parentheses belongs to its word.
func words(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return trimmed(list), nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, errors.New("want a list of words")
	}
	if inner, ok := strings.CutPrefix(strings.TrimSpace(text), "["); ok { // a list in a file that is no YAML
		text = strings.TrimSuffix(inner, "]")
	}
	depth, start := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			list = append(list, text[start:i])
			start = i + 1
		}
	}
	if list = append(list, text[start:]); len(list) == 1 && !strings.Contains(text, "(") {
		list = strings.Fields(text)
	}
	return trimmed(list), nil
}

func trimmed(list []string) []string {
	out := []string{}
	for _, s := range list {
		if s = unquoted(strings.TrimSpace(s)); s != "" {
			out = append(out, s)
		}
	}
	return out
}
