package llmtest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Answer is a scripted client's answer to one request.
type Answer struct {
	// Text is streamed in one chunk, followed by each of Pieces in a chunk of its own.
	Text   string
	Pieces []string
	// Err ends the answer after the text. Without it a chunk with Done, Model and Usage follows.
	Err   error
	Model string // "" is "scripted"
	Usage llm.Usage
	// Cut ends the answer without a Done chunk, like a broken connection.
	Cut bool
	// Hold, unless nil, is waited for after the first chunk, or at the beginning when there is no text. The wait also ends with the context.
	Hold <-chan struct{}
	// Func, unless nil, provides the answer instead. It is called without locks and may block.
	Func func(ctx context.Context, r *llm.Request) Answer
}

// Text returns an Answer with text.
func Text(text string) Answer { return Answer{Text: text} }

// Fail returns an Answer with an error.
func Fail(err error) Answer { return Answer{Err: err} }

// Func returns an Answer that depends on the request.
func Func(f func(ctx context.Context, r *llm.Request) Answer) Answer { return Answer{Func: f} }

// Client is an [llm.Client] that answers from a script. It is safe for concurrent use: each request gets the next answer.
type Client struct {
	mu       sync.Mutex
	script   []Answer
	requests []*llm.Request
}

var _ llm.Client = (*Client)(nil)

// Script returns a client with these answers, in this order. A request after the last one fails.
func Script(answers ...Answer) *Client { return &Client{script: slices.Clone(answers)} }

// Requests returns the requests made so far, in order.
func (c *Client) Requests() []*llm.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Generate implements [llm.Client].
func (c *Client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		a := c.next(r)
		if a.Func != nil {
			a = a.Func(ctx, r)
		}
		pieces := slices.DeleteFunc(append([]string{a.Text}, a.Pieces...), func(s string) bool { return s == "" })
		for i, piece := range pieces {
			if i == 1 {
				wait(ctx, a.Hold)
			}
			if ctx.Err() != nil {
				break
			}
			if !yield(llm.Chunk{Text: piece}, nil) {
				return
			}
		}
		if len(pieces) < 2 {
			wait(ctx, a.Hold)
		}
		switch err := ctx.Err(); {
		case err != nil:
			yield(llm.Chunk{}, err)
		case a.Err != nil:
			yield(llm.Chunk{}, a.Err)
		case !a.Cut:
			yield(llm.Chunk{Done: true, Model: cmp.Or(a.Model, "scripted"), Usage: a.Usage}, nil)
		}
	}
}

func wait(ctx context.Context, hold <-chan struct{}) {
	if hold == nil {
		return
	}
	select {
	case <-hold:
	case <-ctx.Done():
	}
}

func (c *Client) next(r *llm.Request) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := *r // a copy: the caller may modify the request later
	kept.Messages = slices.Clone(r.Messages)
	kept.Schema = slices.Clone(r.Schema)
	c.requests = append(c.requests, &kept)
	if len(c.requests) > len(c.script) {
		return Fail(fmt.Errorf("llmtest: request %d, but the script has %d answers", len(c.requests), len(c.script)))
	}
	return c.script[len(c.requests)-1]
}
