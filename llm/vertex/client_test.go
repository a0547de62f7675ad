package vertex_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// each runs f over both transports.
func each(t *testing.T, f func(t *testing.T, rest bool)) {
	for _, rest := range []bool{false, true} {
		t.Run(map[bool]string{false: "grpc", true: "rest"}[rest], func(t *testing.T) { f(t, rest) })
	}
}

// patience bounds each wait.
const patience = time.Minute

// raw returns a client of an HTTP server without TLS that answers with h.
func raw(t *testing.T, h http.HandlerFunc) llm.Client {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return dialPlain(t, config(true, s.URL))
}

// says returns a handler that answers with body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, body)
	}
}

func TestPlaintext(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		keys := make(chan string, 1)
		s := serve(t, rest, func(c *llmtest.Call) *llmtest.Reply {
			keys <- c.Key
			return &llmtest.Reply{Pieces: []string{"Hello."}}
		}, false)
		if text, _, err := ask(t.Context(), dialPlain(t, config(rest, s.Addr)), request("hi")); text != "Hello." || err != nil {
			t.Errorf("Generate = %q, %v, want Hello.", text, err)
		}
		if key := <-keys; key != "" {
			t.Errorf("the server got the key %q, want none", key)
		}
	})
}

// TestSignatures checks that a model's signatures are sent back with the history, in the same conversation and for the same text only.
func TestSignatures(t *testing.T) {
	const answer = "Hello, you."
	history := func(key, said string) *llm.Request {
		return &llm.Request{CacheKey: key, Messages: []llm.Message{
			llm.User("hi"), llm.Assistant(said), llm.User("how are you?"),
		}}
	}
	tests := []struct {
		name        string
		first, next *llm.Request
		mode        llm.Structured
		want        int
	}{
		{"same", &llm.Request{CacheKey: "c1"}, history("c1", answer), "", 1},
		{"other conversation", &llm.Request{CacheKey: "c1"}, history("c2", answer), "", 0},
		{"other text", &llm.Request{CacheKey: "c1"}, history("c1", answer+"!"), "", 0},
		{"no conversation", &llm.Request{}, history("", answer), "", 0},
		{"function call", &llm.Request{CacheKey: "c1", Schema: llm.DecisionSchema(&llm.Turn{})}, history("c1", `{"kind":"respond"}`), llm.StructuredTools, 0},
	}
	each(t, func(t *testing.T, rest bool) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := serve(t, rest, func(c *llmtest.Call) *llmtest.Reply {
					if c.Mode == llm.StructuredTools {
						return &llmtest.Reply{Pieces: []string{`{"kind":"respond"}`}}
					}
					return &llmtest.Reply{Pieces: []string{"Hello, ", "you."}}
				}, false)
				cfg := config(rest, s.Addr)
				cfg.Structured = test.mode
				c := dialPlain(t, cfg)
				first := *test.first
				first.Messages = []llm.Message{llm.User("hi")}
				for _, r := range []*llm.Request{&first, test.next} {
					if _, _, err := ask(t.Context(), c, r); err != nil {
						t.Fatal(err)
					}
				}
				if got := s.Signed(); got != test.want {
					t.Errorf("%d signatures came back, want %d", got, test.want)
				}
			})
		}
	})
}

// TestMessages checks that turns alternate, and that texts are neither empty nor invalid UTF-8, all of which the endpoint rejects.
func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		calls := make(chan *llmtest.Call, 1)
		s := serve(t, rest, func(c *llmtest.Call) *llmtest.Reply {
			calls <- c
			return &llmtest.Reply{Pieces: []string{"ok"}}
		}, false)
		r := &llm.Request{System: "a\xffb", Messages: []llm.Message{
			llm.User("one"),
			llm.User("t\xc3wo"),
			llm.Assistant("three"),
			llm.Assistant(""),
			llm.User("five"),
			llm.User("six"),
		}}
		if _, _, err := ask(t.Context(), dialPlain(t, config(rest, s.Addr)), r); err != nil {
			t.Fatal(err)
		}
		want := append([]llm.Message(nil), r.Messages...)
		want[1], want[3] = llm.User("t\uFFFDwo"), llm.Assistant("(empty)")
		got := <-calls
		if diff := cmp.Diff(want, got.Messages); diff != "" || got.System != "a\uFFFDb" {
			t.Errorf("the server got the instructions %q and the messages (-want +got):\n%s", got.System, diff)
		}
	})
}

