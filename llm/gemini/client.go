package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// Config describes an endpoint. Model is required, and either Key or Project. Nothing is taken from the environment except application-default
// credentials.
type Config struct {
	Name  string // for errors; "" is "gemini"
	Model string
	// Key selects the Gemini API.
	Key string
	// Project selects Vertex AI, with application-default credentials.
	Project  string
	Location string // with Project; "" is "global"

	BaseURL    string // up to the version; "" is Google's
	APIVersion string // "": the SDK's default
	// Images says that the model accepts images. Other models get a line of text instead of each image.
	Images bool
	// Structured is how the schema is enforced; "" is [llm.StructuredSchema].
	Structured llm.Structured
	// Thinking is "off", "adaptive", or a number of tokens; "" leaves it to the model. Some models refuse some values.
	Thinking string
	// Effort is "minimal", "low", "medium" or "high"; "" leaves it to the model. It excludes Thinking.
	Effort string
	// HTTPClient sends the requests, and with Project it has to authorize them; nil is a default that does. It is not modified.
	HTTPClient *http.Client
	// MaxConns bounds the connections, including those being opened, with a Key and no HTTPClient; further calls wait for one. 0 is unlimited. With a
	// Project the SDK opens them.
	MaxConns int
}

// Client is an [llm.Client] for Google's models.
type Client struct {
	name, model string
	key         string // which errors must not show
	mode        llm.Structured
	images      bool
	thinking    *genai.ThinkingConfig
	models      *genai.Models

	http          *http.Client
	base, version string // of the URLs; version "": the default
}

var _ llm.Client = (*Client)(nil)

// Dial returns a client. With a Project and no HTTPClient it searches for credentials in files and at the metadata server of Google Cloud, until ctx
// ends; it contacts no other server. Without credentials the error is an [llm.ErrAuth] with advice; other errors name the invalid field.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	cfg.Name = cmp.Or(cfg.Name, "gemini")
	cfg.Location = cmp.Or(cfg.Location, "global")
	cfg.Structured = cmp.Or(cfg.Structured, llm.StructuredSchema)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	sdk := &genai.ClientConfig{
		Backend:     genai.BackendGeminiAPI,
		APIKey:      cfg.Key,
		HTTPOptions: genai.HTTPOptions{BaseURL: cfg.baseURL(), APIVersion: cfg.APIVersion},
	}
	if cfg.Project != "" {
		sdk.Backend, sdk.Project, sdk.Location = genai.BackendVertexAI, cfg.Project, cfg.Location
	}
	switch {
	case cfg.HTTPClient != nil:
		own := *cfg.HTTPClient
		sdk.HTTPClient = &own
	case cfg.Key != "":
		sdk.HTTPClient = &http.Client{Transport: httpclient.NewTransport(cfg.MaxConns)}
	}
	c, err := dialSDK(ctx, sdk)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: dial: %w", cfg.Name, ctx.Err())
	case err != nil && cfg.Project != "":
		return nil, cfg.noCredentials("no credentials: run `gcloud auth application-default login` for Vertex AI, or set GEMINI_API_KEY for the Gemini API", err)
	case err != nil:
		return nil, (&llm.Error{Kind: llm.ErrBadRequest, Provider: cfg.Name, Model: cfg.Model, Message: err.Error()}).Redact(cfg.Key)
	}
	// The SDK uses this very client, whether given or its own.
	sent := c.ClientConfig().HTTPClient
	sent.Transport = &transport{base: sent.Transport}
	if sent.CheckRedirect == nil { // net/http would send the key to any server
		sent.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return &Client{name: cfg.Name, model: cfg.Model, key: cfg.Key, mode: cfg.Structured, images: cfg.Images, thinking: cfg.thinking(), models: c.Models, http: sent, base: cfg.baseURL(), version: cfg.APIVersion}, nil
}

// The values of Config.Thinking that are no number.
const (
	thinkingOff      = "off"
	thinkingAdaptive = "adaptive"
)

// thinking returns the setting for the SDK, or nil.
func (cfg *Config) thinking() *genai.ThinkingConfig {
	const dynamic = -1 // the model chooses
	switch cfg.Thinking {
	case "":
		if cfg.Effort == "" {
			return nil
		}
		return &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(cfg.Effort))}
	case thinkingOff:
		return &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](0)}
	case thinkingAdaptive:
		return &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](dynamic)}
	}
	n, _ := strconv.Atoi(cfg.Thinking) // it was checked
	return &genai.ThinkingConfig{ThinkingBudget: new(int32(max(0, min(n, math.MaxInt32))))}
}

