// Package provider lets a program that is made with package app add its own language models: a [Provider] makes an [llm.Client] of an [Endpoint], and
// Cortex does the rest as for its own providers: retries, rate limits, prices, fallbacks, budgets, `cortex llm list` and `cortex llm check`.
package provider

import (
	"context"
	"encoding/json"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// Provider describes a name for --llm, and for `provider: NAME` in the config file. Its fields other than Check and Open are the defaults of
// endpoints in the config file.
type Provider struct {
	Model         string           // the model to use; "": it has to be given with --model or in the config file
	BaseURL       string           // of the endpoint; "": the client's default
	KeyEnv        string           // the variables that may hold the key, separated by commas; "": no key is needed
	MaxTokens     int              // of an answer; 0: the client's default
	ContextWindow int              // tokens; 0: unknown
	Images        bool             // whether the model accepts images
	Tokens        bool             // whether the client takes the Token of an endpoint; otherwise api_key_command is an error
	Local         bool             // runs on this machine: it costs nothing, and may have to load the model first
	Price         middleware.Price // of a million tokens; zero: unknown

	// Check returns what is wrong with an endpoint, for the author of its settings. It does no I/O, and is called often. It may be nil.
	Check func(ep *Endpoint) error
	// Open makes a client, which Cortex closes at the end if it is an io.Closer. ctx is only for opening.
	Open func(ctx context.Context, ep *Endpoint) (llm.Client, error)
}

// Endpoint is what a client is made of: an entry of `llms` in the config file, with its provider's defaults.
type Endpoint struct {
	Name    string // the name for --llm
	Model   string
	BaseURL string
	Key     string // read from the variable or the file that the settings name
	// Token returns a token that stands in the place of a Key, and changes; refused is "", or a token that the endpoint has refused. It can be called
	// concurrently and for each request, since it remembers the token. It is nil unless api_key_command is set.
	Token         func(ctx context.Context, refused string) (string, error)
	Headers       map[string]string // sent with each request
	Structured    llm.Structured    // how to ask for a JSON answer; "": the client chooses
	MaxTokens     int
	ContextWindow int
	Images        bool

	// Config has the entry's keys that Cortex does not know, as a JSON object: the provider's own settings; "{}" when there are none. [Endpoint.Decode]
	// decodes it.
	Config json.RawMessage
}
