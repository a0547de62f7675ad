package transport_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestValidate(t *testing.T) {
	inbox, live, cards := transport.Inbox("acme", "w"), transport.Live("acme", "c1"), transport.Cards("acme")
	for _, c := range []struct {
		name  string
		topic transport.Topic
		spoil func(*transport.Event)
		want  string // in the error's text; "" is no error
	}{
		{"inbox", inbox, nil, ""},
		{"inbox with receiver", inbox, func(e *transport.Event) { e.To = "w" }, ""},
		{"inbox delayed", inbox, func(e *transport.Event) { e.DeliverAt = at }, ""},
		{"inbox of the longest id", transport.Inbox("acme", strings.Repeat("x", 256)), nil, ""},
		{"live", live, nil, ""},
		{"control", transport.Control("acme", "w"), nil, ""},
		{"cards", cards, func(e *transport.Event) { e.Payload = &transport.Card{AgentID: "a", Instance: "1", Card: card()} }, ""},
		{"goodbye", cards, func(e *transport.Event) {
			e.Payload = &transport.Card{AgentID: "a", Instance: "1", Gone: transport.GoneLeft}
		}, ""},
		{"no id", inbox, func(e *transport.Event) { e.ID = "" }, "id is empty"},
		{"no sender", inbox, func(e *transport.Event) { e.From = "" }, "from is empty"},
		{"wrong sender", inbox, func(e *transport.Event) { e.From = "a b" }, "from: "},
		{"wrong tenant", inbox, func(e *transport.Event) { e.Tenant = "" }, `tenant "" is not the topic's "acme"`},
		{"wrong receiver", inbox, func(e *transport.Event) { e.To = "x" }, `to "x" is not the inbox's "w"`},
		{"no conversation", inbox, func(e *transport.Event) { e.ContextID = "" }, "needs an agent and a contextID"},
		{"long conversation", inbox, func(e *transport.Event) { e.ContextID = strings.Repeat("x", 257) }, "contextID: is 257 bytes long"},
		{"wrong task", inbox, func(e *transport.Event) { e.TaskID = "\x7f" }, "taskID: "},
		{"no agent", transport.Inbox("acme", ""), nil, "needs an agent"},
		{"wrong agent", transport.Inbox("acme", "a b"), nil, "topic id: "},
		{"no payload", inbox, func(e *transport.Event) { e.Payload = nil }, "payload is empty"},
		{"foreign payload", inbox, func(e *transport.Event) { e.Payload = 7 }, "int is no payload"},
		{"delayed on live", live, func(e *transport.Event) { e.DeliverAt = at }, "deliverAt is for inboxes only"},
		{"no live id", transport.Live("acme", ""), nil, "a live topic needs an id"},
		{"no card", cards, nil, "want *transport.Card"},
		{"event of an agent", cards, func(e *transport.Event) {
			e.From, e.Payload = transport.Cortex, &transport.AgentEvent{Kind: "updated", AgentID: "a"}
		}, ""},
		{"event of an agent by somebody", cards, func(e *transport.Event) {
			e.Payload = &transport.AgentEvent{Kind: "updated", AgentID: "a"}
		}, `event of an agent from "user", want it from "cortex"`},
		{"no kind of topic", transport.Topic{Tenant: "acme"}, nil, "unknown topic kind"},
		{"empty message", inbox, message(), "message is empty"},
		{"blank message", inbox, message(a2a.NewTextPart("")), "message is empty"},
		{"a file alone", inbox, message(a2a.NewRawPart([]byte{})), ""},
		{"hollow part", inbox, message(&a2a.Part{}), "message has a part without content"},
		{"message of 1 MiB", inbox, message(a2a.NewTextPart(strings.Repeat("x", 1<<20))), ""},
		{"message of 1 MiB and a byte", inbox, message(a2a.NewTextPart(strings.Repeat("x", 1<<20)), a2a.NewTextPart("x")), "too large: message is 1048577 bytes"},
		{"not UTF-8", inbox, message(a2a.NewTextPart("\xff")), "message is not valid UTF-8"},
		{"task without id", inbox, func(e *transport.Event) { e.Payload = &a2a.Task{} }, "task without id"},
		{"opaque of a wrong kind", inbox, func(e *transport.Event) { e.Payload = &transport.Opaque{Kind: "a\nb"} }, "opaque payload: kind or version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &transport.Event{ID: "e1", From: "user", Tenant: "acme", ContextID: "c1", Payload: &transport.Cancel{}}
			if c.spoil != nil {
				c.spoil(e)
			}
			check(t, e.Validate(c.topic), c.want)
		})
	}
}

