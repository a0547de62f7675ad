package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// endpoint is a model that --llm can name: a built-in one, or an entry of `llms` in the config file, whose keys are these.
type endpoint struct {
	Name     string `json:"-"`
	Provider string `json:"provider"` // a built-in name, whose settings this one begins with
	Model    string `json:"model"`

	BaseURL    string            `json:"base_url"`
	KeyEnv     string            `json:"api_key_env"`
	KeyFile    string            `json:"api_key_file"`
	Headers    map[string]string `json:"headers"`
	HeadersEnv map[string]string `json:"headers_env"` // the name of the variable that holds the value

	Structured    llm.Structured `json:"structured"`
	MaxTokens     int            `json:"max_tokens"`
	Temperature   *float64       `json:"temperature"`
	ContextWindow int            `json:"context_window"` // tokens

	Timeout           duration          `json:"timeout"` // how long it may be silent
	Retries           *int              `json:"retries"`
	RequestsPerMinute int               `json:"requests_per_minute"`
	TokensPerMinute   int               `json:"tokens_per_minute"`
	Price             *middleware.Price `json:"price"`
	Fallback          []string          `json:"fallback"` // names of the endpoints that are asked when this one fails

	openAIKeys
	googleKeys
}

// openAIKeys are for endpoints that speak OpenAI's protocol.
type openAIKeys struct {
	APIVersion        string `json:"api_version"` // Azure's older URLs
	MaxTokensField    string `json:"max_tokens_field"`
	SystemRole        string `json:"system_role"`
	StreamUsage       *bool  `json:"stream_usage"`
	ParallelToolCalls *bool  `json:"parallel_tool_calls"`
	PromptCacheKey    *bool  `json:"prompt_cache_key"`
	ReasoningEffort   string `json:"reasoning_effort"`
}

// googleKeys are for those of Google.
type googleKeys struct {
	Project         string `json:"project"`
	Location        string `json:"location"`
	CredentialsFile string `json:"credentials_file"`
	Transport       string `json:"transport"` // vertex: grpc or rest
}

// duration is written as "60s".
type duration time.Duration

func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v <= 0 {
		err = fmt.Errorf("%s: it must be more than nothing", b)
	}
	*d = duration(v)
	return err
}

// readEndpoint reads the entry name of the config file, on top of the built-in endpoint that it is like.
func readEndpoint(name string, raw json.RawMessage) (*endpoint, error) {
	var head struct {
		Provider string `json:"provider"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("llms.%s: want keys and values, such as `provider: openai`", name)
	}
	if head.Provider == "" {
		head.Provider = name
	}
	all := providers()
	p, ok := all[head.Provider]
	if !ok {
		return nil, fmt.Errorf("llms.%s: provider %q is not known: it is one of %s", name, head.Provider, joinNames(all))
	}
	if p.open == nil {
		return nil, fmt.Errorf("llms.%s: %s has no settings", name, head.Provider)
	}
	ep := p.preset
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&ep); err != nil {
		return nil, fmt.Errorf("llms.%s: %s", name, explainJSON(err))
	}
	ep.Name, ep.Provider = name, head.Provider
	return &ep, ep.check(p)
}

// explainJSON puts an error of encoding/json into the words of somebody who wrote YAML.
func explainJSON(err error) string {
	text := strings.TrimPrefix(err.Error(), "json: ")
	if key, ok := strings.CutPrefix(text, "unknown field "); ok {
		if strings.Contains(key, "api_key") || strings.Contains(key, `"key"`) {
			return "a key does not belong into this file: name a variable with api_key_env, or a file that only you can read with api_key_file"
		}
		return "unknown key " + key
	}
	if wrong, ok := err.(*json.UnmarshalTypeError); ok { //nolint:errorlint // it is this type itself
		return fmt.Sprintf("%s: want a %s, not a %s", wrong.Field, kindWord(wrong.Type.Kind().String()), wrong.Value)
	}
	return text
}

func kindWord(kind string) string {
	switch kind {
	case "int", "float64":
		return "number"
	case "slice":
		return "list"
	case "map", "struct":
		return "set of keys and values"
	case "bool":
		return "true or false"
	}
	return kind
}

// secretHeaders are not for the config file.
var secretHeaders = []string{"authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"}

func (ep *endpoint) check(p provider) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("llms.%s: %s", ep.Name, fmt.Sprintf(format, args...))
	}
	for h := range ep.Headers {
		if slices.Contains(secretHeaders, strings.ToLower(h)) {
			return bad("headers: the value of %s is a secret: name the variable that holds it in headers_env", h)
		}
	}
	if !slices.Contains([]llm.Structured{"", llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt}, ep.Structured) {
		return bad("structured %q: it is json_schema, tools, json_object or prompt", ep.Structured)
	}
	if !slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, ep.MaxTokensField) {
		return bad("max_tokens_field %q: it is max_tokens or max_completion_tokens", ep.MaxTokensField)
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
	if pr := ep.Price; pr != nil && (pr.Input < 0 || pr.Cached < 0 || pr.Output < 0) {
		return bad("price: it cannot be less than nothing")
	}
	if u, err := url.Parse(ep.BaseURL); ep.BaseURL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		return bad("base_url %q: want a URL such as http://localhost:11434/v1", ep.BaseURL)
	} else if err == nil && u.User != nil {
		return bad("base_url: a password does not belong into this file: use api_key_env or headers_env")
	}
	if p.google && (ep.openAIKeys != openAIKeys{} || len(ep.Headers)+len(ep.HeadersEnv) > 0) {
		return bad("headers and %s are nothing for %s", jsonKeys(openAIKeys{}), ep.Provider)
	}
	if !p.google && ep.googleKeys != (googleKeys{}) {
		return bad("%s are nothing for %s", jsonKeys(googleKeys{}), ep.Provider)
	}
	return nil
}

// jsonKeys lists the keys of a struct of settings.
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

func joinNames[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
