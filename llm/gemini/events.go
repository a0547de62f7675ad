package gemini

import (
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
	"github.com/cortex-orchestrator/cortex/llm/internal/sse"
)

// Event implements [sse.Events].
func (x *exchange) Event(_ string, data []byte) ([]byte, error) {
	if x.fault = google.FaultIn(data); x.fault != nil {
		return nil, sse.ErrEnd
	}
	reduced, err := x.reduce(data)
	if err != nil || data[0] != '{' { // null is no error
		return nil, &sse.NoEvents{Text: sse.Excerpt(data)}
	}
	return append([]byte("data: "), reduced...), nil
}

// Page implements [sse.Events].
func (x *exchange) Page(body []byte) error {
	if x.fault = google.FaultIn(body); x.fault != nil {
		return sse.ErrEnd
	}
	return &sse.NoEvents{Text: sse.Excerpt(body)}
}
