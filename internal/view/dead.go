package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// deadText bounds how much of a payload is shown, in bytes.
const deadText = 64 << 10

// DeadJSON is a dead letter in JSON output. Payload is set for an event that can be decoded, otherwise Data has its bytes.
type DeadJSON struct {
	ID         string           `json:"id"`
	Time       time.Time        `json:"time"`
	Inbox      string           `json:"inbox"`
	Reason     string           `json:"reason"`
	Deliveries int              `json:"deliveries"`
	Event      *transport.Event `json:"event"`
	Unreadable string           `json:"unreadable,omitempty"` // why the event has no payload here
}

// NewDeadJSON converts d so that it can be encoded: it leaves out a payload that cannot, such as one that is nested too deeply.
func NewDeadJSON(d *transport.DeadLetter) DeadJSON {
	j := DeadJSON{ID: d.ID, Time: d.Time, Inbox: d.Topic.ID, Reason: d.Reason, Deliveries: d.Deliveries, Event: d.Event}
	if _, err := json.Marshal([]DeadJSON{j}); err != nil {
		event := *d.Event
		event.Payload = &transport.Opaque{Kind: KindOf(d.Event)}
		j.Event, j.Unreadable = &event, prompt.Clean(err.Error(), 200)
	}
	return j
}

func KindOf(e *transport.Event) string {
	kind, _ := transport.PayloadKind(e.Payload)
	return kind
}

// PayloadText formats a payload: as JSON, or as its text when it is not JSON.
func PayloadText(p transport.Payload) string {
	_, _, body, err := transport.EncodePayload(p)
	if err != nil {
		return prompt.Clean(err.Error(), 200)
	}
	if !json.Valid(body) {
		return prompt.CleanText(string(body), deadText)
	}
	var clean bytes.Buffer
	_, _ = plainWriter{&clean}.Write(body) // a buffer never fails
	shown, more := Indent(clean.Bytes(), 0, deadText+1)
	if len(shown) <= deadText {
		return string(shown)
	}
	begin := shorten.To(string(shown), deadText)
	return fmt.Sprintf("%s\n… %d bytes more: --json shows them", begin, len(shown)-len(begin)+more)
}
