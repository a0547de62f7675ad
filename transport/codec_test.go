package transport_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/transport"
)

var at = time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)

// kinds returns one payload of every kind, by its name on the wire.
func kinds() map[string]transport.Payload {
	message := &a2a.Message{
		ID: "m1", ContextID: "c1", TaskID: "t1", Role: a2a.MessageRoleUser, Metadata: map[string]any{"k": []any{"v", 1.5, nil}},
		Parts: a2a.ContentParts{
			a2a.NewTextPart("naïve \u0000 \U0001F9E0"),
			{Content: a2a.Raw{0, 1, 254, 255}, Filename: "x.bin", MediaType: "application/octet-stream"},
			a2a.NewDataPart(map[string]any{"x": "y"}),
			a2a.NewFileURLPart("https://example.org/?a=b&c", "text/html"),
		},
	}
	return map[string]transport.Payload{
		"message": message,
		"task": &a2a.Task{
			ID: "t1", ContextID: "c1", History: []*a2a.Message{message}, Artifacts: []*a2a.Artifact{{ID: "a1", Parts: message.Parts}},
			Status: a2a.TaskStatus{State: a2a.TaskStateInputRequired, Message: message, Timestamp: &at},
		},
		"status-update":   &a2a.TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}},
		"artifact-update": &a2a.TaskArtifactUpdateEvent{TaskID: "t1", ContextID: "c1", Artifact: &a2a.Artifact{ID: "a1", Parts: message.Parts}},
		"card":            &transport.Card{AgentID: "a", Instance: "1", TTL: time.Minute, Heartbeat: 20 * time.Second, Draining: true, Card: card()},
		"synced":          &transport.Synced{},
		"agent-event": &transport.AgentEvent{
			Time: at, Kind: "updated", AgentID: "a", Instance: "1", State: "active", Reason: "r", Added: []string{"s"}, Removed: []string{"t\n"}, Instances: 3,
		},
		"deadline": &transport.Deadline{At: at},
		"cancel":   &transport.Cancel{TaskID: "t1", Turn: "m1", Reason: "r"},
		"share":    &transport.Share{With: []string{"user:bob"}, Revoke: []string{"a"}},
		"forget":   &transport.Forget{AgentID: "a"},
		"delta":    &transport.Delta{Turn: "m1", Attempt: "2", Text: "te\nxt"},
		"hologram": &transport.Opaque{Kind: "hologram", Version: "9", Data: []byte{0, 1, 254, 255}},
	}
}

func card() *a2a.AgentCard {
	return &a2a.AgentCard{Name: "a", Description: "d", Version: "1", Skills: []a2a.AgentSkill{{ID: "s", Name: "S", Tags: []string{"t"}}}}
}

func TestPayloadRoundTrip(t *testing.T) {
	for name, p := range kinds() {
		t.Run(name, func(t *testing.T) {
			kind, version, body, err := transport.EncodePayload(p)
			if err != nil || kind != name {
				t.Fatalf("EncodePayload = kind %q, %v, want %q, nil", kind, err, name)
			}
			got, err := transport.DecodePayload(kind, version, body)
			if err != nil {
				t.Fatalf("DecodePayload(%q, %q, %s) = %v", kind, version, body, err)
			}
			if diff := cmp.Diff(p, got); diff != "" {
				t.Errorf("payload changed (-want +got):\n%s", diff)
			}
			for i := range body { // the body is not retained
				body[i] = 'x'
			}
			if o, ok := got.(*transport.Opaque); ok && string(o.Data) != "\x00\x01\xfe\xff" {
				t.Errorf("the decoded data is the body itself")
			}
		})
	}
}

