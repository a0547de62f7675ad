package gemini

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/internal/google"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
	"github.com/cortex-orchestrator/cortex/llm/internal/sse"
)

// exchange is the transport's data about one call. The transport and the response's body write it, both in the goroutine that makes the call.
type exchange struct {
	sent   bool          // the request was sent
	status int           // of the response; 0 without one
	header http.Header   // of the response
	token  string        // with which the request was authorized
	fault  *google.Fault // the endpoint's error
	stream *sse.Stream   // of a response that is an answer

	arguments     string // of the first function call
	finishMessage string // the message with the finish reason
}

type exchangeKey struct{}

// transport stores what the SDK discards in the exchange, a value of the request's context, and converts responses for the SDK.
type transport struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := cmp.Or(t.base, http.DefaultTransport)
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return base.RoundTrip(r)
	}
	x.sent = true
	response, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.status, x.header = response.StatusCode, response.Header
	if response.Request != nil { // the request that was finally sent
		_, x.token, _ = strings.Cut(response.Request.Header.Get("Authorization"), " ")
	}
	if x.status >= 200 && x.status < 300 {
		x.stream = sse.NewStream(long.Body(r.Context(), response.Body), x)
		response.Body = x.stream
		return response, nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, google.MaxFault))
	_ = response.Body.Close()
	x.fault = google.FaultOf(body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}