func message(p ...*a2a.Part) func(*transport.Event) {
	return func(e *transport.Event) { e.Payload = &a2a.Message{ID: "m", Parts: p} }
}

// check fails the test unless err is an ErrInvalid with this text, or nil for "".
func check(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("error %v, want nil", err)
	case text != "" && (!errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), text)):
		t.Errorf("error %v, want ErrInvalid with %q", err, text)
	}
}

func TestValidateCard(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*transport.Card)
		want  string
	}{
		{"good", func(*transport.Card) {}, ""},
		{"for ever", func(c *transport.Card) { c.TTL = 0 }, ""},
		{"one second", func(c *transport.Card) { c.TTL = time.Second }, ""},
		{"short", func(c *transport.Card) { c.TTL = time.Second - 1 }, "under one second"},
		{"negative", func(c *transport.Card) { c.TTL = -time.Second }, "under one second"},
		{"no agent", func(c *transport.Card) { c.AgentID = "" }, "card: name is empty"},
		{"no instance", func(c *transport.Card) { c.Instance = "" }, "instance is empty"},
		{"no card", func(c *transport.Card) { c.Card = nil }, "card of a is missing"},
		{"strange end", func(c *transport.Card) { c.Gone = "fishing" }, `unknown reason "fishing"`},
		{"bad card at the end", func(c *transport.Card) { c.Gone, c.Card.Name = transport.GoneLeft, "" }, "card has no name"},
		{"no name", func(c *transport.Card) { c.Card.Name = " \t" }, "card has no name"},
		{"name of nothing", func(c *transport.Card) { c.Card.Name = "\u200b" }, "card: name is empty"},
		{"200 skills", func(c *transport.Card) { c.Card.Skills = skills(200) }, ""},
		{"201 skills", func(c *transport.Card) { c.Card.Skills = skills(201) }, "too large: 201 skills"},
		{"nameless skill", func(c *transport.Card) { c.Card.Skills = append(skills(1), a2a.AgentSkill{}) }, "skill 2 has neither id nor name"},
		{"named skill", func(c *transport.Card) { c.Card.Skills = []a2a.AgentSkill{{Name: "n"}} }, ""},
		{"large", func(c *transport.Card) { c.Card.Description = strings.Repeat("x", 64<<10) }, "too large: "},
		{"no JSON", func(c *transport.Card) {
			c.Card.Capabilities.Extensions = []a2a.AgentExtension{{Params: map[string]any{"x": make(chan int)}}}
		}, "unsupported type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &transport.Card{AgentID: "a", Instance: "1", TTL: time.Minute, Card: card()}
			c.spoil(p)
			e := &transport.Event{ID: "e", From: "a", Payload: p}
			check(t, e.Validate(transport.Cards("")), c.want)
		})
	}
}

func skills(n int) []a2a.AgentSkill {
	s := make([]a2a.AgentSkill, n)
	for i := range s {
		s[i].ID = fmt.Sprint("s", i)
	}
	return s
}

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "A-b_c.d:e/f", "*", ">", "日本語", "e\u0301", "\U0001F9E0", strings.Repeat("é", 128)} {
		if err := transport.CheckID(id); err != nil {
			t.Errorf("CheckID(%q) = %v, want nil", id, err)
		}
	}
	for _, id := range []string{
		"", " ", "a b", "a\n", "\x00", "\x7f", "\u0085", "\u00a0", "\u2003", "\u2028", "\u200b", "\u202e", "\ufeff", "\ufffd", "\xff",
		strings.Repeat("é", 129),
	} {
		if err := transport.CheckID(id); err == nil {
			t.Errorf("CheckID(%q) = nil, want an error", id)
		}
	}
}

