package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Client is the endpoint of a provider, the only interface that a new provider has to implement. It is safe for concurrent use.
type Client interface {
	// Generate sends r and streams the answer: chunks with text, followed by one chunk with Done set and the usage. If the iteration ends without a Done
	// chunk or an error, the answer counts as cut off ([ErrTruncated]). An error is the last value; it wraps one of this package's errors if one
	// applies, and preferably is an [Error]. When ctx ends, the iteration ends at once with an error that wraps ctx's. Leaving the loop cancels the
	// request. Generate neither retains nor modifies r. It tries once: retries, pauses and fallbacks are up to wrappers. A chunk without text says that
	// the model is working, such as thinking.
	Generate(ctx context.Context, r *Request) iter.Seq2[Chunk, error]
}

// Request is one call of a model.
type Request struct {
	// System has the instructions, and everything that does not change during a conversation. It stays equal as long as possible, so that the provider's
	// prompt cache hits.
	System string
	// Messages are the conversation, oldest first; the last one is a user message.
	Messages []Message
	// Schema is the JSON Schema of the answer; nil for free text. The client chooses how to enforce it, see [Structured]. A client that cannot do that
	// ignores it, since the instructions ask for the same form.
	Schema json.RawMessage
	// CacheKey is equal for requests with a common prefix: the conversation's id. Clients may ignore it.
	CacheKey string
	// MaxTokens bounds the answer; 0 leaves it to the endpoint.
	MaxTokens int
	// Temperature is the sampling temperature; nil leaves it to the endpoint, 0 is sent as 0.
	Temperature *float64
}

// Chunk is a piece of an answer.
type Chunk struct {
	Text  string
	Done  bool   // the last chunk
	Model string // with Done: the model that answered, as the endpoint names it
	Usage Usage  // with Done
	// Prompt is, with Done, the number of tokens of this answer's prompt, when Usage includes failed attempts; 0 stands for Usage.Input.
	Prompt int
}

// Usage has the tokens of a call, as the provider reports them, and their cost.
type Usage struct {
	Input  int `json:"input,omitempty"`
	Cached int `json:"cached,omitempty"` // part of Input that came from the provider's cache
	// CacheWrite is the part of Input that was written to the provider's cache, where the provider charges for that.
	CacheWrite int `json:"cache_write,omitempty"`
	Output     int `json:"output,omitempty"`    // everything that the model wrote, including thoughts
	Reasoning  int `json:"reasoning,omitempty"` // part of Output: thoughts, where the provider counts them
	// Cost is in the currency of the configured prices, usually US dollars; 0 without prices.
	Cost float64 `json:"cost,omitempty"`
	// Estimated says that the endpoint did not count some of the tokens, and the decider estimated them from the length of the texts.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Cached: u.Cached + v.Cached, CacheWrite: u.CacheWrite + v.CacheWrite,
		Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning, Cost: u.Cost + v.Cost, Estimated: u.Estimated || v.Estimated,
	}
}

// Tokens returns the number of all tokens, read and written.
func (u Usage) Tokens() int { return u.Input + u.Output }

// Structured is a way to make an endpoint answer with JSON that follows [Request].Schema. Each client translates it to its protocol; with "" the
// client chooses.
type Structured string

// The ways, the strictest first. All give the same text: one JSON object.
const (
	StructuredSchema Structured = "json_schema" // the endpoint enforces the schema
	StructuredTools  Structured = "tools"       // the schema is that of a function that the model must call; its arguments are the answer
	StructuredObject Structured = "json_object" // the endpoint enforces JSON, the instructions ask for the form
	StructuredPrompt Structured = "prompt"      // only the instructions ask for it
)
