package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	maxQuestion = 4 << 10 // bytes of a server's question
	maxFields   = 20
	maxChoices  = 1000     // of a field
	maxReply    = 64 << 10 // bytes of an answer in text where there are choices, with which each part of it is compared
)

// question holds the server's questions and all that is needed to continue the call in another process.
type question struct {
	Requests sdk.InputRequestMap  `json:"requests,omitempty"`
	Answers  sdk.InputResponseMap `json:"answers,omitempty"` // so far
	State    string               `json:"state,omitempty"`   // the server's requestState
	Shown    string               `json:"shown"`             // the current question as the user sees it
	Wrong    string               `json:"wrong,omitempty"`   // what was wrong with the last reply
	// Live means that the server waits for the answer during the call (before 2026-07-28), so that it is lost with the session.
	Live bool `json:"live,omitempty"`
	// Visits means that the server refused the call until the user has visited a URL (before 2026-07-28).
	Visits bool `json:"visits,omitempty"`
}

// visits returns the question for an error with code URLElicitationRequired, else nil.
func visits(err error) *question {
	var refused *jsonrpc.Error
	var of struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if !errors.As(err, &refused) || refused.Code != sdk.CodeURLElicitationRequired || json.Unmarshal(refused.Data, &of) != nil {
		return nil
	}
	q := &question{Requests: sdk.InputRequestMap{}, Answers: sdk.InputResponseMap{}, Visits: true}
	for i, p := range of.Elicitations {
		if p != nil && p.URL != "" {
			q.Requests[strconv.Itoa(i)] = p
		}
	}
	if len(q.Requests) == 0 || len(q.Requests) > maxFields {
		return nil
	}
	return q
}

// next returns the first unanswered request and its key, or nil.
func (q *question) next() (string, *sdk.ElicitParams, error) {
	for _, key := range slices.Sorted(maps.Keys(q.Requests)) {
		if q.Answers[key] != nil {
			continue
		}
		p, ok := q.Requests[key].(*sdk.ElicitParams)
		if !ok {
			return "", nil, fmt.Errorf("the server wants a model's words or the user's folders (%T), which it does not get", q.Requests[key])
		}
		return key, p, nil
	}
	return "", nil, nil
}

// form is the schema of a question.
type form struct {
	Properties map[string]*field `json:"properties"`
	Required   []string          `json:"required"`
	raw        json.RawMessage
}