func TestDecodePayload(t *testing.T) {
	for _, c := range []struct {
		name, kind, version, body string
		opaque                    bool // otherwise ErrInvalid
	}{
		{"unknown kind", "hologram", "1", `{}`, true},
		{"no kind", "", "", `x`, true},
		{"newer version", "message", "2", `{}`, true},
		{"no JSON", "message", "1", `{`, false},
		{"no body", "synced", "1", ``, false},
		{"another shape", "deadline", "1", `[]`, false},
		{"trailing text", "cancel", "1", `{} {}`, false},
		{"null", "message", "1", `null`, false},
		{"part of no kind", "message", "1", `{"messageId":"m","role":"ROLE_USER","parts":[{}]}`, false},
		{"part of two kinds", "message", "1", `{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}`, false},
		{"null part", "message", "1", `{"messageId":"m","role":"ROLE_USER","parts":[null]}`, false},
		{"null artifact", "task", "1", `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[null]}`, false},
		{"null history", "task", "1", `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"history":[null]}`, false},
		{"unknown state", "task", "1", `{"id":"t","contextId":"c","status":{"state":"done"}}`, false},
		{"no state", "status-update", "1", `{"taskId":"t","contextId":"c","status":{}}`, false},
		{"no artifact", "artifact-update", "1", `{"taskId":"t","contextId":"c"}`, false},
		{"card without name", "card", "1", `{"agentId":"a","instance":"1","card":{"name":""}}`, false},
		{"card of another shape", "card", "1", `{"agentId":7}`, false},
		{"null card", "card", "1", `null`, false},
		{"event of no agent", "agent-event", "1", `{"event":"updated"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := transport.DecodePayload(c.kind, c.version, []byte(c.body))
			if !c.opaque {
				if !errors.Is(err, transport.ErrInvalid) || p != nil {
					t.Errorf("DecodePayload = %v, %v, want nil, ErrInvalid", p, err)
				}
				return
			}
			want := &transport.Opaque{Kind: c.kind, Version: c.version, Data: []byte(c.body)}
			if diff := cmp.Diff(transport.Payload(want), p); diff != "" || err != nil {
				t.Errorf("DecodePayload: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestCardLeaves checks the ways in which an announcement says that the instance leaves.
func TestCardLeaves(t *testing.T) {
	const card = `"card":{"name":"a","description":"isDeregistering"}`
	for body, want := range map[string]transport.GoneReason{
		`{"agentId":"a","instance":"1",` + card + `}`:                                                "",
		`{"agentId":"a","instance":"1",` + card + `,"isDeregistering":false}`:                        "",
		`{"agentId":"a","instance":"1",` + card + `,"isDeregistering":"yes"}`:                        "",
		`{"agentId":"a","instance":"1",` + card + `,"isDeregistering":true}`:                         transport.GoneLeft,
		`{"AgentId":"a","Instance":"1","IsDeregistering":true}`:                                      transport.GoneLeft,
		`{"agentId":"a","instance":"1","card":{"name":"a","isDeregistering":true}}`:                  transport.GoneLeft,
		`{"agentId":"a","instance":"1","card":{"name":"a"},"isDeregistering":true,"gone":"expired"}`: transport.GoneExpired,
		`{"agentId":"a","instance":"1","card":{"name":"a","skills":[{"id":"\"isDeregistering\""}]}}`: "",
	} {
		p, err := transport.DecodePayload("card", transport.PayloadVersion, []byte(body))
		if err != nil {
			t.Errorf("DecodePayload(%s) = %v", body, err)
			continue
		}
		if got := p.(*transport.Card).Gone; got != want {
			t.Errorf("%s is gone %q, want %q", body, got, want)
		}
	}
}

func TestEncodePayloadRefuses(t *testing.T) {
	for name, p := range map[string]transport.Payload{
		"nil": nil, "nil message": (*a2a.Message)(nil), "nil opaque": (*transport.Opaque)(nil), "string": "x", "value": transport.Delta{},
		"no JSON": &a2a.Message{Parts: a2a.ContentParts{a2a.NewDataPart(make(chan int))}},
	} {
		if _, _, _, err := transport.EncodePayload(p); !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("EncodePayload(%s) = %v, want ErrInvalid", name, err)
		}
	}
	for size, want := range map[int]bool{transport.MaxPayload: false, transport.MaxPayload + 1: true} {
		_, _, _, err := transport.EncodePayload(&transport.Opaque{Kind: "k", Data: make([]byte, size)})
		if got := errors.Is(err, transport.ErrTooLarge) && errors.Is(err, transport.ErrInvalid); got != want {
			t.Errorf("EncodePayload of %d bytes = %v, want ErrTooLarge %v", size, err, want)
		}
	}
}

func TestEventJSON(t *testing.T) {
	payloads := kinds()
	payloads["empty opaque"] = &transport.Opaque{Kind: "hologram", Version: "9", Data: []byte{}}
	// As in a dead letter: what could not be decoded is unchanged.
	payloads["unreadable"] = &transport.Opaque{Kind: "message", Version: "1", Data: []byte("{")}
	payloads["unreadable and empty"] = &transport.Opaque{Kind: "message", Version: "1", Data: []byte{}}
	for name, p := range payloads {
		t.Run(name, func(t *testing.T) {
			want := &transport.Event{
				ID: "e1", Time: at, From: "user", To: "cortex", Tenant: "acme", ContextID: "c1", TaskID: "t1",
				Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "rojo=1", DeliverAt: at.Add(time.Nanosecond), Payload: p,
			}
			b, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got transport.Event
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatalf("Unmarshal(%s) = %v", b, err)
			}
			if diff := cmp.Diff(want, &got, cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
				t.Errorf("event changed (-want +got):\n%s", diff)
			}
		})
	}

	b, err := json.Marshal(&transport.Event{ID: "e", From: "f", Payload: &transport.Cancel{}, Delivery: 3})
	if want := `{"id":"e","time":"0001-01-01T00:00:00Z","from":"f","kind":"cancel","v":"1","payload":{}}`; err != nil || string(b) != want {
		t.Errorf("Marshal of a small event = %s, %v, want %s", b, err, want)
	}
	if _, err := json.Marshal(&transport.Event{ID: "e"}); !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("Marshal without payload = %v, want ErrInvalid", err)
	}
	var e transport.Event
	if err := json.Unmarshal([]byte(`{"id":"e","kind":"message","v":"1","payload":{}}`), &e); !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("Unmarshal of an empty message = %v, want ErrInvalid", err)
	}
	if err := json.Unmarshal([]byte(`{"id":7}`), &e); err == nil {
		t.Error("Unmarshal of a number as id succeeded")
	}
}

func FuzzDecodePayload(f *testing.F) {
	for _, p := range kinds() {
		kind, version, body, err := transport.EncodePayload(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, version, body)
	}
	f.Add("task", "1", []byte(`{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[null]}`))
	f.Fuzz(func(t *testing.T, kind, version string, body []byte) {
		p, err := transport.DecodePayload(kind, version, body)
		if err != nil {
			if !errors.Is(err, transport.ErrInvalid) {
				t.Errorf("DecodePayload = %v, want ErrInvalid", err)
			}
			return
		}
		// A decoded payload can be encoded, and decoded again as the same.
		kind2, version2, body2, err := transport.EncodePayload(p)
		if errors.Is(err, transport.ErrTooLarge) {
			return
		}
		if err != nil || kind2 != kind || version2 != version {
			t.Fatalf("EncodePayload = %q, %q, %v, want %q, %q, nil", kind2, version2, err, kind, version)
		}
		p2, err := transport.DecodePayload(kind2, version2, body2)
		if err != nil {
			t.Fatalf("DecodePayload of %s, which came from %s: %v", body2, body, err)
		}
		_, _, body3, err := transport.EncodePayload(p2)
		if err != nil || string(body3) != string(body2) {
			t.Errorf("written again: %s, %v, want %s", body3, err, body2)
		}
	})
}

func FuzzEventJSON(f *testing.F) {
	for _, p := range kinds() {
		b, err := json.Marshal(&transport.Event{ID: "e", Time: at, From: "f", ContextID: "c", DeliverAt: at, Payload: p})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"kind":"message","v":"1","data":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e transport.Event
		if json.Unmarshal(b, &e) != nil {
			return
		}
		if e.Payload == nil {
			t.Fatal("an event without payload was read")
		}
		b2, err := json.Marshal(&e)
		if errors.Is(err, transport.ErrTooLarge) || (err != nil && strings.Contains(err.Error(), "year outside of range")) {
			return
		}
		if err != nil {
			t.Fatalf("Marshal of what was read from %s: %v", b, err)
		}
		var e2 transport.Event
		if err := json.Unmarshal(b2, &e2); err != nil {
			t.Fatalf("Unmarshal(%s), which came from %s: %v", b2, b, err)
		}
	})
}
