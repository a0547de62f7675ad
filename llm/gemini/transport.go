package gemini

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// exchange is what the transport sees of one call. It is written by the transport and the body that it returns, and both are
// used by the goroutine that makes the call.
type exchange struct {
	sent   bool          // the request went out
	status int           // of the response; 0 without one
	header http.Header   // of the response
	token  string        // that the request was authorized with
	fault  *google.Fault // what the endpoint says went wrong
	err    error         // why the body could not be read to its end

	arguments     string // of the first function call
	finishMessage string // the words to the finish reason
}

type exchangeKey struct{}

// transport keeps what the SDK throws away, in the exchange that is a value of the request's context, and gives the SDK what
// it can read.
type transport struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
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
	if response.Request != nil { // the one that was sent in the end
		_, x.token, _ = strings.Cut(response.Request.Header.Get("Authorization"), " ")
	}
	if x.status >= 200 && x.status < 300 {
		response.Body = newEvents(response.Body, x)
		return response, nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, google.MaxFault))
	_ = response.Body.Close()
	x.fault = google.FaultOf(body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}
