package hubtest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
)

// REPL behaves as the program chat_repl: it waits 30 s for one message to a line, and puts one that is not for it back into its queue.
type REPL struct {
	Hub hubpb.AgentHubClient
	// After is time.After, or a test's clock.
	After func(time.Duration) <-chan time.Time
	// Stamp makes the second that ids end with; nil: the present one.
	Stamp func() int64

	inbox chan *hubpb.Message
}

// Subscribe subscribes in the background, once.
func (c *REPL) Subscribe(ctx context.Context) error {
	stream, err := c.Hub.SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: "agent_chat_repl"})
	if err != nil {
		return err
	}
	c.inbox = make(chan *hubpb.Message, 10)
	go func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			if m := e.GetMessage(); m != nil {
				select {
				case c.inbox <- m:
				default:
				}
			}
		}
	}()
	return nil
}

// Line sends a line, and returns what is shown; ok is false for no answer.
func (c *REPL) Line(ctx context.Context, text string) (shown string, ok bool, err error) {
	now := time.Now().Unix()
	if c.Stamp != nil {
		now = c.Stamp()
	}
	in := fmt.Sprintf("chat_conversation_%d", now)
	_, err = c.Hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{
		Message: &hubpb.Message{
			MessageId: fmt.Sprintf("msg_chat_request_%d", now), ContextId: in, Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{Text(text)},
			Metadata: Metadata("task_type", "chat_request", "requester_agent", "agent_chat_repl", "created_at", time.Now().Format(time.RFC3339)),
		},
		Routing: &hubpb.AgentEventMetadata{
			FromAgentId: "agent_chat_repl", ToAgentId: "agent_chat_responder", EventType: "a2a.message.chat_request", Priority: hubpb.Priority_PRIORITY_MEDIUM,
		},
	})
	if err != nil {
		return "", false, err
	}
	select {
	case m := <-c.inbox:
		if m.Role == hubpb.Role_ROLE_AGENT && (m.ContextId == in || kindOf(m) == "task_result") {
			return m.Content[0].GetText(), true, nil
		}
		select {
		case c.inbox <- m:
		default:
		}
		return "", false, nil
	case <-c.After(30 * time.Second):
		return "", false, nil
	}
}

func kindOf(m *hubpb.Message) string {
	return m.GetMetadata().GetFields()["task_type"].GetStringValue()
}

// CLI behaves as the program chat_cli. What it shows comes on Shown.
type CLI struct {
	Hub     hubpb.AgentHubClient
	ID      string // "": agent_chat_cli
	Context string
	Shown   chan *hubpb.Message
}

func (c *CLI) id() string { return cmp.Or(c.ID, "agent_chat_cli") }

// Subscribe begins a session.
func (c *CLI) Subscribe(ctx context.Context) error {
	stream, err := c.Hub.SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: c.id()})
	if err != nil {
		return err
	}
	if c.Context == "" {
		c.Context = fmt.Sprintf("cli_session_%d", time.Now().Unix())
	}
	c.Shown = make(chan *hubpb.Message, 100)
	go func() {
		defer close(c.Shown)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			m := e.GetMessage()
			if m.GetRole() != hubpb.Role_ROLE_AGENT || m.Metadata == nil {
				continue
			}
			if kind := kindOf(m); kind == "chat_response" && m.ContextId == c.Context || kind == "task_result" {
				c.Shown <- m
			}
		}
	}()
	return nil
}

// Say sends a message, and returns its id.
func (c *CLI) Say(ctx context.Context, text string) (string, error) {
	id := fmt.Sprintf("cli_msg_%d", time.Now().UnixNano())
	return id, c.Send(ctx, id, text)
}

// Send sends a message with an id.
func (c *CLI) Send(ctx context.Context, id, text string) error {
	_, err := c.Hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{
		Message: &hubpb.Message{
			MessageId: id, ContextId: c.Context, Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{Text(text)},
			Metadata: Metadata("task_type", "chat_request", "from_agent", c.id(), "created_at", time.Now().Format(time.RFC3339)),
		},
		Routing: &hubpb.AgentEventMetadata{FromAgentId: c.id(), ToAgentId: "cortex", EventType: "a2a.message.chat_request", Priority: hubpb.Priority_PRIORITY_HIGH},
	})
	return err
}

// Responder behaves as the program chat_responder: it answers every request that it gets, to everybody.
func Responder(ctx context.Context, hub hubpb.AgentHubClient) error {
	stream, err := hub.SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: "agent_chat_responder"})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		m := e.GetMessage()
		if m.GetRole() != hubpb.Role_ROLE_USER || kindOf(m) != "chat_request" {
			continue
		}
		_, _ = hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{
				MessageId: "msg_chat_response_" + m.MessageId, ContextId: m.ContextId, Role: hubpb.Role_ROLE_AGENT, Content: []*hubpb.Part{Text("responder: " + m.Content[0].GetText())},
				Metadata: Metadata("task_type", "chat_response", "responder_agent", "agent_chat_responder", "original_message_id", m.MessageId),
			},
			Routing: &hubpb.AgentEventMetadata{FromAgentId: "agent_chat_responder", EventType: "a2a.message.chat_response"},
		})
	}
}

// Publish behaves as the program publisher, without its pauses: it gives tasks to the subscriber, and fails when one is not accepted.
func Publish(ctx context.Context, hub hubpb.AgentHubClient) error {
	for _, kind := range []string{"greeting", "math_calculation", "random_number", "unknown_task"} {
		now := time.Now().Unix()
		r, err := hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{
				MessageId: fmt.Sprintf("msg_%s_%d", kind, now), TaskId: fmt.Sprintf("task_%s_%d", kind, now), ContextId: fmt.Sprintf("ctx_%s_%d", kind, now),
				Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{Text("Please process " + kind + " task")},
				Metadata: Metadata("task_type", kind, "publisher", "agent_demo_publisher", "created_at", time.Now().Format(time.RFC3339)),
			},
			Routing: &hubpb.AgentEventMetadata{
				FromAgentId: "agent_demo_publisher", ToAgentId: "agent_demo_subscriber", EventType: "task_message", Priority: hubpb.Priority_PRIORITY_MEDIUM,
			},
		})
		if err != nil {
			return err
		}
		if !r.Success {
			return fmt.Errorf("%s: %s", kind, r.Error)
		}
	}
	return nil
}
