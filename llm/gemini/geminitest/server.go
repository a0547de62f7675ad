package geminitest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// Serve starts a server that answers each call with the reply of h, at the URLs of both the Gemini API and Vertex AI, below the server's URL, and lists
// [llmtest.Model] at that of the Gemini API. It ends with the test.
//
// It rejects requests that Google would reject: without a key, with another method, or with an unknown field. See [Shapes] for the errors of a
// [llmtest.Fault].
func Serve(t testing.TB, h llmtest.Handler) *httptest.Server {
	return llmtest.Serve(t, server{h})
}

type server struct{ h llmtest.Handler }

var (
	geminiPath = regexp.MustCompile(`^/v1(?:beta)?/models/([^/:]+):(\w+)$`)
	vertexPath = regexp.MustCompile(`^/v1(?:beta1)?/projects/[^/]+/locations/[^/]+/publishers/google/models/([^/:]+):(\w+)$`)
)

// maxRequest bounds the body of a request, in bytes, about as Google does.
const maxRequest = 20 << 20

// ServeHTTP implements [http.Handler].
func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := &llmtest.Call{Key: r.Header.Get("X-Goog-Api-Key"), Gone: r.Context().Done()}
	path := geminiPath.FindStringSubmatch(r.URL.Path)
	noKey := &llmtest.Fault{Status: http.StatusForbidden, Message: "Method doesn't allow unregistered callers. Please use API Key or other form of API consumer identity to call this API."}
	if path == nil {
		path = vertexPath.FindStringSubmatch(r.URL.Path)
		call.Key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		noKey = &llmtest.Fault{Status: http.StatusUnauthorized, Message: "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other valid authentication credential."}
	}
	if r.Method == http.MethodGet && r.URL.Path == "/v1beta/models" {
		if call.Key = r.Header.Get("X-Goog-Api-Key"); call.Key == "" {
			fail(w, &llmtest.Fault{Status: http.StatusForbidden, Message: noKey.Message}, call)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"models":[{"name":"models/%s","supportedGenerationMethods":["generateContent","countTokens"]},{"name":"models/embedding","supportedGenerationMethods":["embedContent"]}]}`, llmtest.Model)
		return
	}
	switch {
	case path == nil || path[2] != "streamGenerateContent" || r.URL.Query().Get("alt") != "sse":
		http.Error(w, "<!DOCTYPE html>\n<title>Error 404 (Not Found)!!1</title>\n<p>The requested URL was not found on this server.", http.StatusNotFound)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case call.Key == "":
		fail(w, noKey, call)
		return
	}
	call.Model, call.Stream = path[1], true
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, &llmtest.Fault{Status: http.StatusBadRequest, Message: fmt.Sprintf("Request payload size exceeds the limit: %d bytes.", maxRequest)}, call)
		return
	}
	if refusal := decode(body, call); refusal != "" {
		fail(w, &llmtest.Fault{Status: http.StatusBadRequest, Message: refusal}, call)
		return
	}
	say(w, call, s.h(call))
}
