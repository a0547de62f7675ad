package transport_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// BenchmarkPayload encodes and decodes the payloads of a turn, and compares with encoding/json.
func BenchmarkPayload(b *testing.B) {
	const id = "0197e6ac-8a11-7c54-b0c8-1f2b3c4d5e6f"
	words := a2a.ContentParts{a2a.NewTextPart(strings.Repeat("words ", 20))}
	result := map[string]any{"task_type": "echo_result", "agent_id": "worker-1", "task_id": id, "original": id, "created_at": at.Format(time.RFC3339)}
	for _, c := range []struct {
		name    string
		payload transport.Payload
		empty   func() any
	}{
		{"user", &a2a.Message{
			ID: id, ContextID: "bench-17", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("words ", 42))},
			Metadata: map[string]any{"client": "repl", "turn": id},
		}, func() any { return new(a2a.Message) }},
		{"task", &a2a.Message{
			ID: id, ContextID: "bench-17", TaskID: id, Role: a2a.MessageRoleUser, Parts: words,
			Metadata: map[string]any{
				"task_type": "echo", "agent_id": "worker-1", "task_id": id, "requester": "user:bench-17", "user_text": strings.Repeat("words ", 42),
				"deadline": at.Format(time.RFC3339Nano), "hops": 1, "ancestors": []string(nil), "turn": id, "attempt": 1,
			},
		}, func() any { return new(a2a.Message) }},
		{"result", &a2a.Task{
			ID: id, ContextID: "bench-17", Metadata: result, Artifacts: []*a2a.Artifact{{ID: id, Name: "report", Parts: words}},
			Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: &at, Message: &a2a.Message{
				ID: id, ContextID: "bench-17", TaskID: id, Role: a2a.MessageRoleAgent, Parts: words, Metadata: result,
			}},
		}, func() any { return new(a2a.Task) }},
		{"status", &a2a.TaskStatusUpdateEvent{
			TaskID: id, ContextID: "bench-17", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: &at},
			Metadata: map[string]any{"agent_id": "worker-1", "turn": id},
		}, func() any { return new(a2a.TaskStatusUpdateEvent) }},
	} {
		kind, version, body, err := transport.EncodePayload(c.payload)
		if err != nil {
			b.Fatal(err)
		}
		for _, side := range []struct {
			name string
			do   func() error
		}{
			{"encode", func() error {
				_, _, _, err := transport.EncodePayload(c.payload)
				return err
			}},
			{"encode by encoding-json", func() error {
				_, err := json.Marshal(c.payload)
				return err
			}},
			{"decode", func() error {
				_, err := transport.DecodePayload(kind, version, body)
				return err
			}},
			{"decode by encoding-json", func() error { return json.Unmarshal(body, c.empty()) }},
		} {
			b.Run(c.name+"/"+side.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := side.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