func TestAgentID(t *testing.T) {
	for name, want := range map[string]string{
		"echo": "echo", "Weather Agent": "Weather_Agent", "  a \t\n b  ": "a_b", "a\x00b": "ab", "a\u200bb": "ab", "a\u00a0b": "a_b",
		"日本 語": "日本_語", "a\xffb": "ab", "x.y>z": "x.y>z",
		"": "", " ": "", "\x00": "", strings.Repeat("x", 257): "", "user": "", "user:ada": "", // "": an error
		"agent:x": "", "Agent:x": "", "cortex:x": "", "rtfs:anonymous": "", "rockbot:x": "", "agent": "agent", "rtfs.x": "rtfs.x", "acme:x": "acme:x",
	} {
		got, err := transport.AgentID(name)
		if want != "" && got != want || (err != nil) != (want == "") {
			t.Errorf("AgentID(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestPermanent(t *testing.T) {
	err := transport.Permanent(fmt.Errorf("read: %w", io.EOF))
	if !transport.IsPermanent(err) || !transport.IsPermanent(fmt.Errorf("task: %w", err)) {
		t.Error("IsPermanent = false for a permanent error, want true")
	}
	if !errors.Is(err, io.EOF) || err.Error() != "read: EOF" {
		t.Errorf("Permanent = %q, want the error it marks", err)
	}
	if transport.IsPermanent(io.EOF) || transport.IsPermanent(nil) || transport.Permanent(nil) != nil {
		t.Error("an error that was not marked, or none, is permanent")
	}
}

func TestText(t *testing.T) {
	parts := a2a.ContentParts{
		a2a.NewTextPart("one"), nil, a2a.NewRawPart([]byte("x")), {}, a2a.NewTextPart("two\nthree"), a2a.NewDataPart("y"),
	}
	if got := transport.Text(parts); got != "one\ntwo\nthree" {
		t.Errorf("Text = %q, want %q", got, "one\ntwo\nthree")
	}
	if got := transport.Text(nil); got != "" {
		t.Errorf("Text(nil) = %q, want none", got)
	}
}

func TestMetaString(t *testing.T) {
	m := &a2a.Message{Metadata: map[string]any{"s": "text", "n": 1.5}}
	for key, want := range map[string]string{"s": "text", "n": "", "none": ""} {
		if got := transport.MetaString(m, key); got != want {
			t.Errorf("MetaString(%q) = %q, want %q", key, got, want)
		}
	}
	if got := transport.MetaString(&a2a.Message{}, "s"); got != "" {
		t.Errorf("MetaString without metadata = %q, want none", got)
	}
}

func TestTopics(t *testing.T) {
	seen := map[transport.Topic]bool{}
	for _, topic := range []transport.Topic{
		transport.Inbox("", "x"), transport.Inbox("t", "x"), transport.Live("", "x"), transport.Live("t", "x"),
		transport.Control("", "x"), transport.Control("t", "x"), transport.Cards(""), transport.Cards("t"),
	} {
		if seen[topic] {
			t.Errorf("%+v is made twice", topic)
		}
		seen[topic] = true
	}
}

// TestDeepBody decodes bodies that are nested deeply: what is deeper than can be kept is invalid.
func TestDeepBody(t *testing.T) {
	for depth, ok := range map[int]bool{8000: true, 9996: false} {
		body := `{"messageId":"m","role":"ROLE_USER","parts":[{"data":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}]}`
		kind, _ := transport.PayloadKind(&a2a.Message{})
		err := new(transport.Event).Decode(kind, transport.PayloadVersion, []byte(body))
		if ok && err != nil || !ok && !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
}

// TestCancelsAreSmall checks that no cancellation is large, whatever it has: it is taken however much waits. The largest that is valid can be sent, and what
// a log has can be read still.
func TestCancelsAreSmall(t *testing.T) {
	inbox, long := transport.Inbox("", transport.Cortex), strings.Repeat("<", transport.MaxID)
	kind, _ := transport.PayloadKind(&transport.Cancel{})
	for name, test := range map[string]struct {
		c    *transport.Cancel
		want string
	}{
		"the largest": {&transport.Cancel{TaskID: a2a.TaskID(long), Turn: long, Reason: strings.Repeat("\x01", transport.MaxCancelReason)}, ""},
		"a long turn": {&transport.Cancel{Turn: long + "x"}, "id is 257 bytes long, at most 256 are allowed"},
		"a long task": {&transport.Cancel{TaskID: a2a.TaskID(long + "x")}, "id is 257 bytes long, at most 256 are allowed"},
	} {
		e := &transport.Event{ID: "x", From: "user:ada", ContextID: "c1", Payload: test.c}
		if err := e.Validate(inbox); test.want == "" && err != nil || test.want != "" && (!errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		_, version, body, err := transport.EncodePayload(test.c)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(transport.Event).Decode(kind, version, body); err != nil {
			t.Errorf("%s is not read: %v", name, err)
		}
	}
	body := []byte(`{"turn":"t1","and":"` + strings.Repeat("x", 32<<10) + `"}`)
	e := &transport.Event{}
	if err := e.Decode(kind, transport.PayloadVersion, body); !errors.Is(err, transport.ErrTooLarge) || !errors.Is(err, transport.ErrInvalid) || e.Payload != nil {
		t.Errorf("a field that nobody reads: %v, %T", err, e.Payload)
	}
	if _, err := transport.DecodePayload(kind, transport.PayloadVersion, body); err != nil {
		t.Errorf("what is stored: %v", err)
	}
}
