package rockbot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Exchanges of RockBot.
const (
	exchange     = "rockbot"
	deadExchange = "rockbot.dlx"
)

// Topics, the routing keys of the exchange.
const (
	announceTopic = "discovery.announce"
	statusTopic   = "agent.task.status"
	taskTopic     = "agent.task."
	cancelTopic   = "agent.task.cancel."
	responseTopic = "agent.response"
)

// Types of messages.
const (
	typePrefix  = "RockBot.A2A."
	typeCard    = typePrefix + "AgentCard"
	typeRequest = typePrefix + "AgentTaskRequest"
	typeStatus  = typePrefix + "AgentTaskStatusUpdate"
	typeResult  = typePrefix + "AgentTaskResult"
	typeError   = typePrefix + "AgentTaskError"
	typeCancel  = typePrefix + "AgentTaskCancelRequest"
)

// Codes of errors.
const (
	codeNotFound       = "task_not_found"
	codeNotCancelable  = "task_not_cancelable"
	codeExecution      = "execution_failed"
	codeInvalidRequest = "invalid_request"
)

// Bounds of what comes.
const (
	maxBody  = 4 << 20 // bytes of a message
	maxDepth = 64      // of JSON
	maxHeavy = 16 << 20
	maxName  = 110 // bytes of an agent's name, since it is twice in the name of a queue
	maxKey   = 255 // bytes of a topic or a correlation id
)

// The records are those of RockBot. All their members are written, as null if need be: RockBot reads a missing one as an error in places.

type card struct {
	AgentName       string   `json:"agentName"`
	Description     *string  `json:"description"`
	Version         *string  `json:"version"`
	Skills          []*skill `json:"skills"`
	IsDeregistering bool     `json:"isDeregistering"`

	// second says that the card has a member of the second generation.
	second bool
	url    string
}

type skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description *string  `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples"`
}

type request struct {
	TaskID    string   `json:"taskId"`
	ContextID *string  `json:"contextId"`
	Skill     string   `json:"skill"`
	Message   *message `json:"message"`
}

type message struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Kind     string  `json:"kind"`
	Text     *string `json:"text"`
	Data     *string `json:"data"`
	MimeType *string `json:"mimeType"`
}

type statusUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID *string  `json:"contextId"`
	State     state    `json:"state"`
	Message   *message `json:"message"`
}

type result struct {
	TaskID    string     `json:"taskId"`
	ContextID *string    `json:"contextId"`
	State     state      `json:"state"`
	Artifacts []artifact `json:"artifacts"`
	Message   *message   `json:"message"`
}

type artifact struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Parts       []part  `json:"parts"`
}

type failure struct {
	TaskID      string  `json:"taskId"`
	ContextID   *string `json:"contextId"`
	Code        string  `json:"code"`
	Message     string  `json:"message"`
	IsRetryable bool    `json:"isRetryable"`
}

type cancelRequest struct {
	TaskID    string  `json:"taskId"`
	ContextID *string `json:"contextId"`
}

// state is that of a task: a number on the wire. Its name is read as well.
type state int

const (
	submitted state = iota
	working
	inputRequired
	completed
	failed
	canceled
)

// unknownState is the state whose number or name RockBot does not have.
const unknownState state = -1

var stateNames = [...]string{submitted: "Submitted", working: "Working", inputRequired: "InputRequired", completed: "Completed", failed: "Failed", canceled: "Canceled"}

// UnmarshalJSON reads a state that RockBot does not have as unknownState.
func (s *state) UnmarshalJSON(b []byte) error {
	var n int
	if json.Unmarshal(b, &n) == nil && string(b) != "null" {
		if *s = state(n); n < 0 || n >= len(stateNames) {
			*s = unknownState
		}
		return nil
	}
	var name string
	if err := json.Unmarshal(b, &name); err != nil || string(b) == "null" {
		return errors.New("a state is a number")
	}
	*s = unknownState
	for i, is := range stateNames {
		if strings.EqualFold(name, is) {
			*s = state(i)
		}
	}
	return nil
}

