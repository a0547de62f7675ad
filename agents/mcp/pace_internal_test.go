package mcp

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// chatter is a connection to a program that says something without a pause.
type chatter struct{ sdk.Connection }

func (chatter) Read(context.Context) (jsonrpc.Message, error) {
	return &jsonrpc.Request{Method: "notifications/progress"}, nil
}

// TestMessagesArePaced has a server that says something without a pause, as a program and at an address: what it says first is read at once, and then at the
// pace.
func TestMessagesArePaced(t *testing.T) {
	const wait = 3 * time.Second
	const messages = messagesAtOnce + messagesPerSecond*int(wait/time.Second)
	tests := map[string]func(ctx context.Context) error{
		"program": func(ctx context.Context) error {
			c := &owed{Connection: chatter{}, pace: newPace()}
			for range messages {
				if _, err := c.Read(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, event := range map[string]string{"address": "data: {}\n\n", "empty events": "\n", "comments": ":\r\n\r\n"} {
		tests[name] = func(ctx context.Context) error {
			said := io.NopCloser(strings.NewReader(strings.Repeat(event, messages)))
			_, err := io.Copy(io.Discard, &bounded{ReadCloser: said, most: math.MaxInt64 - 1, scale: scale{events: true}, pace: newPace(), ctx: ctx})
			return err
		}
	}
	tests["skipped lines"] = func(ctx context.Context) error {
		said := io.NopCloser(strings.NewReader(strings.Repeat("words\n", messages)))
		_, err := io.Copy(io.Discard, newFrames(said, inLines, func(string, int) {}))
		return errors.Join(err, ctx.Err())
	}
	for name, read := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := read(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began).Round(100 * time.Millisecond); took != wait {
					t.Errorf("%d messages were read in %v, want %v", messages, took, wait)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if read(ctx) == nil {
					t.Error("the end of the request does not end the wait")
				}
			})
		})
	}
}

// answering is a server that ends each stream at once.
type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: http.NoBody}, nil
}

// TestStreamsArePaced has a server that ends each stream at once, and wants the next one at once.
func TestStreamsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 3 * time.Second
		home, err := url.Parse("https://example.com/mcp")
		if err != nil {
			t.Fatal(err)
		}
		x := newExchange(home, answering{})
		began := time.Now()
		for range streamsAtOnce + streamsPerSecond*int(wait/time.Second) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, home.String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := x.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		if took := time.Since(began).Round(100 * time.Millisecond); took != wait {
			t.Errorf("the streams were opened in %v, want %v", took, wait)
		}
	})
}
