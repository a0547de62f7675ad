package llms

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/keycommand"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// Endpoint is a model that --llm can name: a built-in one, or an entry of `llms` in the config file. Its JSON fields are the keys of such an entry.
type Endpoint struct {
	Name     string `json:"-"`
	Provider string `json:"provider"` // a built-in name, whose settings are the defaults
	Model    string `json:"model"`

	BaseURL    string            `json:"base_url"`
	KeyEnv     string            `json:"api_key_env"`
	KeyFile    string            `json:"api_key_file"`
	KeyCommand []string          `json:"api_key_command"` // a program, and its arguments, whose output is a token
	Headers    map[string]string `json:"headers"`
	HeadersEnv map[string]string `json:"headers_env"` // the name of the variable with the value

	Structured    llm.Structured `json:"structured"`
	MaxTokens     int            `json:"max_tokens"`
	Temperature   *float64       `json:"temperature"`
	ContextWindow int            `json:"context_window"` // tokens
	Images        *bool          `json:"images"`         // whether the model accepts images; nil: see resolved
	ReasonFirst   bool           `json:"reason_first"`   // the model writes its reason before its decision

	ReasoningEffort string   `json:"reasoning_effort"` // such as low; "": the model's default
	Thinking        thinking `json:"thinking"`         // of Claude and Gemini

	Timeout           duration          `json:"timeout"` // the longest silence
	Retries           *int              `json:"retries"`
	RequestsPerMinute int               `json:"requests_per_minute"`
	TokensPerMinute   int               `json:"tokens_per_minute"`
	Price             *middleware.Price `json:"price"`
	Fallback          []string          `json:"fallback"` // names of the endpoints to ask when this one fails

	OpenAIKeys
	GoogleKeys

	// Own has the keys that only a provider of the program knows, as a JSON object; nil when there are none.
	Own json.RawMessage `json:"own,omitempty"`

	by    *Provider
	token *keycommand.Source // of KeyCommand, shared by all copies; nil without
	aside string             // which setting gave a model that is ignored; see settings
	Local bool               `json:"-"` // runs on this machine, and may have to load the model first
}

// OpenAIKeys are the keys of endpoints with OpenAI's protocol.
type OpenAIKeys struct {
	API               string `json:"api"`         // chat or responses; "": see [openai.Config]
	APIVersion        string `json:"api_version"` // Azure's older URLs
	MaxTokensField    string `json:"max_tokens_field"`
	SystemRole        string `json:"system_role"`
	StreamUsage       *bool  `json:"stream_usage"`
	ParallelToolCalls *bool  `json:"parallel_tool_calls"`
	PromptCacheKey    *bool  `json:"prompt_cache_key"`
}

// GoogleKeys are the keys of Google's endpoints.
type GoogleKeys struct {
	Project         string `json:"project"`
	Location        string `json:"location"`
	CredentialsFile string `json:"credentials_file"`
	Transport       string `json:"transport"` // vertex: grpc or rest
}

// duration is written as "60s".
type duration time.Duration

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("timeout: %q is no time: write it with its unit, such as 60s", b)
	}
	*d = duration(v)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// thinking is off, adaptive, or a number of tokens. In YAML off is a boolean, and a number is one.
type thinking string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *thinking) UnmarshalJSON(b []byte) error {
	switch text := strings.Trim(string(b), `"`); text {
	case "false":
		*t = thinkingOff
	case "", "null":
		*t = ""
	default:
		n, err := strconv.Atoi(text)
		if text != thinkingOff && text != thinkingAdaptive && (err != nil || n < minThinking) {
			return fmt.Errorf("thinking: %.40s: it is off, adaptive, or a number of tokens from %d", text, minThinking)
		}
		*t = thinking(text)
	}
	return nil
}

// The values of thinking that are no number, and the smallest one.
const (
	thinkingOff      = "off"
	thinkingAdaptive = "adaptive"
	minThinking      = 1024
)