// field is a property of a form.
type field struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Enum        []any           `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []choice        `json:"oneOf"`
	AnyOf       []choice        `json:"anyOf"`
	Default     json.RawMessage `json:"default"`
	Items       *field          `json:"items"`

	allowed []allowed // what choices returns; nil: not determined
}

type choice struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// formOf parses the schema of a question.
func formOf(p *sdk.ElicitParams) (*form, error) {
	f := &form{}
	if p.RequestedSchema == nil {
		return f, nil
	}
	var err error
	if f.raw, err = json.Marshal(p.RequestedSchema); err == nil {
		err = json.Unmarshal(f.raw, f)
	}
	if err != nil {
		return nil, fmt.Errorf("what the server asks for cannot be read: %w", err)
	}
	maps.DeleteFunc(f.Properties, func(_ string, v *field) bool { return v == nil })
	if len(f.raw) > maxSchema || len(f.Properties) > maxFields {
		return nil, fmt.Errorf("the server asks for too much: at most %d values are allowed", maxFields)
	}
	for name, one := range f.Properties {
		if n := len(one.choices()); n > maxChoices {
			return nil, fmt.Errorf("the server asks for too much: %d choices of %s, at most %d are allowed", n, shorten.Line(name, 64), maxChoices)
		}
	}
	return f, nil
}

// allowed is a value that a field may have.
type allowed struct {
	value      any
	name, text string // its title, and the value as text
}

// choices returns the allowed values of a field; none if it may have any.
func (f *field) choices() []allowed {
	if f.allowed != nil {
		return f.allowed
	}
	of := f
	if f.Items != nil {
		of = f.Items
	}
	f.allowed = []allowed{}
	add := func(value any, title string) {
		text := fmt.Sprint(value)
		f.allowed = append(f.allowed, allowed{value, cmp.Or(title, text), text})
	}
	for i, v := range of.Enum {
		title := ""
		if i < len(of.EnumNames) {
			title = of.EnumNames[i]
		}
		add(v, title)
	}
	for _, c := range slices.Concat(of.OneOf, of.AnyOf) {
		add(c.Const, c.Title)
	}
	return f.allowed
}

// names returns the titles of the choices, as people read them.
func (f *field) names(most int) string {
	var names []string
	for _, one := range f.choices() {
		names = append(names, one.name)
	}
	return shorten.Marked(strings.Join(names, ", "), most, "…")
}

func (f *form) hasChoices() bool {
	for _, one := range f.Properties {
		if len(one.choices()) > 0 {
			return true
		}
	}
	return false
}

// only returns the field for an answer without a field name: the only field, or the only required one.
func (f *form) only() (string, *field) {
	names := slices.Collect(maps.Keys(f.Properties))
	if len(names) != 1 {
		names = f.Required
	}
	if len(names) != 1 || f.Properties[names[0]] == nil {
		return "", nil
	}
	return names[0], f.Properties[names[0]]
}

// words returns the question as the user sees it.
func words(server string, p *sdk.ElicitParams) (string, error) {
	said := shorten.Marked(p.Message, maxQuestion, "…")
	if p.URL != "" {
		return fmt.Sprintf("%s (the MCP server %s) wants you to open %s and to go on there. Say yes when that is done, or decline.", said, server, shorten.To(p.URL, 2<<10)), nil
	}
	f, err := formOf(p)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (asks the MCP server %s)", said, server)
	_, one := f.only()
	switch {
	case len(f.Properties) == 0:
		b.WriteString("\nAnswer yes, or decline.")
		return b.String(), nil
	case one != nil && len(f.Properties) == 1:
		b.WriteString("\nAnswer with " + one.wants() + " Or decline.")
	default:
		b.WriteString("\nAnswer with a line such as `name: value` for each of:")
		for _, name := range slices.Sorted(maps.Keys(f.Properties)) {
			need := "may be left out"
			if slices.Contains(f.Required, name) {
				need = "needed"
			}
			fmt.Fprintf(&b, "\n%s: %s (%s)", shorten.To(name, 64), f.Properties[name].wants(), need)
		}
		b.WriteString("\nOr decline.")
	}
	return shorten.Marked(b.String(), 2*maxQuestion, "…"), nil
}

// wants describes the value of a field.
func (f *field) wants() string {
	about := cmp.Or(f.Description, f.Title)
	if about != "" {
		about = " (" + shorten.Marked(about, 200, "…") + ")"
	}
	if len(f.choices()) > 0 {
		some := "one of "
		if f.Items != nil {
			some = "some of, with commas between them, "
		}
		return some + f.names(500) + about + "."
	}
	switch f.Type {
	case "boolean":
		return "yes or no" + about + "."
	case "integer", "number":
		return "a number" + about + "."
	}
	return "a text" + about + "."
}

// errUnfit marks errors for answers that do not fit the question.
var errUnfit = errors.New("that does not answer it")

// answer parses the user's answer to a question; data is structured input or nil.
func answer(p *sdk.ElicitParams, text string, data map[string]any) (*sdk.ElicitResult, error) {
	text = strings.TrimSpace(text)
	word := strings.ToLower(strings.TrimRight(text, ".!"))
	if data == nil && (word == "decline" || word == "cancel") {
		return &sdk.ElicitResult{Action: word}, nil
	}
	f, err := formOf(p)
	if err != nil {
		return nil, err
	}
	if p.URL != "" || len(f.Properties) == 0 {
		switch yes, ok := truth(word); {
		case !ok && word != "done":
			return nil, fmt.Errorf("%w: say yes, or decline", errUnfit)
		case ok && !yes:
			return &sdk.ElicitResult{Action: "decline"}, nil
		}
		r := &sdk.ElicitResult{Action: "accept"}
		if p.URL == "" {
			r.Content = map[string]any{}
		}
		return r, nil
	}
	if data == nil && strings.HasPrefix(text, "{") {
		_ = json.Unmarshal([]byte(text), &data) // otherwise it is text
	}
	if data == nil {
		if len(text) > maxReply && f.hasChoices() {
			return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", errUnfit, len(text), maxReply)
		}
		if data, err = f.read(text); err != nil {
			return nil, fmt.Errorf("%w: %w", errUnfit, err)
		}
	}
	for name, of := range f.Properties {
		var v any
		if _, given := data[name]; !given && of.Default != nil && json.Unmarshal(of.Default, &v) == nil {
			data[name] = v
		}
	}
	b, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	schema, err := agentcard.Compile(f.raw)
	if err != nil {
		return nil, fmt.Errorf("what the server asks for cannot be checked: %w", err)
	}
	if err := schema.Validate(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	return &sdk.ElicitResult{Action: "accept", Content: data}, nil
}

// read parses an answer in text: lines `name: value`, or a single value.
func (f *form) read(text string) (map[string]any, error) {
	data := map[string]any{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || f.Properties[name] == nil {
			continue
		}
		v, err := f.Properties[name].read(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		data[name] = v
	}
	if len(data) > 0 {
		return data, nil
	}
	name, of := f.only()
	if of == nil {
		return nil, errors.New("want a line such as `name: value` for each value")
	}
	v, err := of.read(text)
	if err != nil {
		return nil, err
	}
	return map[string]any{name: v}, nil
}

// read parses the value of a field.
func (f *field) read(text string) (any, error) {
	if f.Type == "array" {
		var all []any
		for part := range strings.SplitSeq(text, ",") {
			v, err := f.choose(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
	if len(f.choices()) > 0 {
		return f.choose(text)
	}
	switch f.Type {
	case "boolean":
		if yes, ok := truth(strings.ToLower(strings.TrimRight(text, ".!"))); ok {
			return yes, nil
		}
		return nil, errors.New("want yes or no")
	case "integer", "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, errors.New("want a number")
		}
		return n, nil
	}
	return text, nil
}

// choose returns the allowed value that matches text.
func (f *field) choose(text string) (any, error) {
	for _, one := range f.choices() {
		if strings.EqualFold(one.name, text) || strings.EqualFold(one.text, text) {
			return one.value, nil
		}
	}
	if len(f.choices()) == 0 {
		return text, nil
	}
	return nil, fmt.Errorf("want one of %s", f.names(500))
}

// truth parses a yes or no.
func truth(word string) (yes, ok bool) {
	switch word {
	case "yes", "y", "true", "ok", "okay", "sure":
		return true, true
	case "no", "n", "false":
		return false, true
	}
	return false, false
}
