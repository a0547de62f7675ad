package anthropictest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Serve starts a server that answers each call with the reply of h. It ends with the test.
//
// It rejects requests that Anthropic would reject: without a key or a version, with another method, with an unknown field, or with a thinking model that
// must call a function.
func Serve(t testing.TB, h llmtest.Handler) *httptest.Server {
	return llmtest.Serve(t, server{h})
}

type server struct{ h llmtest.Handler }

// maxRequest bounds the body of a request, in bytes, as Anthropic does.
const maxRequest = 32 << 20

// ServeHTTP implements [http.Handler].
func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := &llmtest.Call{Key: r.Header.Get("X-Api-Key"), Gone: r.Context().Done()}
	w.Header().Set("Request-Id", "req_anthropictest1")
	switch {
	case r.URL.Path != "/v1/messages" && r.URL.Path != "/v1/models":
		fail(w, &llmtest.Fault{Status: http.StatusNotFound, Message: "Not found"}, call)
		return
	case r.Method != http.MethodPost && r.URL.Path == "/v1/messages":
		fail(w, &llmtest.Fault{Status: http.StatusMethodNotAllowed, Message: "Method Not Allowed"}, call)
		return
	case call.Key == "":
		fail(w, &llmtest.Fault{Status: http.StatusUnauthorized, Message: "x-api-key header is required"}, call)
		return
	case r.Header.Get("Anthropic-Version") == "":
		fail(w, &llmtest.Fault{Status: http.StatusBadRequest, Message: "anthropic-version: header is required"}, call)
		return
	case r.URL.Path == "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"data":[{"type":"model","id":%q,"display_name":"Test"}],"has_more":false}`, llmtest.Model)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, &llmtest.Fault{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("Request exceeds the maximum size of %d bytes", maxRequest)}, call)
		return
	}
	if refusal := decode(body, call); refusal != "" {
		fail(w, &llmtest.Fault{Status: http.StatusBadRequest, Message: refusal}, call)
		return
	}
	say(w, call, s.h(call))
}
