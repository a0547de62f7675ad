package gemini_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/gemini"
)

const key = "AIzaSy-not-a-real-key-0123456789"

// endpoint is a transport that answers in place of the server.
type endpoint func(*http.Request) (*http.Response, error)

func (f endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f(r)
	if err == nil && response.Request == nil {
		response.Request = r
	}
	return response, err
}

// says answers every call with a body.
func says(status int, header http.Header, body io.Reader) endpoint {
	return func(*http.Request) (*http.Response, error) {
		if header == nil {
			header = http.Header{}
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}, nil
	}
}

// asking returns a client of e for the Gemini API, with a key.
func asking(t testing.TB, e endpoint, change ...func(*gemini.Config)) *gemini.Client {
	t.Helper()
	cfg := gemini.Config{Model: "m", Key: key, HTTPClient: &http.Client{Transport: e}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := gemini.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hello() *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{llm.User("hello")}}
}

// ask returns the text, and the last chunk or the error.
func ask(ctx context.Context, c llm.Client, r *llm.Request) (text string, done llm.Chunk, err error) {
	var b strings.Builder
	for chunk, err := range c.Generate(ctx, r) {
		if err != nil {
			return b.String(), done, err
		}
		b.WriteString(chunk.Text)
		done = chunk
	}
	return b.String(), done, nil
}

// asError checks that err is an error of the kind, and returns it.
func asError(t *testing.T, err, kind error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Fatalf("error %v, want an *llm.Error that is %v", err, kind)
	}
	return e
}

// part returns an event with text; end is the event that ends an answer.
func part(text string) string {
	return `data: {"candidates":[{"content":{"parts":[{"text":"` + text + `"}],"role":"model"}}]}` + "\n\n"
}

const end = `data: {"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"m-1"}` + "\n\n"
