package vertex_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"cloud.google.com/go/auth"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/vertex"
	"github.com/cortex-orchestrator/cortex/llm/vertex/vertextest"
)

// token is a provider that always returns the same token.
type token string

func (t token) Token(context.Context) (*auth.Token, error) { return &auth.Token{Value: string(t)}, nil }

// serve starts a server of either protocol.
func serve(t testing.TB, rest bool, h llmtest.Handler, secure bool) *vertextest.Server {
	t.Helper()
	if rest {
		return vertextest.ServeREST(t, h, secure)
	}
	return vertextest.ServeGRPC(t, h, secure)
}

func config(rest bool, addr string) vertex.Config {
	return vertex.Config{Project: "p", Model: llmtest.Model, Endpoint: addr, REST: rest}
}

// dialToken returns a client that sends a token to a server with TLS.
func dialToken(t testing.TB, cfg vertex.Config, s *vertextest.Server, p auth.TokenProvider) *vertex.Client {
	t.Helper()
	c, err := vertex.DialToken(t.Context(), cfg, p, &tls.Config{RootCAs: s.Roots, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

// dialPlain returns a client of a server without TLS.
func dialPlain(t testing.TB, cfg vertex.Config) *vertex.Client {
	t.Helper()
	cfg.Plaintext = true
	c, err := vertex.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

func closed(t testing.TB, c *vertex.Client) {
	t.Helper()
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

// wire returns a Wire for a client and a server with TLS and a token.
func wire(rest bool, lacks ...llmtest.Feature) llmtest.Wire {
	return llmtest.Wire{
		Dial: func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			s := serve(t, rest, h, true)
			cfg := config(rest, s.Addr)
			cfg.Structured, cfg.Images = o.Mode, o.Images
			return dialToken(t, cfg, s, token(o.Key))
		},
		Down: func(t *testing.T, o llmtest.Options) llm.Client {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(rest, l.Addr().String())
			l.Close()
			cfg.Structured = o.Mode
			return dialPlain(t, cfg)
		},
		Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt},
		Lacks: append(lacks, llmtest.NoCacheKey, llmtest.NoRefusal, llmtest.NoReset, llmtest.NoFragments),
	}
}

func TestGRPC(t *testing.T) {
	llmtest.Run(t, wire(false, llmtest.NoRetryAfter, llmtest.NoStatus, llmtest.NoCutFrame, llmtest.NoGarbage))
}

func TestREST(t *testing.T) { llmtest.Run(t, wire(true)) }

// ask makes a call and returns its results.
func ask(ctx context.Context, c llm.Client, r *llm.Request) (text string, done llm.Chunk, err error) {
	var b strings.Builder
	for chunk, err := range c.Generate(ctx, r) {
		if err != nil {
			return b.String(), done, err
		}
		b.WriteString(chunk.Text)
		if chunk.Done {
			done = chunk
		}
	}
	return b.String(), done, nil
}

func request(text string) *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User(text)}}
}
