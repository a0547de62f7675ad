package rockbottest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Types of messages.
const (
	Card    = "RockBot.A2A.AgentCard"
	Request = "RockBot.A2A.AgentTaskRequest"
	Status  = "RockBot.A2A.AgentTaskStatusUpdate"
	Result  = "RockBot.A2A.AgentTaskResult"
	Error   = "RockBot.A2A.AgentTaskError"
	Cancel  = "RockBot.A2A.AgentTaskCancelRequest"
)

// States of tasks.
const (
	Submitted = iota
	Working
	InputRequired
	Completed
	Failed
	Canceled
)

// Message is a message of RockBot that was read strictly.
type Message struct {
	Topic, Type, ID, Correlation, ReplyTo, Source string
	Body                                          map[string]any
}

// Text returns the first text of a task or of a result, which is all that RockBot reads.
func (m *Message) Text() string {
	if text, ok := m.Body["message"].(string); ok {
		return text
	}
	if text, ok := m.part("text"); ok {
		return text
	}
	return "(no text output)"
}

// Data returns the first data of a task or of a result.
func (m *Message) Data() string {
	data, _ := m.part("data")
	return data
}

// part returns the content of the first part of a kind.
func (m *Message) part(kind string) (content string, ok bool) {
	in, _ := m.Body["message"].(map[string]any)
	parts, _ := in["parts"].([]any)
	for _, p := range parts {
		one, _ := p.(map[string]any)
		if content, ok = one[kind].(string); ok && one["kind"] == kind {
			return content, true
		}
	}
	return "", false
}

// State returns the state of a result or a status; -1 for none.
func (m *Message) State() int {
	n, ok := m.Body["state"].(float64)
	if !ok {
		return -1
	}
	return int(n)
}

// Task returns the task's id, and Context the context's.
func (m *Message) Task() string    { return text(m.Body["taskId"]) }
func (m *Message) Context() string { return text(m.Body["contextId"]) }

func text(v any) string {
	s, _ := v.(string)
	return s
}

// members are those that RockBot writes, with what they have: R a text, r a text or null, n a number, b true or false, m a message, l a list or null.
var members = map[string]map[string]byte{
	Card:    {"agentName": 'R', "description": 'r', "version": 'r', "skills": 'l', "isDeregistering": 'b'},
	Request: {"taskId": 'R', "contextId": 'r', "skill": 'R', "message": 'm'},
	Status:  {"taskId": 'R', "contextId": 'r', "state": 'n', "message": 'o'},
	Result:  {"taskId": 'R', "contextId": 'r', "state": 'n', "artifacts": 'l', "message": 'o'},
	Error:   {"taskId": 'R', "contextId": 'r', "code": 'R', "message": 'R', "isRetryable": 'b'},
	Cancel:  {"taskId": 'R', "contextId": 'r'},
}

// second are members of cards of the second generation.
var second = []string{"url", "authHeaderName", "authHeaderValueBase64", "protocolVersion", "supportsStreaming"}

var hexID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Read reads a message, and returns all that RockBot would not have written so.
func Read(d *amqp.Delivery) (*Message, error) {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	source, isText := d.Headers["rb-source"].(string)
	m := &Message{Topic: d.RoutingKey, Type: d.Type, ID: d.MessageId, Correlation: d.CorrelationId, ReplyTo: d.ReplyTo, Source: source}
	check(isText && source != "", "rb-source is %v", d.Headers["rb-source"])
	check(hexID.MatchString(d.MessageId), "message-id is %q", d.MessageId)
	check(d.ContentType == "application/json" && d.ContentEncoding == "", "content-type is %q, %q", d.ContentType, d.ContentEncoding)
	check(d.DeliveryMode == amqp.Persistent, "delivery-mode is %d", d.DeliveryMode)
	check(!d.Timestamp.IsZero() && time.Since(d.Timestamp).Abs() < time.Hour, "timestamp is %v", d.Timestamp)
	check(d.Expiration == "" && d.Priority == 0 && d.UserId == "" && d.AppId == "", "it has an expiration, a priority, a user or an app")
	if err := json.Unmarshal(d.Body, &m.Body); err != nil {
		return m, fmt.Errorf("%s: %w", d.Type, err)
	}
	want := members[d.Type]
	check(want != nil, "type %q is not RockBot's", d.Type)
	for name, kind := range want {
		v, there := m.Body[name]
		check(there && fits(v, kind), "%s is %v", name, v)
	}
	for name := range m.Body {
		check(want[name] != 0 || d.Type == Card && slices.Contains(second, name), "%s is no member", name)
	}
	if d.Type != Card {
		check(m.Task() != "" && d.CorrelationId != "", "task is %q, correlation-id %q", m.Task(), d.CorrelationId)
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return m, fmt.Errorf("%s to %s: %s\n%s", d.Type, d.RoutingKey, strings.Join(wrong, "; "), d.Body)
	}
	return m, nil
}

func fits(v any, kind byte) bool {
	switch is := v.(type) {
	case nil:
		return kind == 'r' || kind == 'l' || kind == 'o'
	case string:
		return kind == 'r' || kind == 'R'
	case float64:
		return kind == 'n' && is >= Submitted && is <= Canceled
	case bool:
		return kind == 'b'
	case []any:
		return kind == 'l' && !slices.ContainsFunc(is, func(one any) bool { return !isEntry(one) })
	case map[string]any:
		return (kind == 'm' || kind == 'o') && isMessage(is)
	}
	return false
}

// isEntry reports whether a value is a skill or an artifact.
func isEntry(v any) bool {
	m, ok := v.(map[string]any)
	_, isSkill := m["id"].(string)
	_, isArtifact := m["parts"].([]any)
	_, named := m["name"].(string)
	return ok && named && (isSkill || isArtifact)
}

func isMessage(m map[string]any) bool {
	parts, ok := m["parts"].([]any)
	if role := m["role"]; !ok || role != "user" && role != "agent" {
		return false
	}
	return !slices.ContainsFunc(parts, func(v any) bool {
		p, _ := v.(map[string]any)
		names := slices.Sorted(maps.Keys(p))
		return p["kind"] != "text" && p["kind"] != "data" || !slices.Equal(names, []string{"data", "kind", "mimeType", "text"}) ||
			!fits(p["text"], 'r') || !fits(p["data"], 'r') || !fits(p["mimeType"], 'r')
	})
}
