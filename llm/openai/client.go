package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sashabaranov/go-openai"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
)

// Config describes an endpoint. Model is required.
type Config struct {
	Name    string // for errors; "" is "openai"
	BaseURL string // up to the version: "http://localhost:11434/v1"; "" is OpenAI's
	Key     string // "": none is sent
	Model   string

	// Token returns a token that is sent as `Authorization: Bearer` in place of a Key, also to Azure; nil is for keys that do not change. It is called for
	// each request, concurrently, and should remember its token. After status 401 it is called once more with that token as refused, and the request is
	// sent again with another one, if it returns one. Its errors must show no secret.
	Token func(ctx context.Context, refused string) (string, error)
	// API is "chat", for chat completions, or "responses". "" is chat completions, but the Responses API where the model can do what is asked only there: for
	// the models of which the SDK knows that, and otherwise when the endpoint says so.
	API string

	Headers map[string]string // sent with each request, replacing the client's own of the same name; errors do not show the values
	// APIVersion selects the older URLs of Azure, with the deployment (Model) in the path; "" is for all other endpoints, including the newer Azure path
	// /openai/v1.
	APIVersion string
	// Structured is how the schema is enforced; "" is [llm.StructuredSchema].
	Structured llm.Structured
	// MaxTokensField is "max_completion_tokens" or "max_tokens"; "" is the former for OpenAI and Azure, the latter elsewhere.
	MaxTokensField string
	// SystemRole is "system" or "developer"; "" is "system".
	SystemRole string
	// NoStreamUsage leaves out stream_options, for endpoints that refuse it.
	NoStreamUsage bool
	// ParallelToolCalls is sent with [llm.StructuredTools]; nil leaves it out.
	ParallelToolCalls *bool
	// PromptCacheKey sends [llm.Request].CacheKey as prompt_cache_key; nil does so for OpenAI only, since not all of Azure's deployments accept it.
	PromptCacheKey *bool
	// ReasoningEffort is sent unchanged; "" leaves it out.
	ReasoningEffort string
	// Images says that the model accepts images. Other models get a line of text instead of each image.
	Images bool

	// HTTPClient is copied; nil is one with reasonable timeouts, but no overall timeout. Redirects are never followed, whatever it says: they would send
	// the key and the prompt to an unknown server.
	HTTPClient *http.Client
	// MaxConns bounds the connections, including those being opened, when there is no HTTPClient; further calls wait for one. 0 is unlimited.
	MaxConns int
}

// The values of Config.MaxTokensField.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// Client is an [llm.Client] for endpoints with OpenAI's protocol.
type Client struct {
	cfg     Config
	sdk     openai.ClientConfig // without HTTPClient, of which each call has its own
	http    *http.Client
	bearer  *endpoint.Bearer // nil without tokens
	secrets []string         // without tokens
	noChat  atomic.Bool      // the endpoint has said that the model needs the Responses API
}

var _ llm.Client = (*Client)(nil)

// New returns a client. It does no I/O. An error names the invalid field.
func New(cfg Config) (*Client, error) {
	cfg.Name = cmp.Or(cfg.Name, "openai")
	cfg.BaseURL = strings.TrimRight(cmp.Or(strings.TrimSpace(cfg.BaseURL), openai.DefaultConfig("").BaseURL), "/")
	cfg.Structured = cmp.Or(cfg.Structured, llm.StructuredSchema)
	cfg.SystemRole = cmp.Or(cfg.SystemRole, openai.ChatMessageRoleSystem)
	cfg.Headers = maps.Clone(cfg.Headers)
	base, err := baseURL(&cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	own := isOf(base.Hostname(), "api.openai.com")
	if cfg.MaxTokensField == "" {
		cfg.MaxTokensField = maxTokens
		if own || cfg.APIVersion != "" || isOf(base.Hostname(), azure...) {
			cfg.MaxTokensField = maxCompletionTokens
		}
	}
	cfg.PromptCacheKey = cmp.Or(cfg.PromptCacheKey, &own)
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}

	c := &Client{cfg: cfg, http: endpoint.HTTPClient(cfg.HTTPClient, cfg.MaxConns), secrets: endpoint.Secrets(cfg.Key, cfg.Headers)}
	c.bearer = endpoint.NewBearer(c.http, cfg.Token)
	c.sdk = openai.DefaultConfig(cfg.Key)
	if cfg.APIVersion != "" {
		c.sdk = openai.DefaultAzureConfig(cfg.Key, "")
		c.sdk.APIVersion = cfg.APIVersion
		c.sdk.AzureModelMapperFunc = url.PathEscape // the SDK's own mapper removes dots and colons, which deployments may have
	}
	c.sdk.BaseURL = cfg.BaseURL
	return c, nil
}

