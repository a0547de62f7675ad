package agenthub

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The types of what is said to somebody who chats. Programs take exactly one response to a message; a result they show whenever it comes.
const (
	chatResponse = "chat_response"
	taskResult   = "task_result"
)

// maxAnswer bounds the text of an answer, in bytes: programs take messages of 4 MiB.
const maxAnswer = 1 << 20

// reply is what is said to somebody who chats.
type reply struct {
	id    string
	parts []*hubpb.Part
	late  bool // a response has been given before
}

// replyOf returns the reply for Cortex's answer. Programs show the first part only.
func replyOf(c *chat, m *a2a.Message, late bool) *reply {
	text := shorten.Marked(transport.Text(m.Parts), maxAnswer, "…")
	var files []*hubpb.Part
	room := maxFiles
	for _, p := range m.Parts {
		name, _, _, ok := transport.FileOf(p)
		if !ok {
			continue
		}
		text = strings.TrimPrefix(fmt.Sprintf("%s\n[file %s]", text, name), "\n")
		if raw, ok := p.Content.(a2a.Raw); ok && len(raw) <= room {
			room -= len(raw)
			files = append(files, content(a2a.ContentParts{p})...)
		}
	}
	return &reply{space.ID("answer", c.key(), m.ID), append([]*hubpb.Part{textPart(cmp.Or(text, "(no text)"))}, files...), late}
}

// longer returns the reply that the answer is not there yet.
func longer(c *chat) *reply {
	return &reply{space.ID("longer", c.key()), []*hubpb.Part{textPart("This takes longer. The answer comes when it is there.")}, false}
}

// message returns a reply as a message of that type.
func (r *reply) message(c *chat, kind string, now time.Time) *hubpb.Message {
	task := ""
	if kind == taskResult {
		task = c.Turn.MessageID
	}
	return &hubpb.Message{
		MessageId: r.id, ContextId: c.Context, Role: hubpb.Role_ROLE_AGENT, Content: r.parts,
		Metadata: metadata("task_type", kind, "from_agent", c.As, "original_message_id", c.Message, "created_at", now.UTC().Format(time.RFC3339), "task_id", task),
	}
}

// event returns a message of Cortex as an event.
func event(m *hubpb.Message, to, eventType string, now time.Time) *hubpb.AgentEvent {
	return &hubpb.AgentEvent{
		EventId: eventID("evt", m.MessageId, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_Message{Message: m},
		Routing: route(to, eventType, hubpb.Priority_PRIORITY_MEDIUM),
	}
}

// eventID returns the id of an event, as the real hub makes them.
func eventID(kind, of string, now time.Time) string {
	return fmt.Sprintf("%s_%s_%d", kind, of, now.Unix())
}
