package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// ParseDecision parses the decision in a model's reply: a JSON object with kind, say, delegations and reason. It ignores other keys, so a model
// cannot write its own Usage; a duplicate key, in the decision or in a delegation, is an error. It tolerates text around the object, such as a code
// fence or a sentence before it, line ends within strings, and objects without a kind before it; it reads no more than the first decision: what a model
// writes after that is an invented conversation. Thoughts before
// the decision are not part of the reply, whatever they contain: text between marks such as <think> and </think>, and, unless the text begins with an
// object, text before an end mark alone. An accepted decision does not change when encoded as JSON and back. Errors wrap [ErrInvalidDecision]. Use
// [Check] to validate the meaning. Of a search, and of a wish to read, only the kind, say and reason are read.
func ParseDecision(text string) (*Decision, error) {
	if len(text) > MaxDecision {
		return nil, fmt.Errorf("%w: the reply is %d bytes, at most %d are allowed", ErrInvalidDecision, len(text), MaxDecision)
	}
	reply := withoutThoughts(text)
	if reply == "" && text != "" {
		return nil, fmt.Errorf("%w: the reply has thoughts but no decision behind them", ErrInvalidDecision)
	}
	d, _, err := parseReply(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidDecision, err)
	}
	return d, nil
}

// maxBraces bounds the objects before a decision that are none: a sentence before it may have braces.
const maxBraces = 16

// parseReply parses the decision in a reply without thoughts. It may be a wish to be shown more first.
func parseReply(reply string) (d *Decision, w wish, err error) {
	object, fields, err := objectWith("kind", reply)
	switch {
	case err != nil && object == "":
		return nil, w, err
	case err != nil:
		return nil, w, fmt.Errorf("%s is not a decision: %w", excerpt(object), err)
	}
	d = new(Decision)
	if len(fields["kind"]) == 0 {
		return nil, w, fmt.Errorf(`%s has no "kind"`, excerpt(object))
	}
	for _, f := range []struct {
		key string
		to  any
		of  Kind // "": of each
	}{{"kind", &d.Kind, ""}, {"say", &d.Say, ""}, {"reason", &d.Reason, ""}, {"search", &w.search, KindSearch}, {"read", &w.read, KindRead}} {
		if raw := fields[f.key]; len(raw) > 0 && (f.of == "" || f.of == d.Kind) {
			if err := json.Unmarshal(raw, f.to); err != nil {
				return nil, w, fmt.Errorf("%q has the wrong form: %s", f.key, excerpt(string(raw)))
			}
		}
	}
	if row := d.Kind.row(); row.offered != nil && row.check == nil { // the Decider handles it
		return d, w, nil
	}
	if d.Delegations, err = readDelegations(fields["delegations"]); err != nil {
		return nil, w, err
	}
	return d, w, nil
}

// objectWith returns the first object in a reply that has the key, and its fields; if there is none, the last one that was looked at. With an error the
// object is that which cannot be read, or empty.
func objectWith(key, reply string) (object string, fields map[string]json.RawMessage, err error) {
	if object, err = firstObject(reply); err != nil {
		return "", nil, err
	}
	fields, err = readFields(object)
	rest := reply
	for try := 0; try < maxBraces && (err != nil || len(fields[key]) == 0) && !strings.Contains(object, strconv.Quote(key)); try++ {
		_, rest, _ = strings.Cut(rest, object)
		next, nerr := firstObject(rest)
		if nerr != nil {
			break
		}
		object = next
		fields, err = readFields(object)
	}
	return object, fields, err
}

// readDelegations parses a list of delegations one at a time, so that a hostile list does not take much memory.
func readDelegations(raw json.RawMessage) ([]Delegation, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	wrong := func() error { return fmt.Errorf(`"delegations" has the wrong form: %s`, excerpt(string(raw))) }
	r := json.NewDecoder(bytes.NewReader(raw))
	if open, err := r.Token(); err != nil || open != json.Delim('[') {
		return nil, wrong()
	}
	var ds []Delegation
	for n := 1; r.More(); n++ {
		if n > maxDelegations {
			return nil, fmt.Errorf("more than %d delegations", maxDelegations)
		}
		var object json.RawMessage
		if err := r.Decode(&object); err != nil || (object[0] != '{' && string(object) != "null") {
			return nil, wrong()
		}
		d, err := readDelegation(object)
		if err != nil {
			if d.ID != "" {
				return nil, fmt.Errorf("delegation %s: %w", excerpt(d.ID), err)
			}
			return nil, fmt.Errorf("delegation %d: %w", n, err)
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// readDelegation parses an object, or null. With an error it returns what was parsed before.
func readDelegation(raw json.RawMessage) (d Delegation, err error) {
	if raw[0] != '{' {
		return d, nil
	}
	fields, err := readFields(string(raw))
	if err != nil {
		return d, err
	}
	for _, f := range []struct {
		key string
		to  any
	}{{"id", &d.ID}, {"agent", &d.Agent}, {"skill", &d.Skill}, {"task", &d.Task}, {"files", &d.Files}, {"depends_on", &d.DependsOn}} {
		if raw := fields[f.key]; len(raw) > 0 {
			if bad, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(raw, f.to)); ok {
				return d, fmt.Errorf("%q cannot be a JSON %s", f.key, bad.Value)
			}
		}
	}
	if len(d.DependsOn) == 0 {
		d.DependsOn = nil
	}
	d.Input, err = readInput(fields["input"])
	return d, err
}

// readInput parses structured input as the log stores it. A strict schema cannot allow arbitrary objects, so it asks for a string that contains JSON;
// models without a schema write the object itself.
func readInput(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		raw = bytes.TrimSpace([]byte(s))
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case !json.Valid(raw) || raw[0] == '"':
		return nil, fmt.Errorf("input %s is not a JSON text; write an object, or null", excerpt(string(raw)))
	case nesting.Depth(raw) > maxInputDepth:
		return nil, fmt.Errorf("input %s is nested deeper than %d levels", excerpt(string(raw)), maxInputDepth)
	}
	return json.Marshal(json.RawMessage(bytes.ToValidUTF8(raw, []byte("\uFFFD"))))
}

// firstObject returns the part of text from its first "{" to the matching "}".
func firstObject(text string) (string, error) {
	start := strings.IndexByte(text, '{')
	if start < 0 {
		if strings.TrimSpace(text) == "" {
			return "", errors.New("the reply is empty")
		}
		return "", fmt.Errorf("the reply %s has no JSON object", excerpt(text))
	}
	depth, quoted := 0, false
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return text[start : i+1], nil
			}
		}
	}
	return "", fmt.Errorf("the JSON object %s is not complete", excerpt(text[start:]))
}

// escapeControls escapes the line ends and other control characters within strings, which models write as they are.
func escapeControls(object string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(object); i++ {
		c := object[i]
		switch {
		case quoted && c == '\\' && i+1 < len(object):
			b.WriteByte(c)
			i++
			c = object[i]
		case c == '"':
			quoted = !quoted
		case quoted && c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// readFields returns the values of the object's keys. It is stricter than encoding/json, which accepts keys in any case and duplicates.
func readFields(object string) (map[string]json.RawMessage, error) {
	if strings.ContainsFunc(object, func(r rune) bool { return r < ' ' }) {
		object = escapeControls(object)
	}
	d := json.NewDecoder(strings.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	fields := make(map[string]json.RawMessage)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		name, _ := key.(string) // keys of objects are strings
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("it has the key %s twice", excerpt(name))
		}
		fields[name] = raw
	}
	_, err := d.Token()
	return fields, err
}
