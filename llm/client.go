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
	// the last thing yielded; it wraps one of this package's errors where one fits. Leaving the loop, or the end of
	// ctx, stops the request. r is not retained and not changed.
	Generate(ctx context.Context, r *Request) iter.Seq2[Chunk, error]
}

// Role says whose words a Message holds.
type Role string

// The roles of a Message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of a Request.
type Message struct {
	Role Role
	Text string
}

// Request is one call of a model.
type Request struct {
	// System holds the instructions and what is stable over a conversation; equal for as long as possible, so that the
	// provider's prompt cache hits.
	System string
	// Messages are the conversation, oldest first; the last one is a user message.
	Messages []Message
	// Schema is the JSON Schema that the answer must follow; nil for free text. An endpoint without structured output
	// ignores it: the instructions ask for the same.
	Schema json.RawMessage
	// CacheKey is equal for requests that share a prefix: the conversation's id. Optional to use.
	CacheKey string
	// MaxTokens bounds the answer; 0 leaves it to the endpoint.
	MaxTokens int
}

// Chunk is a piece of an answer.
type Chunk struct {
	Text  string
	Done  bool   // the last chunk
	Model string // with Done: what answered, as the endpoint names it
	Usage Usage  // with Done
}

// Usage counts the tokens of a call, as the provider reports them.
type Usage struct {
	Input  int `json:"input,omitempty"`
	Cached int `json:"cached,omitempty"` // part of Input that came from the provider's cache
	Output int `json:"output,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Cached: u.Cached + v.Cached, Output: u.Output + v.Output}
}