// baseURL parses cfg.BaseURL, and shortens one of Azure to the part to which the SDK appends /openai.
func baseURL(cfg *Config) (*url.URL, error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil: // its text contains the URL, which may have a password
		return nil, errors.New("base URL: it cannot be read: want one such as http://localhost:11434/v1")
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("base URL %q: want one such as http://localhost:11434/v1", u.Redacted())
	case u.User != nil:
		return nil, errors.New("base URL: it holds a password: put it into the key or a header")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("base URL: it has a part behind ? or #: leave that out; a version of Azure goes into the API version")
	case strings.HasSuffix(u.Path, "/chat/completions"), strings.HasSuffix(u.Path, "/responses"):
		return nil, errors.New("base URL: leave out /chat/completions or /responses at its end")
	}
	if cfg.APIVersion != "" {
		if strings.HasSuffix(u.Path, "/openai/v1") {
			return nil, errors.New("API version: it is for Azure's older URLs: leave it out with a base URL that ends in /openai/v1")
		}
		cfg.BaseURL = strings.TrimSuffix(cfg.BaseURL, "/openai")
	}
	return u, nil
}

// azure are the domains of Azure, including its clouds for the US government and for China.
var azure = []string{"openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com", "openai.azure.us", "openai.azure.cn"}

// isOf reports whether host is one of these domains or a subdomain.
func isOf(host string, domains ...string) bool {
	host = "." + strings.ToLower(host)
	return slices.ContainsFunc(domains, func(s string) bool { return strings.HasSuffix(host, "."+s) })
}

func (cfg *Config) check() error {
	switch {
	case cfg.Model == "":
		return errors.New("model: it is missing")
	case !slices.Contains([]llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt}, cfg.Structured):
		return fmt.Errorf("structured %q: it is json_schema, tools, json_object or prompt", cfg.Structured)
	case cfg.MaxTokensField != maxTokens && cfg.MaxTokensField != maxCompletionTokens:
		return fmt.Errorf("max tokens field %q: it is %s or %s", cfg.MaxTokensField, maxCompletionTokens, maxTokens)
	case !slices.Contains([]string{"", apiChat, apiResponses}, cfg.API):
		return fmt.Errorf("API %q: it is %s or %s", cfg.API, apiChat, apiResponses)
	case cfg.SystemRole != openai.ChatMessageRoleSystem && cfg.SystemRole != openai.ChatMessageRoleDeveloper:
		return fmt.Errorf("system role %q: it is system or developer", cfg.SystemRole)
	}
	if err := endpoint.CheckToken(cfg.Token, cfg.Key, cfg.Headers); err != nil {
		return err
	}
	return endpoint.CheckHeaders(cfg.Key, cfg.Headers)
}

// Generate implements [llm.Client]. For other parts of the response, such as thoughts, it yields chunks without text, which show that the model is
// working.
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		a := answer{structured: r.Schema != nil && c.cfg.Structured == llm.StructuredTools, model: c.cfg.Model}
		err := c.stream(ctx, r, &a, func(text string) bool { return yield(llm.Chunk{Text: text}, nil) })
		switch {
		case errors.Is(err, errLeft):
		case ctx.Err() != nil:
			yield(llm.Chunk{}, fmt.Errorf("%s %s: %w", c.cfg.Name, c.cfg.Model, ctx.Err()))
		case err != nil:
			yield(llm.Chunk{}, c.explain(err, &a))
		default:
			yield(llm.Chunk{Done: true, Model: a.model, Usage: a.usage}, nil)
		}
	}
}

// stream makes the call and reads the response into a. An error is an [llm.Error], or one that the SDK returned before sending anything.
func (c *Client) stream(ctx context.Context, r *llm.Request, a *answer, yield func(text string) bool) error {
	req, extra, err := c.request(r)
	if err != nil {
		return err
	}
	if c.needsResponses(req) {
		return c.streamResponse(ctx, r, req, a, yield)
	}
	call := c.caller(new(chatFormat), func(body []byte) ([]byte, error) { return c.withMessages(body, extra, r) })
	stream, err := openai.NewClientWithConfig(c.over(call)).CreateChatCompletionStream(ctx, req)
	if c.cfg.API == "" && sendsToResponses(err) {
		c.noChat.Store(true)
		return c.streamResponse(ctx, r, req, a, yield)
	}
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // there is nothing left to lose
	a.requestID = requestID(stream.Header())
	return a.read(call.answer, yield)
}

// caller returns what sends one call, with an answer in this format, after fill has completed the body.
func (c *Client) caller(f format, fill func(body []byte) ([]byte, error)) *doer {
	return &doer{http: c.http, format: f, headers: c.cfg.Headers, fill: fill, keyless: c.cfg.Key == "", secrets: c.hidden}
}

// over returns the configuration of the SDK for the call that d sends.
func (c *Client) over(d *doer) openai.ClientConfig {
	sdk := c.sdk
	sdk.HTTPClient = d
	return sdk
}

// hidden returns what errors must not show.
func (c *Client) hidden() []string { return c.bearer.Hide(c.secrets) }

// explain adds the call's data to an error, and removes secrets.
func (c *Client) explain(err error, a *answer) *llm.Error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = refusedHere(err, &c.cfg)
	}
	e.Provider, e.Model, e.Usage = c.cfg.Name, c.cfg.Model, a.usage
	e.RequestID = cmp.Or(e.RequestID, a.requestID)
	_ = e.Redact(c.hidden()...) // e itself is modified
	e.Message, e.RequestID = cut(e.Message, maxWords), cut(e.RequestID, 128)
	return e
}
