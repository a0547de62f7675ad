package transport_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestWeight checks that a payload of few bytes that takes much memory is refused, where it is sent and where it arrives, and that what a log has of it
// can be read still.
func TestWeight(t *testing.T) {
	heavy := []any{}
	for range 400_000 {
		heavy = append(heavy, map[string]any{})
	}
	m := &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewDataPart(heavy)}}
	if _, _, _, err := transport.EncodePayload(m); !errors.Is(err, transport.ErrTooLarge) || !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("encode: %v", err)
	}
	body := []byte(`{"messageId":"m","role":"ROLE_USER","parts":[{"data":[` + strings.Repeat("{},", len(heavy)) + `{}]}]}`)
	e := &transport.Event{}
	if err := e.Decode("message", transport.PayloadVersion, body); !errors.Is(err, transport.ErrTooLarge) || e.Payload != nil {
		t.Errorf("decode: %v, %T", err, e.Payload)
	}
	if _, err := transport.DecodePayload("message", transport.PayloadVersion, body); err != nil {
		t.Errorf("what is stored: %v", err)
	}
	if err := e.Decode("of tomorrow", "7", body); err != nil {
		t.Errorf("an unknown kind, which is not decoded: %v", err)
	}
	m.Parts = a2a.ContentParts{a2a.NewDataPart(heavy[:100_000]), a2a.NewDataPart(strings.Repeat("{", 1<<20))}
	if _, _, _, err := transport.EncodePayload(m); err != nil {
		t.Errorf("encode less: %v", err)
	}
}