// TestOtherSchema checks that a schema that Google's dialect cannot express is sent unchanged.
func TestOtherSchema(t *testing.T) {
	const other = `{"type":"object","properties":{"n":{"type":"integer","minimum":3}}}`
	each(t, func(t *testing.T, rest bool) {
		for _, mode := range []llm.Structured{llm.StructuredSchema, llm.StructuredTools} {
			calls := make(chan *llmtest.Call, 1)
			s := serve(t, rest, func(c *llmtest.Call) *llmtest.Reply {
				calls <- c
				return &llmtest.Reply{Pieces: []string{`{"n":4}`}}
			}, false)
			cfg := config(rest, s.Addr)
			cfg.Structured = mode
			r := request("hi")
			r.Schema = []byte(other)
			text, _, err := ask(t.Context(), dialPlain(t, cfg), r)
			if err != nil || text != `{"n":4}` {
				t.Fatalf("%s: Generate = %q, %v", mode, text, err)
			}
			got := <-calls
			// The order of the keys is lost, so the schema of a decision is not sent like this.
			if compact := strings.Join(strings.Fields(string(got.Schema)), ""); got.Mode != mode || len(compact) != len(other) || !strings.Contains(compact, `"minimum":3`) {
				t.Errorf("%s: the server was asked for %q with the schema %s", mode, got.Mode, got.Schema)
			}
		}
	})
}

func TestBadRequests(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply {
			t.Error("the server got a call")
			return &llmtest.Reply{}
		}, false)
		c := dialPlain(t, config(rest, s.Addr))
		for name, r := range map[string]*llm.Request{
			"no message":       {},
			"ends with answer": {Messages: []llm.Message{llm.User("a"), llm.Assistant("b")}},
			"no JSON":          {Messages: []llm.Message{llm.User("a")}, Schema: []byte("{")},
		} {
			if _, _, err := ask(t.Context(), c, r); !errors.Is(err, llm.ErrBadRequest) {
				t.Errorf("%s: Generate = %v, want %v", name, err, llm.ErrBadRequest)
			}
		}
	})
}

// TestClose checks that Close ends calls under way, and that later ones end at once.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		hold := make(chan struct{})
		defer close(hold)
		s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"Once "}, Hold: hold} }, false)
		c := dialPlain(t, config(rest, s.Addr))
		first, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			var last error
			for chunk, err := range c.Generate(context.Background(), request("hi")) {
				if chunk.Text != "" {
					close(first)
				}
				last = err
			}
			ended <- last
		}()
		wait(t, first)
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		select {
		case err := <-ended:
			if !errors.Is(err, llm.ErrUnavailable) || errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "closed") {
				t.Errorf("the call under way = %v, want %v because the client was closed", err, llm.ErrUnavailable)
			}
		case <-time.After(patience):
			t.Fatal("the call under way goes on")
		}
		if _, _, err := ask(t.Context(), c, request("hi")); !errors.Is(err, llm.ErrUnavailable) {
			t.Errorf("Generate after Close = %v, want %v", err, llm.ErrUnavailable)
		}
	})
}

func wait(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it does not happen")
	}
}

// TestDialContextEnds checks that the end of Dial's context does not affect calls.
func TestDialContextEnds(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"Hello."}} }, false)
		ctx, cancel := context.WithCancel(t.Context())
		cfg := config(rest, s.Addr)
		cfg.Plaintext = true
		c := must(ctx, t, cfg)
		cancel()
		if _, _, err := ask(t.Context(), c, request("hi")); err != nil {
			t.Errorf("Generate = %v, but only Dial's context has ended", err)
		}
	})
}

// TestPanicOfTheLoop checks that a panic in the caller's loop is not caught.
func TestPanicOfTheLoop(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"Hello."}} }, false)
		c := dialPlain(t, config(rest, s.Addr))
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v, want the caller's own panic", p)
			}
		}()
		for range c.Generate(t.Context(), request("hi")) {
			panic("mine")
		}
	})
}

// TestRedirectIsNotFollowed checks that the token is not sent to the target of a redirect.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	c := raw(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	var failed *llm.Error
	if _, _, err := ask(t.Context(), c, request("hi")); !errors.As(err, &failed) || failed.Status != http.StatusTemporaryRedirect {
		t.Errorf("Generate = %v, want status 307", err)
	}
}

func TestPath(t *testing.T) {
	paths := make(chan string, 1)
	c := raw(t, func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path })
	_, _, _ = ask(t.Context(), c, request("hi"))
	const want = "/v1beta1/projects/p/locations/global/publishers/google/models/test-model:streamGenerateContent"
	if got := <-paths; got != want {
		t.Errorf("the client asked for %s, want %s", got, want)
	}
}
