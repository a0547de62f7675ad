package anthropic

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
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// Config describes an endpoint. Model is required. Nothing is taken from the environment.
type Config struct {
	Name    string // for errors; "" is "anthropic"
	BaseURL string // before /v1: "https://api.anthropic.com", which "" is
	Key     string // "": none is sent
	Model   string

	// Token returns a token that is sent as `Authorization: Bearer` in place of a Key; nil is for keys that do not change. It is called for each request,
	// concurrently, and should remember its token. After status 401 it is called once more with that token as refused, and the request is sent again
	// with another one, if it returns one. Its errors must show no secret.
	Token func(ctx context.Context, refused string) (string, error)

	Headers map[string]string // sent with each request, replacing the client's own of the same name; errors do not show the values
	// Structured is how the schema is enforced; "" is [llm.StructuredSchema]. The API has no [llm.StructuredObject].
	Structured llm.Structured
	// Thinking is "off", "adaptive", or a number of tokens, at least 1,024, that come on top of those of the answer; "" leaves it to the model. What the
	// model thinks is no text of the answer. With [llm.StructuredTools] it has to be off: the API does not let a model think before a call that it must make.
	Thinking string
	// Effort is sent unchanged, such as "low"; "" leaves it to the model.
	Effort string
	// Images says that the model accepts images. Other models get a line of text instead of each image.
	Images bool

	// HTTPClient is copied; nil is one with reasonable timeouts, but no overall timeout. Redirects are never followed, whatever it says: they would send
	// the key and the prompt to an unknown server.
	HTTPClient *http.Client
	// MaxConns bounds the connections, including those being opened, when there is no HTTPClient; further calls wait for one. 0 is unlimited.
	MaxConns int
}

// The values of Config.Thinking that are no number.
const (
	thinkingOff      = "off"
	thinkingAdaptive = "adaptive"
)

// minThinking is the smallest number of tokens for thoughts that the API accepts.
const minThinking = 1024

// Client is an [llm.Client] for endpoints with Anthropic's protocol.
type Client struct {
	cfg     Config
	budget  int // tokens for thoughts
	sdk     anthropic.MessageService
	http    *http.Client
	bearer  *endpoint.Bearer // nil without tokens
	secrets []string         // without tokens
}

var _ llm.Client = (*Client)(nil)

// New returns a client. It does no I/O. An error names the invalid field.
func New(cfg Config) (*Client, error) {
	cfg.Name = cmp.Or(cfg.Name, "anthropic")
	cfg.BaseURL = cmp.Or(strings.TrimSpace(cfg.BaseURL), "https://api.anthropic.com")
	cfg.Structured = cmp.Or(cfg.Structured, llm.StructuredSchema)
	cfg.Headers = maps.Clone(cfg.Headers)
	budget, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	c := &Client{cfg: cfg, budget: budget, http: endpoint.HTTPClient(cfg.HTTPClient, cfg.MaxConns), secrets: endpoint.Secrets(cfg.Key, cfg.Headers)}
	c.bearer = endpoint.NewBearer(c.http, cfg.Token)
	options := []option.RequestOption{
		option.WithoutOpenTelemetry(), option.WithMaxRetries(0),
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1") + "/"),
		option.WithHTTPClient(c.http),
	}
	if cfg.Key != "" {
		options = append(options, option.WithAPIKey(cfg.Key))
	}
	for name, value := range cfg.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	c.sdk = anthropic.NewMessageService(options...)
	return c, nil
}

// check returns the number of tokens for thoughts.
func (cfg *Config) check() (budget int, err error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil: // its text contains the URL, which may have a password
		return 0, errors.New("base URL: it cannot be read: want one such as https://api.anthropic.com")
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return 0, fmt.Errorf("base URL %q: want one such as https://api.anthropic.com", u.Redacted())
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/messages"):
		return 0, errors.New("base URL: leave out /v1/messages at its end")
	case cfg.Model == "":
		return 0, errors.New("model: it is missing")
	case !slices.Contains([]llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredPrompt}, cfg.Structured):
		return 0, fmt.Errorf("structured %q: it is json_schema, tools or prompt", cfg.Structured)
	}
	switch cfg.Thinking {
	case "", thinkingOff, thinkingAdaptive:
	default:
		if budget, err = strconv.Atoi(cfg.Thinking); err != nil || budget < minThinking {
			return 0, fmt.Errorf("thinking %q: it is off, adaptive, or a number of tokens from %d", cfg.Thinking, minThinking)
		}
	}
	if cfg.Structured == llm.StructuredTools && cfg.Thinking != "" && cfg.Thinking != thinkingOff {
		return 0, fmt.Errorf("thinking %q: no model thinks before a call that it must make: set structured: json_schema", cfg.Thinking)
	}
	if err := endpoint.CheckToken(cfg.Token, cfg.Key, cfg.Headers); err != nil {
		return 0, err
	}
	return budget, endpoint.CheckHeaders(cfg.Key, cfg.Headers)
}

// Generate implements [llm.Client]. For events without text, such as thoughts, it yields chunks without text, which show that the model is working.
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		params, err := c.params(r)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		x := &exchange{}
		inner, stop := context.WithCancel(ctx)
		defer stop()
		stream := c.sdk.NewStreaming(inner, params, option.WithMiddleware(x.send))
		defer stream.Close() //nolint:errcheck // there is nothing left to lose
		a := &answer{tools: len(params.Tools) > 0, model: c.cfg.Model}
		complete := long.Rest(stop)
		for stream.Next() {
			event := stream.Current()
			if !yield(llm.Chunk{Text: a.add(&event)}, nil) { // also without text: the model is working
				return
			}
			if a.complete() {
				complete()
			}
		}
		if text := a.rest(); text != "" && !yield(llm.Chunk{Text: text}, nil) {
			return
		}
		if err := c.outcome(ctx, x, a, stream.Err()); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Done: true, Model: a.model, Usage: a.usage}, nil)
	}
}
