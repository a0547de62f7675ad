package anthropic

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
	"github.com/cortex-orchestrator/cortex/llm/internal/sse"
)

// maxFault bounds how much of an error's body is read, in bytes.
const maxFault = 64 << 10

// exchange is what a call keeps of its request and its response, which the SDK discards. It is used in the goroutine that makes the call.
type exchange struct {
	sent   bool        // the request was sent
	header http.Header // of the response
	failed *llm.Error  // the endpoint's error, or why there was no response
	stream *sse.Stream // of a response that is an answer
}

// send is the SDK's middleware: the SDK gets only answers, in events that it can read.
func (x *exchange) send(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	x.sent = true
	response, err := next(r)
	if err != nil {
		x.failed = endpoint.NetworkError(err, r.URL)
		return nil, x.failed
	}
	x.header = response.Header
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxFault)) // a partial body is sufficient
		_ = response.Body.Close()
		x.failed = faultOf(body).explain(response.StatusCode, x.header)
		return nil, x.failed
	}
	x.stream = sse.NewStream(long.Body(r.Context(), response.Body), x)
	response.Body, response.ContentLength = x.stream, -1
	response.Header = http.Header{"Content-Type": {"text/event-stream"}} // else the SDK may choose another decoder
	return response, nil
}

// Event implements [sse.Events].
func (x *exchange) Event(kind string, data []byte) ([]byte, error) {
	var head struct {
		Type string `json:"type"`
	}
	if data[0] != '{' || json.Unmarshal(data, &head) != nil {
		return nil, &sse.NoEvents{Text: sse.Excerpt(data)}
	}
	if kind == "error" || head.Type == "error" {
		x.failed = faultOf(data).explain(0, x.header)
		return nil, sse.ErrEnd
	}
	if len(head.Type) > len("content_block_start") { // the longest that is known
		head.Type = ""
	}
	out := append([]byte("event: "), head.Type...) // some proxies leave it out
	out = append(out, "\ndata: "...)
	return append(out, oneLine(data)...), nil
}

// oneLine returns JSON without line ends, which it can have only between its values.
func oneLine(data []byte) []byte {
	for i, b := range data {
		if b == '\n' || b == '\r' {
			data[i] = ' '
		}
	}
	return data
}

// Page implements [sse.Events].
func (x *exchange) Page(body []byte) error {
	if f := faultIn(body); f != nil {
		x.failed = f.explain(0, x.header)
		return sse.ErrEnd
	}
	return &sse.NoEvents{Text: sse.Excerpt(body)}
}
