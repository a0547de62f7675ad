package llmtest_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

type (
	yield    func(llm.Chunk, error) bool
	generate func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error]
)

func (g generate) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return g(ctx, r)
}

// client returns w with a client wrapped by around.
func client(w llmtest.Wire, around func(c llm.Client) generate) llmtest.Wire {
	dial := w.Dial
	w.Dial = func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client { return around(dial(t, h, o)) }
	return w
}

// chunks modifies what a client yields.
func chunks(f func(c llm.Chunk, err error, yield yield) bool) func(llmtest.Wire) llmtest.Wire {
	return func(w llmtest.Wire) llmtest.Wire {
		return client(w, func(c llm.Client) generate {
			return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
				return func(yield func(llm.Chunk, error) bool) {
					for chunk, err := range c.Generate(ctx, r) {
						if !f(chunk, err, yield) {
							return
						}
					}
				}
			}
		})
	}
}

// ends replaces an error by a chunk, or another error.
func ends(of error, c llm.Chunk, err error) func(llmtest.Wire) llmtest.Wire {
	return chunks(func(got llm.Chunk, failed error, yield yield) bool {
		if errors.Is(failed, of) {
			return yield(c, err)
		}
		return yield(got, failed)
	})
}

// failures modifies the errors of a client.
func failures(f func(*llm.Error) error) func(llmtest.Wire) llmtest.Wire {
	return func(w llmtest.Wire) llmtest.Wire {
		return client(w, func(c llm.Client) generate { return failing(c, f) })
	}
}

// failing returns c with modified errors. keyOf returns the key of the errors passed to f.
func failing(c llm.Client, f func(*llm.Error) error) generate {
	return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for chunk, err := range c.Generate(ctx, r) {
				var failed *llm.Error
				if errors.As(err, &failed) {
					if l, ok := c.(*local); ok {
						failed.Code = l.options.Key
					}
					err = f(failed)
					if failed.Code = ""; !yield(chunk, err) {
						return
					}
					continue
				}
				if !yield(chunk, err) {
					return
				}
			}
		}
	}
}

// keyOf returns the key of the client with this error.
func keyOf(e *llm.Error) string { return e.Code }

// kindOf replaces one kind of error by another.
func kindOf(kind, other error) func(llmtest.Wire) llmtest.Wire {
	return failures(func(e *llm.Error) error {
		if errors.Is(e, kind) {
			e.Kind = other
		}
		return e
	})
}

// handled modifies the call that a handler gets, and its reply.
func handled(before func(*llmtest.Call), after func(*llmtest.Call, *llmtest.Reply)) func(llmtest.Wire) llmtest.Wire {
	return func(w llmtest.Wire) llmtest.Wire {
		dial := w.Dial
		w.Dial = func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			return dial(t, func(c *llmtest.Call) *llmtest.Reply {
				before(c)
				reply := *h(c)
				after(c, &reply)
				return &reply
			}, o)
		}
		return w
	}
}

// asking modifies the received request.
func asking(f func(*llmtest.Call)) func(llmtest.Wire) llmtest.Wire {
	return handled(f, func(*llmtest.Call, *llmtest.Reply) {})
}

// replying modifies the reply.
func replying(f func(*llmtest.Call, *llmtest.Reply)) func(llmtest.Wire) llmtest.Wire {
	return handled(func(*llmtest.Call) {}, f)
}

// calls modifies the request that a client gets.
func calls(f func(*llm.Request)) func(llmtest.Wire) llmtest.Wire {
	return func(w llmtest.Wire) llmtest.Wire {
		return client(w, func(c llm.Client) generate {
			return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
				f(r)
				return c.Generate(ctx, r)
			}
		})
	}
}

// together yields all text of an answer in one chunk, and none of one that fails.
func together(w llmtest.Wire) llmtest.Wire {
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				text := ""
				for chunk, err := range c.Generate(ctx, r) {
					if text += chunk.Text; err != nil {
						yield(llm.Chunk{}, err)
						return
					}
					if chunk.Done {
						_ = yield(llm.Chunk{Text: text}, nil) && yield(chunk, nil)
						return
					}
				}
			}
		}
	})
}

// silent yields only chunks with text.
var silent = chunks(func(c llm.Chunk, err error, yield yield) bool {
	return err == nil && c.Text == "" && !c.Done || yield(c, err)
})

// unspent removes the usage from errors of a kind.
func unspent(kind error) func(llmtest.Wire) llmtest.Wire {
	return failures(func(e *llm.Error) error {
		if errors.Is(e, kind) {
			e.Usage = llm.Usage{}
		}
		return e
	})
}

// opaque is an error with a key that its text does not show.
type opaque struct{ key string }

func (*opaque) Error() string { return "no connection" }

// again retries once after every error.
func again(w llmtest.Wire) llmtest.Wire {
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				for chunk, err := range c.Generate(ctx, r) {
					if err != nil {
						for range c.Generate(ctx, r) { // the result is discarded
						}
					}
					if !yield(chunk, err) {
						return
					}
				}
			}
		}
	})
}

// once returns the first error forever.
func once(w llmtest.Wire) llmtest.Wire {
	return client(w, func(c llm.Client) generate {
		var failed error
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				if failed != nil {
					yield(llm.Chunk{}, failed)
					return
				}
				for chunk, err := range c.Generate(ctx, r) {
					if failed = err; !yield(chunk, err) {
						return
					}
				}
			}
		}
	})
}

// allEnded ends all calls when one fails.
func allEnded(w llmtest.Wire) llmtest.Wire {
	var mu sync.Mutex
	var ends []context.CancelFunc
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			ctx, cancel := context.WithCancel(ctx)
			mu.Lock()
			ends = append(ends, cancel)
			mu.Unlock()
			return func(yield func(llm.Chunk, error) bool) {
				for chunk, err := range c.Generate(ctx, r) {
					if err != nil {
						mu.Lock()
						for _, end := range ends {
							end()
						}
						mu.Unlock()
					}
					if !yield(chunk, err) {
						return
					}
				}
			}
		}
	})
}

// detached ignores the context.
func detached(w llmtest.Wire) llmtest.Wire {
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return c.Generate(context.WithoutCancel(ctx), r)
		}
	})
}

// background reads the answer in a goroutine that continues when the loop is left.
func background(w llmtest.Wire) llmtest.Wire {
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				ch := make(chan llm.Chunk, 100)
				go func() {
					defer close(ch)
					for chunk, err := range c.Generate(ctx, r) {
						if err != nil {
							return
						}
						ch <- chunk
					}
				}()
				for chunk := range ch {
					if !yield(chunk, nil) {
						return
					}
				}
			}
		}
	})
}

// leaking leaves a goroutine behind for each call.
func leaking(w llmtest.Wire) llmtest.Wire {
	forever := make(chan struct{})
	return client(w, func(c llm.Client) generate {
		return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				go func() { <-forever }()
				c.Generate(ctx, r)(yield)
			}
		}
	})
}
