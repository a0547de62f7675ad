package llms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/keycommand"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/anthropic"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	"github.com/cortex-orchestrator/cortex/llm/openai"
	plug "github.com/cortex-orchestrator/cortex/llm/provider"
)

// Provider describes a name that --llm accepts; the config file may override its preset.
type Provider struct {
	preset  Endpoint
	baseEnv string // the variable for base_url, which the vendor's own tools read as well
	google  bool   // accepts googleKeys rather than openAIKeys
	claude  bool   // has its own protocol, and no openAIKeys
	tokens  bool   // with own: its client takes tokens
	own     bool   // belongs to the program, and accepts keys of its own
	images  bool   // its models accept images, unless base_url is set to another endpoint
	// leftOut says what to do when this build has no client for the provider.
	leftOut *LackError
	// open makes a client. It is nil for fake, which is a decider without a client.
	open func(ctx context.Context, ep *Endpoint, key string) (llm.Client, error)
	// check returns what is wrong with an endpoint, without I/O. It may be nil.
	check func(ep *Endpoint, key string) error
}

// builtinProviders are the built-in endpoints. A new provider is a line here: see llm/README.md.
func builtinProviders() map[string]*Provider {
	return map[string]*Provider{
		"fake": {},
		"openai": {
			baseEnv: "OPENAI_BASE_URL",
			images:  true,
			preset:  Endpoint{Model: "gpt-5.4-mini", KeyEnv: "OPENAI_API_KEY", MaxTokens: 16384, ContextWindow: 128_000, OpenAIKeys: newTokensField},
			open:    openOpenAI,
		},
		"azure":      openAI("AZURE_OPENAI_ENDPOINT", Endpoint{KeyEnv: "AZURE_OPENAI_API_KEY", MaxTokens: 16384, ContextWindow: 128_000, OpenAIKeys: newTokensField}),
		"openrouter": openAI("", Endpoint{BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY", MaxTokens: 8192, ContextWindow: 128_000}),
		"groq":       openAI("", Endpoint{BaseURL: "https://api.groq.com/openai/v1", KeyEnv: "GROQ_API_KEY", MaxTokens: 8192, ContextWindow: 128_000}),
		"mistral":    openAI("", Endpoint{BaseURL: "https://api.mistral.ai/v1", KeyEnv: "MISTRAL_API_KEY", MaxTokens: 8192, ContextWindow: 128_000}),
		"xai":        openAI("", Endpoint{BaseURL: "https://api.x.ai/v1", KeyEnv: "XAI_API_KEY", MaxTokens: 8192, ContextWindow: 128_000}),
		"together":   openAI("", Endpoint{BaseURL: "https://api.together.xyz/v1", KeyEnv: "TOGETHER_API_KEY", MaxTokens: 8192, ContextWindow: 32_768}),
		"deepseek": openAI("", Endpoint{
			BaseURL: "https://api.deepseek.com/v1", Model: "deepseek-chat", KeyEnv: "DEEPSEEK_API_KEY", MaxTokens: 8192, ContextWindow: 64_000,
			Structured: llm.StructuredObject, // it knows no schema
		}),
		"ollama":   openAI("", Endpoint{BaseURL: "http://localhost:11434/v1", MaxTokens: 2048, ContextWindow: 4096, Local: true}),
		"lmstudio": openAI("", Endpoint{BaseURL: "http://localhost:1234/v1", MaxTokens: 2048, ContextWindow: 4096, Local: true}),
		"llamacpp": openAI("", Endpoint{BaseURL: "http://localhost:8080/v1", Model: "default", MaxTokens: 2048, ContextWindow: 8192, Local: true}),
		"vllm":     openAI("", Endpoint{BaseURL: "http://localhost:8000/v1", MaxTokens: 4096, ContextWindow: 32_768, Local: true}),
		"anthropic": {
			images:  true,
			baseEnv: "ANTHROPIC_BASE_URL",
			preset:  Endpoint{Model: "claude-haiku-5-5", KeyEnv: "ANTHROPIC_API_KEY", MaxTokens: 16384, ContextWindow: 200_000},
			open:    openAnthropic,
			claude:  true,
		},
		"gemini": {
			google:  true,
			images:  true,
			baseEnv: "GOOGLE_GEMINI_BASE_URL",
			preset:  Endpoint{Model: "gemini-3.5-flash", KeyEnv: "GEMINI_API_KEY,GOOGLE_API_KEY", MaxTokens: 16384, ContextWindow: 1_000_000},
			open:    openGemini,
		},
		"vertex": withVertex(&Provider{
			google: true,
			images: true,
			preset: Endpoint{Model: "gemini-3.5-flash", MaxTokens: 16384, ContextWindow: 1_000_000},
		}),
	}
}

// Providers returns the known providers: the built-in ones, overridden by own, those of the program.
func Providers(own map[string]plug.Provider) map[string]*Provider {
	all := builtinProviders()
	for name, p := range own {
		all[name] = ownProvider(p)
	}
	for name, p := range all {
		p.preset.Name, p.preset.Provider, p.preset.by = name, name, p
	}
	return all
}

// ownProvider converts a provider of the program.
func ownProvider(own plug.Provider) *Provider {
	preset := Endpoint{
		Model: own.Model, BaseURL: own.BaseURL, KeyEnv: own.KeyEnv, MaxTokens: own.MaxTokens, ContextWindow: own.ContextWindow, Local: own.Local,
	}
	if own.Price != (middleware.Price{}) {
		preset.Price = &own.Price
	}
	p := &Provider{preset: preset, own: true, images: own.Images, tokens: own.Tokens}
	p.open = func(ctx context.Context, ep *Endpoint, key string) (llm.Client, error) {
		e, err := ep.plugged(key)
		if err != nil {
			return nil, err
		}
		return own.Open(ctx, e)
	}
	if own.Check != nil {
		p.check = func(ep *Endpoint, key string) error {
			e, err := ep.plugged(key)
			if err == nil {
				err = own.Check(e)
			}
			return err
		}
	}
	return p
}

// explainOwn formats the error of a program's provider about its settings, to follow the name of the endpoint.
func explainOwn(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "json: ") {
		return ExplainJSON(err)
	}
	return ": " + err.Error()
}

// plugged converts a resolved endpoint for a provider of the program.
func (ep *Endpoint) plugged(key string) (*plug.Endpoint, error) {
	headers, err := ep.allHeaders()
	if err != nil {
		return nil, err
	}
	config := ep.Own
	if config == nil {
		config = json.RawMessage("{}")
	}
	return &plug.Endpoint{
		Name: ep.Name, Model: ep.Model, BaseURL: ep.BaseURL, Key: key, Headers: headers, Structured: ep.Structured,
		MaxTokens: ep.MaxTokens, ContextWindow: ep.ContextWindow, Images: *ep.Images, Config: config, Token: ep.tokens(),
	}, nil
}

// newTokensField is the parameter that OpenAI's newer models require, also through a proxy.
var newTokensField = OpenAIKeys{MaxTokensField: "max_completion_tokens"}

func openAI(baseEnv string, preset Endpoint) *Provider {
	return &Provider{preset: preset, baseEnv: baseEnv, open: openOpenAI}
}

func openOpenAI(_ context.Context, ep *Endpoint, key string) (llm.Client, error) {
	headers, err := ep.allHeaders()
	if err != nil {
		return nil, err
	}
	return openai.New(openai.Config{
		Name: ep.Name, BaseURL: ep.BaseURL, Key: key, Token: ep.tokens(), Model: ep.Model, Headers: headers, Structured: ep.Structured,
		API: ep.API, APIVersion: ep.APIVersion,
		MaxTokensField: ep.MaxTokensField, SystemRole: ep.SystemRole, NoStreamUsage: ep.StreamUsage != nil && !*ep.StreamUsage,
		ParallelToolCalls: ep.ParallelToolCalls, PromptCacheKey: ep.PromptCacheKey, ReasoningEffort: ep.ReasoningEffort,
		Images: *ep.Images, MaxConns: openfiles.Models(),
	})
}

func openAnthropic(_ context.Context, ep *Endpoint, key string) (llm.Client, error) {
	headers, err := ep.allHeaders()
	if err != nil {
		return nil, err
	}
	return anthropic.New(anthropic.Config{
		Name: ep.Name, BaseURL: ep.BaseURL, Key: key, Token: ep.tokens(), Model: ep.Model, Headers: headers, Structured: ep.Structured,
		Thinking: string(ep.Thinking), Effort: ep.ReasoningEffort, Images: *ep.Images, MaxConns: openfiles.Models(),
	})
}

func openGemini(ctx context.Context, ep *Endpoint, key string) (llm.Client, error) {
	cfg := gemini.Config{Name: ep.Name, Model: ep.Model, BaseURL: ep.BaseURL, Structured: ep.Structured, Key: key, Images: *ep.Images, MaxConns: openfiles.Models()}
	cfg.Thinking, cfg.Effort = string(ep.Thinking), ep.ReasoningEffort
	if key == "" {
		cfg.Project, cfg.Location = ep.googleProject()
	}
	return gemini.Dial(ctx, cfg)
}

// googleProject returns the project and the location, from the same variables as Google's own tools.
func (ep *Endpoint) googleProject() (project, location string) {
	return cmp.Or(ep.Project, os.Getenv("GOOGLE_CLOUD_PROJECT")), cmp.Or(ep.Location, os.Getenv("GOOGLE_CLOUD_LOCATION"))
}

// Resolved returns ep completed from the environment, and its key. Its only I/O is reading the key's file.
func (ep *Endpoint) Resolved() (*Endpoint, string, error) {
	r := *ep
	p := ep.by
	if p.leftOut != nil {
		return nil, "", &LackError{ep.Name, p.leftOut.what, p.leftOut.Short}
	}
	if r.BaseURL == "" && p.baseEnv != "" {
		r.BaseURL = strings.TrimSpace(os.Getenv(p.baseEnv))
	}
	if r.Images == nil { // of other endpoints with OpenAI's protocol it is unknown
		r.Images = new(p.images && (p.google || p.own || r.BaseURL == ""))
	}
	if r.Model == "" {
		return nil, "", lacksModel(ep.Name, ep.aside)
	}
	if r.Project != "" && r.KeyFile == "" {
		r.KeyEnv = "" // the project was chosen
	}
	if r.Provider == "azure" && r.BaseURL == "" {
		return nil, "", lacks(r.Name, "AZURE_OPENAI_ENDPOINT", "base_url is missing: set AZURE_OPENAI_ENDPOINT to https://NAME.openai.azure.com/openai/v1")
	}
	key, err := r.key()
	if project, _ := r.googleProject(); err != nil && p.google && project != "" && r.KeyFile == "" {
		err = nil // the project's credentials are used instead
	}
	if err == nil && p.google && key == "" {
		if project, _ := r.googleProject(); project == "" {
			err = lacksProject(ep.Name)
		}
	}
	if err == nil && p.check != nil {
		if err = p.check(&r, key); err != nil {
			err = fmt.Errorf("llms.%s%s", r.Name, explainOwn(err))
		}
	}
	return &r, key, err
}

// Bind makes an endpoint that another process has left, and that asks p, one that this process can open.
func (ep *Endpoint) Bind(name string, p *Provider) {
	ep.Name, ep.by, ep.Local = name, p, p.preset.Local
}

// HasClient reports whether the endpoint is a model, and not a decider without one.
func (ep *Endpoint) HasClient() bool { return ep.by.open != nil }

// IsOwn reports whether a provider of the program serves the endpoint.
func (ep *Endpoint) IsOwn() bool { return ep.by.own }

// RunIn says in which folder the program of api_key_command runs.
func (ep *Endpoint) RunIn(dir string) {
	ep.token = keycommand.New(keycommand.Options{Argv: ep.KeyCommand, Dir: dir})
}
