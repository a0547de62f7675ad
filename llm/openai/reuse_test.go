package openai_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestConnectionIsKept holds that the next call goes over the connection of the last, where the server takes a moment to end
// its response; and that a server which never ends it is not waited for.
func TestConnectionIsKept(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration // behind the last word
		kept  bool
	}{{"a moment", 5 * time.Millisecond, true}, {"for ever", time.Hour, false}} {
		t.Run(tt.name, func(t *testing.T) {
			var connections atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, stream(delta(`{"content":"Hello."}`), end("stop")))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(tt.pause):
				}
			}))
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					connections.Add(1)
				}
			}
			server.Start()
			defer server.Close()
			c := newClient(t, openai.Config{BaseURL: server.URL + "/v1"})
			calls := int32(0)
			for calls < 3 || tt.kept && connections.Load() == calls && calls < 50 { // on a busy machine the moment may be longer than it is waited for
				if res := generate(t, c, hi()); res.err != nil || res.text != "Hello." {
					t.Fatalf("Generate = %+v", res)
				}
				calls++
			}
			if n := connections.Load(); n < calls != tt.kept {
				t.Errorf("%d connections for %d calls, want fewer: %v", n, calls, tt.kept)
			}
		})
	}
}

// open is a body that waits behind its text until it is closed, as that of a connection which never ends.
type open struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func (b *open) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, http.ErrBodyReadAfterClose
}

func (b *open) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// TestCompleteAnswersDoNotWait holds that a complete answer is used although its connection never ends, whatever is missing behind it. The call would never
// end, which the bubble reports.
func TestCompleteAnswersDoNotWait(t *testing.T) {
	const (
		hello   = `{"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]}`
		usage   = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}`
		message = `{"choices":[{"index":0,"message":{"content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`
	)
	for _, tt := range []struct{ name, api, body string }{
		{"a stream", "chat", stream(hello, usage)},
		{"no line end behind [DONE]", "chat", strings.TrimRight(stream(hello, usage), "\n")},
		{"no [DONE]", "chat", "data: " + hello + "\n\ndata: " + usage + "\n\n"},
		{"JSON", "chat", message},
		{"JSON and a line end", "chat", message + "\n"},
		{"JSON of the Responses API", "responses", `{"object":"response","status":"completed","output":[{"type":"message",` +
			`"content":[{"type":"output_text","text":"Hello."}]}],"usage":{"input_tokens":10,"output_tokens":2}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, openai.Config{BaseURL: "http://endpoint.test/v1", API: tt.api, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					body := &open{Reader: strings.NewReader(tt.body), closed: make(chan struct{})}
					return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
				})}})
				if res := generate(t, c, hi()); res.err != nil || res.text != "Hello." || res.done.Usage != (llm.Usage{Input: 10, Output: 2}) {
					t.Errorf("Generate = %+v", res)
				}
			})
		})
	}
}

// TestNestedError holds that of a large error in a stream no more than the beginning is looked at: lists in lists of texts
// would be joined once for each level.
func TestNestedError(t *testing.T) {
	const depth = 300
	frame := `{"error":` + strings.Repeat(`{"message":["b",`, depth) + `"` + strings.Repeat("a", 1<<20) + `"` + strings.Repeat(`]}`, depth) + `}`
	e := failure(t, generate(t, newClient(t, openai.Config{BaseURL: raw(t, 200, nil, stream(frame))}), hi()), llm.ErrUnavailable)
	if len(e.Message) > 300 {
		t.Errorf("the error says %d bytes: %.80s", len(e.Message), e.Message)
	}
}