// dialSDK is genai.NewClient with a context. The SDK's search for credentials has no context; it gives up after some seconds.
func dialSDK(ctx context.Context, cfg *genai.ClientConfig) (*genai.Client, error) {
	return google.Within(ctx, func() (c *genai.Client, err error) {
		// The warnings are about variables in the environment that the SDK ignores when it is configured.
		google.Quietly(func() { c, err = genai.NewClient(context.WithoutCancel(ctx), cfg) },
			"Warning: Both GOOGLE_API_KEY and GEMINI_API_KEY are set",
			"Warning: The user provided project/location will take precedence over the API key")
		return c, err
	})
}

func (cfg *Config) check() error {
	switch {
	case cfg.Model == "":
		return fmt.Errorf("%s: Model is missing", cfg.Name)
	case cfg.Key == "" && cfg.Project == "":
		return cfg.noCredentials("no key: set GEMINI_API_KEY for the Gemini API (https://aistudio.google.com/apikey); or name a project for Vertex AI, and run `gcloud auth application-default login`", nil)
	case cfg.Key != "" && cfg.Project != "":
		return fmt.Errorf("%s: Key is for the Gemini API, Project for Vertex AI: set one of them", cfg.Name)
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return cfg.noCredentials("the key has a space or another character that no key has: copy it again", nil)
	case !isName(cfg.Project) || !isName(cfg.Location):
		return fmt.Errorf("%s: Project %q or Location %q is no name", cfg.Name, cfg.Project, cfg.Location)
	}
	if _, err := strconv.Atoi(cfg.Thinking); err != nil && cfg.Thinking != "" && cfg.Thinking != thinkingOff && cfg.Thinking != thinkingAdaptive {
		return fmt.Errorf("%s: Thinking %q is neither off nor adaptive nor a number of tokens", cfg.Name, cfg.Thinking)
	}
	if cfg.Thinking != "" && cfg.Effort != "" {
		return fmt.Errorf("%s: Thinking and Effort exclude each other: the API takes one of them", cfg.Name)
	}
	switch cfg.Structured {
	case llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt:
	default:
		return fmt.Errorf("%s: Structured %q is not known", cfg.Name, cfg.Structured)
	}
	if cfg.BaseURL == "" {
		return nil
	}
	if u, err := url.Parse(cfg.BaseURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s: BaseURL %q is no URL like https://generativelanguage.googleapis.com", cfg.Name, cfg.BaseURL)
	}
	return nil
}

func (cfg *Config) noCredentials(message string, err error) error {
	if err != nil {
		message += ": " + err.Error()
	}
	return (&llm.Error{Kind: llm.ErrAuth, Provider: cfg.Name, Model: cfg.Model, Message: message, Err: err}).Redact(cfg.Key)
}

// isName reports whether s can be used in a URL unescaped, as a project with a domain before it, or a location.
func isName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:", r)
	})
}

// baseURL is never empty: the SDK would take one from the environment.
func (cfg *Config) baseURL() string {
	switch {
	case cfg.BaseURL != "":
		return cfg.BaseURL
	case cfg.Key != "":
		return "https://generativelanguage.googleapis.com/"
	case cfg.Location == "global":
		return "https://aiplatform.googleapis.com/"
	case cfg.Location == "us" || cfg.Location == "eu":
		return "https://aiplatform." + cfg.Location + ".rep.googleapis.com/"
	}
	return "https://" + cfg.Location + "-aiplatform.googleapis.com/"
}

// Generate implements [llm.Client]. With [llm.StructuredTools] it holds back text until it is known that the model does not call the function.
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		config, err := c.config(r)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		x := &exchange{}
		inner, stop := context.WithCancel(context.WithValue(ctx, exchangeKey{}, x))
		defer stop()
		a := &answer{x: x, tools: len(config.Tools) > 0}
		var failed error
		complete := long.Rest(stop)
		next, end := iter.Pull2(c.models.GenerateContentStream(inner, c.model, c.contents(r), config))
		defer end()
		for {
			var response *genai.GenerateContentResponse
			more := false
			if p := google.Caught(func() { response, failed, more = next() }); p != nil { // the SDK panics on some unexpected answers
				failed = fmt.Errorf("%w: %v", errUnreadable, p)
			}
			if !more || failed != nil {
				break
			}
			if !yield(llm.Chunk{Text: a.add(response)}, nil) { // also without text: the model is working
				return
			}
			if a.complete() {
				complete()
			}
		}
		if text := a.rest(); text != "" && !yield(llm.Chunk{Text: text}, nil) {
			return
		}
		if err := c.outcome(ctx, x, a, failed); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Done: true, Model: cmp.Or(a.model, c.model), Usage: a.usage}, nil)
	}
}

// errUnreadable is the error for an answer on which the SDK fails.
var errUnreadable = errors.New("the answer is not of the form that it should have")
