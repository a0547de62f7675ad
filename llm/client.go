package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Client is one vendor's endpoint: all that a new provider has to write. It is safe for concurrent use.
type Client interface {
	// Generate sends r and streams the answer: chunks with text, then one last chunk with Done set and the usage. When
	// the iteration ends without a Done chunk or an error, the answer counts as cut off ([ErrTruncated]). An error is
	// the last thing yielded; it wraps one of this package's errors where one fits, and is best an [Error]. When ctx ends,
	// so does the iteration, at once, with an error that wraps ctx's. Leaving the loop stops the request. r is not retained
	// and not changed. A client tries once: trying again, waiting, and choosing another model is for what is around it.
	// A chunk without text says that the model is alive, while it thinks.
	Generate(ctx context.Context, r *Request) iter.Seq2[Chunk, error]
}

// Request is one call of a model.
type Request struct {
	// System holds the instructions and what is stable over a conversation; equal for as long as possible, so that the
	// provider's prompt cache hits.
	System string
	// Messages are the conversation, oldest first; the last one is a user message.
	Messages []Message
	// Schema is the JSON Schema that the answer must follow; nil for free text. How an endpoint is made to follow it is the
	// client's choice, see [Structured]; one that cannot be made to ignores it: the instructions ask for the same.
	Schema json.RawMessage
	// CacheKey is equal for requests that share a prefix: the conversation's id. Optional to use.
	CacheKey string
	// MaxTokens bounds the answer; 0 leaves it to the endpoint.
	MaxTokens int
	// Temperature is how freely the model chooses its words; nil leaves it to the endpoint, 0 is sent as 0.
	Temperature *float64
}

// Chunk is a piece of an answer.
type Chunk struct {
	Text  string
	Done  bool   // the last chunk
	Model string // with Done: what answered, as the endpoint names it
	Usage Usage  // with Done
	// Prompt is, with Done, how many tokens the prompt of this one answer had, where Usage has those of failed attempts too;
	// 0 is Usage.Input.
	Prompt int
}

// Usage counts the tokens of a call, as the provider reports them, and what they cost.
type Usage struct {
	Input  int `json:"input,omitempty"`
	Cached int `json:"cached,omitempty"` // part of Input that came from the provider's cache
	Output int `json:"output,omitempty"` // all that was written, a model's thoughts included
	// Cost is in the currency of the prices that were configured, most likely US dollars; 0 when there are none.
	Cost float64 `json:"cost,omitempty"`
	// Estimated says that an endpoint did not count some of the tokens, and the decider did, by the length of the texts.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Cached: u.Cached + v.Cached, Output: u.Output + v.Output, Cost: u.Cost + v.Cost,
		Estimated: u.Estimated || v.Estimated,
	}
}

// Tokens returns all tokens, read and written.
func (u Usage) Tokens() int { return u.Input + u.Output }

// Structured is how an endpoint is made to answer with JSON that follows [Request].Schema. Each client translates it to its
// protocol; the empty value is the client's best.
type Structured string

// The ways, the strictest first. All end in the same text: one JSON object.
const (
	StructuredSchema Structured = "json_schema" // the endpoint holds the model to the schema
	StructuredTools  Structured = "tools"       // the schema is that of a function that the model has to call; its arguments are the answer
	StructuredObject Structured = "json_object" // the endpoint holds the model to JSON, the instructions to its form
	StructuredPrompt Structured = "prompt"      // the instructions alone
)
