package llmtest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// brokenClients are clients that break a promise, each with the case that must fail, and its message.
var brokenClients = []struct {
	name, fails, says string
	broken            func(llmtest.Wire) llmtest.Wire
}{
	{"no Done", "text/plain", "0 chunks with Done", chunks(func(c llm.Chunk, err error, yield yield) bool {
		return c.Done || yield(c, err)
	})},
	{"two Done", "text/plain", "1 chunks behind the end", chunks(func(c llm.Chunk, err error, yield yield) bool {
		return yield(c, err) && (!c.Done || yield(c, err))
	})},
	{"text behind Done", "text/plain", "1 chunks behind the end", chunks(func(c llm.Chunk, err error, yield yield) bool {
		return yield(c, err) && (!c.Done || yield(llm.Chunk{Text: "Bye."}, nil))
	})},
	{"spaces trimmed", "text/small pieces", "want", chunks(func(c llm.Chunk, err error, yield yield) bool {
		c.Text = strings.TrimSpace(c.Text)
		return yield(c, err)
	})},
	{"Latin alone", "text/odd characters", "want", chunks(func(c llm.Chunk, err error, yield yield) bool {
		c.Text = strings.ToValidUTF8(strings.Map(func(r rune) rune { return min(r, 255) }, c.Text), "")
		return yield(c, err)
	})},
	{"64 KiB at most", "text/big piece", "want", chunks(func(c llm.Chunk, err error, yield yield) bool {
		c.Text = c.Text[:min(len(c.Text), 1<<16)]
		return yield(c, err)
	})},
	{"not streamed", "text/streamed", "the first piece does not come", together},
	{"not streamed in a mode", "structured/streamed json_schema", "the first piece does not come", together},
	{"model as asked for", "text/model and usage", "the last chunk", chunks(func(c llm.Chunk, err error, yield yield) bool {
		if c.Done {
			c.Model = llmtest.Model
		}
		return yield(c, err)
	})},
	{"no cached tokens", "text/model and usage", "the last chunk", chunks(func(c llm.Chunk, err error, yield yield) bool {
		c.Usage.Cached = 0
		return yield(c, err)
	})},
	{"thoughts are text", "text/thoughts", "want", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		r.Pieces = append([]string{r.Thoughts}, r.Pieces...)
	})},

	{"waits for the connection", "text/connection that never ends", "the iteration does not end", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		if r.Stays {
			r.Hold = make(chan struct{})
		}
	})},
	{"silent while it thinks", "text/alive while it thinks", "no chunk says that it is alive", silent},
	{"silent in a mode", "structured/alive json_object", "no chunk says that it is alive", silent},
	{"silent before the call", "structured/alive before the call", "no chunk says that it is alive", silent},
	{"alive when it is too late", "text/alive while it thinks", "no chunk says that it is alive", chunks(func(c llm.Chunk, err error, yield yield) bool {
		if c.Text != "" {
			_ = yield(llm.Chunk{}, nil)
		} else if err == nil && !c.Done {
			return true
		}
		return yield(c, err)
	})},

	{"one system message", "request/conversation", "the server got the messages", asking(func(c *llmtest.Call) {
		c.Messages = append([]llm.Message{llm.User(c.System)}, c.Messages...)
	})},
	{"all said by the user", "request/conversation", "the server got the messages", asking(func(c *llmtest.Call) {
		for i := range c.Messages {
			c.Messages[i].Role = llm.RoleUser
		}
	})},
	{"empty messages left out", "request/empty messages", "the server got 3 messages, want 5", asking(func(c *llmtest.Call) {
		c.Messages = slices.DeleteFunc(c.Messages, func(m llm.Message) bool { return m.Text() == "" })
	})},
	{"images dropped", "request/images", "the server got the parts", asking(func(c *llmtest.Call) {
		for i := range c.Messages {
			c.Messages[i].Parts = slices.DeleteFunc(c.Messages[i].Parts, func(p llm.Part) bool { return p.Image != nil })
		}
	})},
	{"images not named", "request/images left out", "the server got the parts", asking(func(c *llmtest.Call) {
		for i, m := range c.Messages {
			if head, _, ok := strings.Cut(m.Text(), "\n[image"); ok {
				c.Messages[i] = llm.User(head)
			}
		}
	})},
	{"no key", "request/key", "the server got the key", asking(func(c *llmtest.Call) { c.Key = "" })},
	{"no token limit", "request/token limit", "the server got the token limit", asking(func(c *llmtest.Call) { c.MaxTokens = 0 })},
	{"temperature 0 left out", "request/temperature", "the server got no temperature", asking(func(c *llmtest.Call) {
		if c.Temperature != nil && *c.Temperature == 0 {
			c.Temperature = nil
		}
	})},
	{"temperature invented", "request/temperature", "without a temperature the server got 0.2", asking(func(c *llmtest.Call) {
		if t := 0.2; c.Temperature == nil {
			c.Temperature = &t
		}
	})},
	{"no cache key", "request/cache key", "the server got the cache key", asking(func(c *llmtest.Call) { c.CacheKey = "" })},
	{"always JSON", "request/free text", "without a schema", asking(func(c *llmtest.Call) { c.Mode = llm.StructuredObject })},
	{"request changed", "request/not changed", "the client changed the request", calls(func(r *llm.Request) { r.System = "" })},
	{"request appended to", "request/not changed", "the client changed the request", calls(func(r *llm.Request) {
		_ = append(r.Messages, llm.User("x"))
	})},

	{"no schema", "structured/schema json_schema", "the server got the schema", asking(func(c *llmtest.Call) { c.Schema = nil })},
	{"properties sorted", "structured/schema tools", "the server got another schema", asking(func(c *llmtest.Call) {
		var schema map[string]any
		if json.Unmarshal(c.Schema, &schema) == nil {
			c.Schema, _ = json.Marshal(schema)
		}
	})},
	{"the wrong mode", "structured/schema json_object", "the server was asked for the mode", asking(func(c *llmtest.Call) {
		c.Mode = llm.StructuredSchema
	})},
	{"text before the call kept", "structured/text before the call", "want", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		r.Pieces = append([]string{r.Before}, r.Pieces...)
	})},
	{"all calls joined", "structured/second call", "want", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		r.Pieces = append(slices.Clone(r.Pieces), r.Second)
	})},
	{"calls alone", "structured/no call", "want", replying(func(_ *llmtest.Call, r *llmtest.Reply) { r.Before = "" })},

	{"length taken for the end", "finish/length", "want the error", ends(llm.ErrLength, llm.Chunk{Done: true}, nil)},
	{"filter taken for the end", "finish/filtered", "want the error", ends(llm.ErrRefused, llm.Chunk{Done: true}, nil)},
	{"usage of failures lost", "finish/length", "the error has the usage", failures(func(e *llm.Error) error {
		e.Usage = llm.Usage{}
		return e
	})},
	{"usage of nothing lost", "finish/empty", "the error has the usage", unspent(llm.ErrEmpty)},
	{"usage of thoughts lost", "finish/thoughts alone", "the error has the usage", unspent(llm.ErrEmpty)},
	{"usage of a cut answer lost", "cut/usage", "the error has the usage", unspent(llm.ErrTruncated)},
	{"usage before an error lost", "errors/usage after pieces", "the error has the usage", unspent(llm.ErrUnavailable)},
	{"refusal is text", "finish/refused", "want the error", replying(func(_ *llmtest.Call, r *llmtest.Reply) { r.Finish = llmtest.Stop })},
	{"refusal without words", "finish/refused", "want the model's words", failures(func(e *llm.Error) error {
		e.Message = ""
		return e
	})},
	{"empty taken for an answer", "finish/empty", "want the error", ends(llm.ErrEmpty, llm.Chunk{Done: true}, nil)},
	{"empty taken for cut", "finish/nothing", "want the error", ends(llm.ErrEmpty, llm.Chunk{}, llm.ErrTruncated)},
	{"unknown ends are errors", "finish/never seen", "want", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		r.Cut = r.Finish == llmtest.NeverSeen
	})},

	{"cut taken for the end", "cut/with pieces", "want the error", ends(llm.ErrTruncated, llm.Chunk{Done: true}, nil)},
	{"cut taken for empty", "cut/without pieces", "want the error", ends(llm.ErrTruncated, llm.Chunk{}, llm.ErrEmpty)},
	{"pieces lost in an error", "cut/with pieces", "before the cut came", together},

	{"all is unavailable", "errors/status 429", "want the error", kindOf(llm.ErrRateLimited, llm.ErrUnavailable)},
	{"quota is a rate limit", "errors/quota", "want the error", kindOf(llm.ErrQuota, llm.ErrRateLimited)},
	{"two kinds", "errors/quota", "is of the kinds", failures(func(e *llm.Error) error {
		return fmt.Errorf("%w: %w", llm.ErrRateLimited, e)
	})},
	{"not an Error", "errors/status 500", "want an *llm.Error", failures(func(e *llm.Error) error { return fmt.Errorf("ask: %w", e.Kind) })},
	{"no provider", "errors/status 500", "the error has Provider", failures(func(e *llm.Error) error {
		e.Provider = ""
		return e
	})},
	{"no status", "errors/status 401", "the error has the status 0", failures(func(e *llm.Error) error {
		e.Status = 0
		return e
	})},
	{"no message", "errors/status 400", "the error has the message", failures(func(e *llm.Error) error {
		e.Message = ""
		return e
	})},
	{"the whole body shown", "errors/status 502", "no clean line", failures(func(e *llm.Error) error { return fmt.Errorf("%w\n<html>", e) })},
	{"a deadline of the server's", "errors/status 504", "is that of a context", failures(func(e *llm.Error) error {
		e.Err = context.DeadlineExceeded
		return e
	})},
	{"tries again", "errors/status 503", "the server got 2 calls", again},
	{"tries a cut answer again", "cut/with pieces", "the server got 2 calls", again},
	{"RetryAfter invented", "errors/status 503", "but the endpoint said none", failures(func(e *llm.Error) error {
		e.RetryAfter = time.Second
		return e
	})},
	{"error in mid-stream taken for a cut", "errors/unavailable after pieces", "want the error", kindOf(llm.ErrUnavailable, llm.ErrTruncated)},
	{"dead after an error", "errors/usable after an error", "want \"Hello.\"", once},
	{"RetryAfter in whole seconds", "retry after/millis", "RetryAfter = 1s", failures(func(e *llm.Error) error {
		e.RetryAfter = e.RetryAfter.Truncate(time.Second)
		return e
	})},

	{"tokens are not waited for", "retry after/reset of tokens", "RetryAfter = 0s", failures(func(e *llm.Error) error {
		e.RetryAfter = 0
		return e
	})},

	{"page taken for an answer", "garbage/page", "want the error", ends(llm.ErrUnavailable, llm.Chunk{Text: "<html>", Done: true}, nil)},
	{"panics", "garbage/array", "the client panics: not an object", failures(func(*llm.Error) error { panic("not an object") })},
	{"no bound", "garbage/endless", "the iteration does not end", replying(func(c *llmtest.Call, r *llmtest.Reply) {
		if r.Endless {
			r.Hold = c.Gone
		}
	})},

	{"no bound of the whole", "garbage/flood", "want the error", replying(func(_ *llmtest.Call, r *llmtest.Reply) {
		r.Pieces = r.Pieces[:min(len(r.Pieces), 3)]
	})},

	{"deaf", "end/canceled in mid-stream", "the iteration does not end", detached},
	{"deaf before the head", "end/canceled before the head", "the iteration does not end", detached},
	{"deaf to deadlines", "end/deadline before the head", "the iteration does not end", detached},
	{"canceled taken for unavailable", "end/canceled by the reader", "want the error", ends(context.Canceled, llm.Chunk{}, llm.ErrUnavailable)},
	{"canceled without a word", "end/canceled in mid-stream", "want the error", ends(context.Canceled, llm.Chunk{Text: "."}, nil)},
	{"asks though canceled", "end/canceled before the call", "the server got 1 calls", func(w llmtest.Wire) llmtest.Wire {
		return client(w, func(c llm.Client) generate {
			return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
				for range c.Generate(context.WithoutCancel(ctx), r) {
					break
				}
				return c.Generate(ctx, r)
			}
		})
	}},
	{"request goes on", "end/left early", "the request goes on", background},
	{"leaks when left", "goroutines/left early", "goroutines after 10 calls", leaking},
	{"leaks always", "goroutines/complete", "goroutines after 10 calls", leaking},

	{"one at a time", "concurrent/own answers", "the iteration does not end", func(w llmtest.Wire) llmtest.Wire {
		var mu sync.Mutex
		return client(w, func(c llm.Client) generate {
			return func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
				return func(yield func(llm.Chunk, error) bool) {
					mu.Lock()
					defer mu.Unlock()
					c.Generate(ctx, r)(yield)
				}
			}
		})
	}},
	{"answers mixed up", "concurrent/own answers", "want \"you said number", func(w llmtest.Wire) llmtest.Wire {
		var first sync.Once
		var text string
		return asking(func(c *llmtest.Call) {
			first.Do(func() { text = c.Messages[0].Text() })
			c.Messages[0] = llm.User(text)
		})(w)
	}},

	{"ended together", "concurrent/own ends", "context canceled", allEnded},
	{"errors mixed up", "concurrent/own ends", "want that of call", func(w llmtest.Wire) llmtest.Wire {
		var first sync.Once
		var text string
		return failures(func(e *llm.Error) error {
			if errors.Is(e, llm.ErrUnavailable) {
				first.Do(func() { text = e.Message })
				e.Message = text
			}
			return e
		})(w)
	}},

	{"key in the message", "secret/not accepted", "shows the key", failures(func(e *llm.Error) error {
		e.Message = strings.ReplaceAll(e.Message, "[secret]", keyOf(e))
		return e
	})},
	{"key in the cause", "secret/server error", "shows the key", failures(func(e *llm.Error) error {
		e.Err = errors.New("dial: " + keyOf(e))
		return e
	})},
	{"key in a field that is not shown", "secret/bad request", "shows the key", failures(func(e *llm.Error) error {
		e.RequestID = keyOf(e)
		return e
	})},
	{"key of a page", "secret/page", "shows the key", failures(func(e *llm.Error) error {
		return fmt.Errorf("%w: %s", e, keyOf(e))
	})},
	{"key in a field of a cause", "secret/server error", "shows the key", failures(func(e *llm.Error) error {
		e.Err = &opaque{keyOf(e)}
		return e
	})},
	{"key in another form", "secret/as a password", "shows the key", failures(func(e *llm.Error) error {
		e.Message = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(":"+keyOf(e)))
		return e
	})},
	{"key of a query", "secret/in a URL", "shows the key", failures(func(e *llm.Error) error {
		e.Message = "GET /?key=" + url.QueryEscape(keyOf(e))
		return e
	})},
	{"key in JSON", "secret/in JSON", "shows the key", failures(func(e *llm.Error) error {
		e.Message = strconv.Quote(keyOf(e))
		return e
	})},
	{"key sent elsewhere", "secret/redirected", "what another server gets shows the key", replying(func(c *llmtest.Call, r *llmtest.Reply) {
		if r.Error != nil && r.Error.Location != "" {
			if asked, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.Error.Location, http.NoBody); err == nil {
				asked.Header.Set("Authorization", "Bearer "+c.Key)
				if resp, err := http.DefaultClient.Do(asked); err == nil {
					_ = resp.Body.Close()
				}
			}
		}
	})},
	{"key in log", "secret/logged", "the log shows the key", asking(func(c *llmtest.Call) { log.Print("asked with ", c.Key) })},
	{"key in slog", "secret/logged", "the log shows the key", asking(func(c *llmtest.Call) { slog.Debug("asked", "key", c.Key) })},
	{"key on stderr", "secret/logged", "the log shows the key", asking(func(c *llmtest.Call) { fmt.Fprintln(os.Stderr, c.Key) })},
	{"key in the URL", "errors/down", "shows the key", func(w llmtest.Wire) llmtest.Wire {
		down := w.Down
		w.Down = func(t *testing.T, o llmtest.Options) llm.Client {
			return failing(down(t, o), func(e *llm.Error) error {
				e.Message = "GET /?key=" + o.Key
				return e
			})
		}
		return w
	}},
}

// brokenClient is the variable with the name of the client for the suite.
const brokenClient = "LLMTEST_BROKEN_CLIENT"

// TestBrokenClient is run in a separate process by TestSuiteFails; it must fail.
func TestBrokenClient(t *testing.T) {
	for _, b := range brokenClients {
		if b.name == os.Getenv(brokenClient) {
			llmtest.Run(t, llmtest.Impatient(b.broken(wire()), 500*time.Millisecond))
		}
	}
}

func TestSuiteFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokenClients {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			path := strings.ReplaceAll("TestBrokenClient/"+b.fails, " ", "_")
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+strings.ReplaceAll(path, "/", "$/^")+"$", "-test.v")
			cmd.Env = append(os.Environ(), brokenClient+"="+b.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+path+" ") || !strings.Contains(string(out), b.says) {
				t.Errorf("the suite ended with %v, want a failure of %s that says %q:\n%s", err, path, b.says, out)
			}
		})
	}
}