// Read reads the entry name of the config file, with the built-in endpoint of its provider as defaults.
func Read(name string, raw json.RawMessage, all map[string]*Provider) (*Endpoint, error) {
	var head struct {
		Provider   string          `json:"provider"`
		KeyEnv     json.RawMessage `json:"api_key_env"`
		KeyFile    json.RawMessage `json:"api_key_file"`
		KeyCommand json.RawMessage `json:"api_key_command"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || string(raw) == "null" {
		return nil, fmt.Errorf("llms.%s: want keys and values, such as `provider: openai`", name)
	}
	if head.Provider == "" {
		if head.Provider = name; all[name] == nil || all[name].open == nil {
			return nil, fmt.Errorf("llms.%s: provider is missing: it is one of %s", name, Names(all))
		}
	}
	p, ok := all[head.Provider]
	if !ok {
		return nil, fmt.Errorf("llms.%s: provider %q is not known: it is one of %s", name, head.Provider, Names(all))
	}
	if p.open == nil {
		return nil, fmt.Errorf("llms.%s: %s has no settings", name, head.Provider)
	}
	ep := p.preset
	if ep.Price != nil {
		ep.Price = new(*ep.Price) // decoding writes into it
	}
	known, own, err := p.split(raw)
	if err != nil {
		return nil, fmt.Errorf("llms.%s: %w", name, err)
	}
	d := json.NewDecoder(bytes.NewReader(known))
	d.DisallowUnknownFields()
	if err := d.Decode(&ep); err != nil {
		return nil, fmt.Errorf("llms.%s%s", name, ExplainJSON(err))
	}
	ep.Name, ep.Provider, ep.Own = name, head.Provider, own
	if head.KeyCommand != nil {
		if string(head.KeyEnv)+string(head.KeyFile) != "" {
			return nil, fmt.Errorf("llms.%s: api_key_command stands in the place of api_key_env and api_key_file: leave these out", name)
		}
		if len(ep.KeyCommand) == 0 || ep.KeyCommand[0] == "" {
			return nil, fmt.Errorf("llms.%s.api_key_command: want a list of a program and its arguments, such as [gcloud, auth, print-access-token]", name)
		}
		ep.KeyEnv = "" // the provider's
	}
	if err := ep.check(p); err != nil {
		return nil, err
	}
	for _, key := range []string{"api_key_file", "credentials_file"} {
		if strings.Contains(string(raw), `"`+key+`":""`) {
			return nil, fmt.Errorf("llms.%s.%s: %w", name, key, usage.ErrEmpty)
		}
	}
	return &ep, nil
}

// split separates the keys of an entry that Cortex knows from those that only a provider of the program knows; the latter are nil when there are
// none.
func (p *Provider) split(raw json.RawMessage) (known, own json.RawMessage, err error) {
	if !p.own {
		if strings.Contains(string(raw), `"own"`) {
			all := map[string]json.RawMessage{}
			if err := json.Unmarshal(raw, &all); err != nil || all["own"] != nil {
				return nil, nil, cmp.Or(err, errors.New(`unknown key "own"`))
			}
		}
		return raw, nil, nil
	}
	ours, theirs := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &ours); err != nil {
		return nil, nil, err
	}
	for key, v := range ours {
		if !slices.Contains(sharedKeys, key) {
			theirs[key] = v
			delete(ours, key)
		}
	}
	if known, err = json.Marshal(ours); err != nil || len(theirs) == 0 {
		return known, nil, err
	}
	own, err = json.Marshal(theirs)
	return known, own, err
}

// sharedKeys are the keys of every provider.
var sharedKeys = []string{
	"provider", "model", "base_url", "api_key_env", "api_key_file", "api_key_command", "headers", "headers_env", "structured", "max_tokens", "temperature",
	"context_window", "images", "reason_first", "timeout", "retries", "requests_per_minute", "tokens_per_minute", "price", "fallback",
}

// ExplainJSON rewords an error of encoding/json for the author of a YAML file. The result continues a sentence that begins with the name of what was
// read.
func ExplainJSON(err error) string {
	text := strings.TrimPrefix(err.Error(), "json: ")
	if key, ok := strings.CutPrefix(text, "unknown field "); ok {
		if strings.Contains(key, "api_key") || strings.Contains(key, `"key"`) {
			return ": a key does not belong into this file: name a variable with api_key_env, a file that only you can read with api_key_file, or a program with api_key_command"
		}
		return ": unknown key " + key
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf(".%s: want %s, not %s", wrong.Field, kindWord(wrong.Type), valueWord(wrong.Value))
	}
	return ": " + text
}

func kindWord(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[duration]():
		return "a time with its unit, such as 60s"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a text"
	}
	return "keys and values"
}

// valueWord rewords encoding/json's name of a type of value.
func valueWord(v string) string {
	switch n, isNumber := strings.CutPrefix(v, "number "); {
	case isNumber:
		return n
	case v == "object":
		return "keys and values"
	case v == "bool":
		return "true or false"
	case v == "array":
		return "a list"
	}
	return "a " + v
}

// ownHeaders are the headers that HTTP requests set themselves.
var ownHeaders = []string{"host", "content-length", "content-type", "transfer-encoding", "connection", "accept"}

var (
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, section 5.6.2
	secretHeader = regexp.MustCompile(`(?i)auth|cookie|key|password|secret|token`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// minWindow is the smallest usable context window, in tokens.
const minWindow = 2048

func (ep *Endpoint) check(p *Provider) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("llms.%s: %s", ep.Name, fmt.Sprintf(format, args...))
	}
	for h := range ep.Headers {
		if secretHeader.MatchString(h) {
			return bad("headers: the value of %s is a secret: name the variable that holds it in headers_env", h)
		}
	}
	for _, h := range slices.Concat(slices.Collect(maps.Keys(ep.Headers)), slices.Collect(maps.Keys(ep.HeadersEnv))) {
		if !headerName.MatchString(h) || slices.Contains(ownHeaders, strings.ToLower(h)) {
			return bad("headers: %q cannot be set", h)
		}
	}
	for _, names := range append(slices.Collect(maps.Values(ep.HeadersEnv)), cmp.Or(ep.KeyEnv, "NONE")) {
		for name := range strings.SplitSeq(names, ",") {
			if !variableName.MatchString(name) { // not shown: it may be the key itself
				return bad("api_key_env and headers_env name variables, such as OPENAI_API_KEY: the value itself does not belong into this file")
			}
		}
	}
	if ep.Timeout < 0 {
		return bad("timeout %v: it cannot be less than nothing", time.Duration(ep.Timeout))
	}
	if w := ep.ContextWindow; w > 0 && w < minWindow {
		return bad("context_window %d: the instructions alone need more; it is at least %d", w, minWindow)
	}
	if ep.ContextWindow > 0 && ep.MaxTokens >= ep.ContextWindow {
		return bad("max_tokens %d: the answer has to fit into context_window %d, with the prompt", ep.MaxTokens, ep.ContextWindow)
	}
	if !slices.Contains([]llm.Structured{"", llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt}, ep.Structured) {
		return bad("structured %q: it is json_schema, tools, json_object or prompt", ep.Structured)
	}
	if !slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, ep.MaxTokensField) {
		return bad("max_tokens_field %q: it is max_tokens or max_completion_tokens", ep.MaxTokensField)
	}
	if !slices.Contains([]string{"", "chat", "responses"}, ep.API) {
		return bad("api %q: it is chat or responses", ep.API)
	}
	if !slices.Contains([]string{"", "system", "developer"}, ep.SystemRole) {
		return bad("system_role %q: it is system or developer", ep.SystemRole)
	}
	if !slices.Contains([]string{"", "grpc", "rest"}, ep.Transport) {
		return bad("transport %q: it is grpc or rest", ep.Transport)
	}
	for key, n := range map[string]int{
		"max_tokens": ep.MaxTokens, "context_window": ep.ContextWindow,
		"requests_per_minute": ep.RequestsPerMinute, "tokens_per_minute": ep.TokensPerMinute,
	} {
		if n < 0 {
			return bad("%s %d: it cannot be less than nothing", key, n)
		}
	}
	if ep.Retries != nil && (*ep.Retries < 0 || *ep.Retries > 20) {
		return bad("retries %d: it is from 0 to 20", *ep.Retries)
	}
	if t := ep.Temperature; t != nil && (*t < 0 || *t > 2) {
		return bad("temperature %v: it is from 0 to 2", *t)
	}
	if pr := ep.Price; pr != nil && (pr.Input < 0 || pr.Cached < 0 || pr.CacheWrite < 0 || pr.Output < 0) {
		return bad("price: it cannot be less than nothing")
	}
	u, err := url.Parse(ep.BaseURL)
	switch {
	case err == nil && (u.User != nil || u.RawQuery != ""):
		return bad("base_url: keys and passwords do not belong into it: use api_key_env or headers_env")
	case ep.BaseURL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")):
		return bad("base_url %q: want a URL such as http://localhost:11434/v1", ep.BaseURL)
	}
	if (p.google || p.claude) && ep.OpenAIKeys != (OpenAIKeys{}) {
		return bad("%s are nothing for %s", jsonKeys(OpenAIKeys{}), ep.Provider)
	}
	if ep.KeyCommand != nil && (p.google || p.own && !p.tokens) {
		return bad("api_key_command is nothing for %s%s", ep.Provider, p.insteadOfTokens())
	}
	for h := range ep.HeadersEnv {
		if ep.KeyCommand != nil && strings.EqualFold(h, "Authorization") {
			return bad("headers_env: Authorization is what the token of api_key_command is sent as: leave one of them out")
		}
	}
	if ep.Thinking != "" && !p.claude && ep.Provider != "gemini" {
		return bad("thinking is nothing for %s: there is reasoning_effort", ep.Provider)
	}
	if ep.ReasoningEffort != "" && ep.Provider == "vertex" {
		return bad("reasoning_effort is nothing for vertex: pick gemini")
	}
	if p.google && len(ep.Headers)+len(ep.HeadersEnv) > 0 {
		return bad("headers are nothing for %s", ep.Provider)
	}
	if !p.google && ep.GoogleKeys != (GoogleKeys{}) {
		return bad("%s are nothing for %s", jsonKeys(GoogleKeys{}), ep.Provider)
	}
	return nil
}

// jsonKeys lists the JSON keys of a struct of settings.
func jsonKeys(v any) string {
	b, err := json.Marshal(v)
	m := map[string]any{}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// Names lists the keys of m for a sentence.
func Names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
