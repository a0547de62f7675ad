// Package provider is how a program that is made with package app brings a language model of its own: a [Provider] makes an
// [llm.Client] of an [Endpoint], and Cortex does the rest as for its own ones: retries, rate limits, prices, fallbacks, budgets,
// `cortex llm list` and `cortex llm check`.
package provider

import (
	"context"
	"encoding/json"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// Provider is what a name of --llm stands for, and `provider: NAME` in the config file. Its fields but Check and Open are
// what an endpoint has when the config file says nothing else.
type Provider struct {
	Model         string           // the model that is asked; empty: it has to be named, with --model or in the config file
	BaseURL       string           // where it is asked; empty is what the client takes for that
	KeyEnv        string           // the variables that may hold the key, with commas between them; empty: it needs none
	MaxTokens     int              // of an answer; 0 is the client's own bound
	ContextWindow int              // tokens; 0 is not known
	Images        bool             // whether the model takes images
	Local         bool             // runs on this machine: it costs nothing, and may have to be loaded first
	Price         middleware.Price // of a million tokens; zero: costs are not known

	// Check returns what is wrong with an endpoint, for whoever wrote its settings. It does no I/O, and is called often. It may be nil.
	Check func(ep *Endpoint) error
	// Open makes a client, which is closed at the end when it is an io.Closer. ctx is for dialing only.
	Open func(ctx context.Context, ep *Endpoint) (llm.Client, error)
}

// Endpoint is what a client is made of: an entry of `llms` in the config file on top of its provider's own values.
type Endpoint struct {
	Name          string // by which --llm names it
	Model         string
	BaseURL       string
	Key           string            // read from the variable or the file that the settings name
	Headers       map[string]string // to be sent with each request
	Structured    llm.Structured    // how a JSON answer is asked for; empty is as the client likes
	MaxTokens     int
	ContextWindow int
	Images        bool

	// Config has the entry's keys that Cortex does not know, as a JSON object: the provider's own settings. It is "{}" when there are none.
	// [Endpoint.Decode] reads it.
	Config json.RawMessage
}
