package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ParseDecision reads the decision that a model wrote: a JSON object with kind, say, delegations and reason. Other keys
// are ignored, so a model cannot write its own Usage; a key twice, in the decision or in a delegation, is an error. Text around
// the object, such as a code fence or a sentence before it, is tolerated, and only the first object counts: what a model
// writes after its decision is a conversation that it makes up. Thoughts before it are no part of the reply, whatever they
// hold: what stands between marks such as <think> and </think>, and, unless the text begins with an object, what stands before
// an end mark alone. What is accepted can be written as JSON and is the same when read again. Errors wrap
// [ErrInvalidDecision]. Whether the decision makes sense is for [Check]. Of a search only the kind, say and reason are read.
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

// parseReply reads the decision in a reply without thoughts, and the words that it searches for.
func parseReply(reply string) (d *Decision, words string, err error) {
	object, err := firstObject(reply)
	if err != nil {
		return nil, "", err
	}
	fields, err := readFields(object)
	if err != nil {
		return nil, "", fmt.Errorf("%s is not a decision: %w", excerpt(object), err)
	}
	d = new(Decision)
	if len(fields["kind"]) == 0 {
		return nil, "", fmt.Errorf(`%s has no "kind"`, excerpt(object))
	}
	for _, f := range []struct {
		key string
		to  any
	}{{"kind", &d.Kind}, {"say", &d.Say}, {"reason", &d.Reason}, {"search", &words}} {
		if raw := fields[f.key]; len(raw) > 0 && (f.key != "search" || d.Kind == KindSearch) {
			if err := json.Unmarshal(raw, f.to); err != nil {
				return nil, "", fmt.Errorf("%q has the wrong form: %s", f.key, excerpt(string(raw)))
			}
		}
	}
	if d.Kind == KindSearch {
		return d, words, nil
	}
	if d.Delegations, err = readDelegations(fields["delegations"]); err != nil {
		return nil, "", err
	}
	return d, "", nil
}

// readDelegations reads a list of delegations, one after the other: a hostile list is not worth its memory.
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

// readDelegation reads an object, or null. Beside an error stands what was read before it.
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
			if bad := (*json.UnmarshalTypeError)(nil); errors.As(json.Unmarshal(raw, f.to), &bad) {
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

// readInput returns the structured input, as a log of JSON keeps it. A strict schema has no room for any object, so it is asked
// for as a string that holds JSON; models without one write the object itself.
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
	case depth(raw) > maxInputDepth:
		return nil, fmt.Errorf("input %s is nested deeper than %d levels", excerpt(string(raw)), maxInputDepth)
	}
	return json.Marshal(json.RawMessage(bytes.ToValidUTF8(raw, []byte("\uFFFD"))))
}

// depth returns how deep the JSON text is nested.
func depth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// firstObject returns the part of text from its first "{" to the "}" that closes it.
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

// readFields returns the values of the object's keys, which encoding/json alone would match in any case and any number.
func readFields(object string) (map[string]json.RawMessage, error) {
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
		name, _ := key.(string) // in an object it is one
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("it has the key %s twice", excerpt(name))
		}
		fields[name] = raw
	}
	_, err := d.Token()
	return fields, err
}