// read reads a body, which has to have certain members. As with RockBot, upper and lower case do not differ in the names of members.
func read(body []byte, to any, required ...string) error {
	switch {
	case len(body) > maxBody:
		return fmt.Errorf("the message has more than %d bytes: no more are allowed", maxBody) // its end may be cut off
	case nesting.Depth(body) > maxDepth || nesting.Weight(body) > maxHeavy:
		return errors.New("the message is nested too deep, or has too many values")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return errors.New("the message is no JSON object")
	}
	for _, name := range required {
		if !has(members, name) {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("the message is not what RockBot has: %s", shorten.Line(err.Error(), 200))
	}
	return nil
}

func has(members map[string]json.RawMessage, name string) bool {
	for is := range members {
		if strings.EqualFold(is, name) {
			return true
		}
	}
	return false
}

// readCard reads an agent's card. Members with null for a word are as if it were empty.
func readCard(body []byte) (*card, error) {
	c := &card{}
	if err := read(bytes.TrimPrefix(body, []byte("\ufeff")), c, "agentName"); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"url", "authHeaderName", "authHeaderValueBase64", "protocolVersion", "supportsStreaming"} {
		c.second = c.second || has(members, name)
	}
	for name, value := range members {
		if strings.EqualFold(name, "url") {
			_ = json.Unmarshal(value, &c.url) // no text is no address
		}
	}
	return c, checkName(c.AgentName)
}

// cut shortens a card to what is read of it: it is kept, and noted.
func (c *card) cut() {
	cutText(c.Description, maxAbout)
	cutText(c.Version, maxWord)
	c.url = shorten.To(c.url, maxAbout)
	known := map[string]bool{}
	c.Skills = slices.DeleteFunc(c.Skills, func(s *skill) bool {
		if s == nil || s.ID == "" || known[s.ID] {
			return true
		}
		known[s.ID] = true
		return false
	})
	c.Skills = slices.Clone(c.Skills[:min(len(c.Skills), transport.MaxSkills+1)]) // one more says that there are too many
	for _, s := range c.Skills {
		s.ID, s.Name = shorten.To(s.ID, maxWord+1), shorten.To(s.Name, maxWord) // likewise
		cutText(s.Description, maxAbout)
		s.Tags, s.Examples = few(s.Tags), few(s.Examples)
	}
}

func cutText(text *string, n int) {
	if text != nil {
		*text = shorten.To(*text, n)
	}
}

// checkName returns what is wrong with the name of an agent: it has to be one that topics and queues can be named after, and nobody else's.
func checkName(name string) error {
	switch lower := strings.ToLower(name); {
	case strings.TrimSpace(name) == "":
		return errors.New("agentName is missing")
	case len(name) > maxName:
		return fmt.Errorf("agentName has %d bytes, at most %d are allowed", len(name), maxName)
	case strings.ContainsAny(name, "*#"):
		return errors.New("agentName has a * or #, which stand for other names in RabbitMQ")
	case lower == "status" || lower == "cancel" || strings.HasPrefix(lower, "cancel."):
		return fmt.Errorf("an agent called %s would get what is meant for others", name)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return errors.New("agentName has characters that cannot be shown")
		}
	}
	return nil
}

// taskQueue returns the name of the queue of an agent's tasks, as RockBot has it.
func taskQueue(name string) string {
	return "rockbot." + name + "." + strings.NewReplacer(".", "-", "*", "_", "#", "__").Replace(taskTopic+name)
}

// say returns a message of one text.
func say(role, text string) *message {
	text = strings.ToValidUTF8(text, "\ufffd")
	return &message{Role: role, Parts: []part{{Kind: "text", Text: &text}}}
}

// words returns the texts of parts.
func words(parts []part) string {
	var all []string
	for _, p := range parts {
		if p.Text != nil && *p.Text != "" {
			all = append(all, *p.Text)
		}
	}
	return strings.Join(all, "\n")
}

func (m *message) text() string {
	if m == nil {
		return ""
	}
	return words(m.Parts)
}

// data returns the values of data parts, which are JSON in a text.
func data(parts []part) (all []json.RawMessage) {
	for _, p := range parts {
		if p.Data == nil {
			continue
		}
		raw := []byte(*p.Data)
		if json.Valid(raw) && nesting.Depth(raw) <= maxDepth && nesting.Weight(raw) <= maxHeavy {
			all = append(all, raw)
		}
	}
	return all
}

// deref returns a text; "" for none.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
