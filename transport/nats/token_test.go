package nats

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestEscape(t *testing.T) {
	for id, want := range map[string]string{
		"":               "_",
		"_":              "=5F",
		"__":             "__",
		"weather-agent2": "weather-agent2",
		"a.b":            "a=2Eb",
		"a=2Eb":          "a=3D2Eb",
		"*":              "=2A",
		">":              "=3E",
		"agent:echo":     "agent=3Aecho",
		"é":              "=C3=A9",
	} {
		if got := escape(id); got != want {
			t.Errorf("escape(%q) = %q, want %q", id, got, want)
		}
		if got, err := unescape(want); got != id || err != nil {
			t.Errorf("unescape(%q) = %q, %v, want %q", want, got, err, id)
		}
	}
}

// TestUnescapeRefuses checks that an id has one token only: two subjects for one inbox would be two inboxes.
func TestUnescapeRefuses(t *testing.T) {
	for _, token := range []string{"", "=", "=2", "=2e", "=61", "=zz", "a.b", "a b", "a=5F", "é", "=5F=5"} {
		if id, err := unescape(token); err == nil {
			t.Errorf("unescape(%q) = %q, want an error", token, id)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, id := range []string{"", "_", "a", "a.b", "a=2Eb", "日本語", "*", ">", "\xff", "=", "=5F", strings.Repeat("é", transport.MaxID/2)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		token := escape(id)
		if token == "" || strings.ContainsAny(token, ".*> \t\r\n,/\\") {
			t.Errorf("escape(%q) = %q is no legal token", id, token)
		}
		if got, err := unescape(token); got != id || err != nil {
			t.Errorf("unescape(escape(%q)) = %q, %v", id, got, err)
		}
		// The same text as a token: it stands for one id, or for none.
		if other, err := unescape(id); err == nil && escape(other) != id {
			t.Errorf("unescape(%q) = %q, whose token is %q", id, other, escape(other))
		}
	})
}

func TestSubjects(t *testing.T) {
	a := inboxAddress{tenant: "", to: "echo", context: "ctx.1", from: "user:joe"}
	if got, want := inboxSubject(a), "cortex.v1.inbox._.echo.40.ctx=2E1.user=3Ajoe"; got != want {
		t.Errorf("inboxSubject = %q, want %q", got, want)
	}
	if got, err := parseInboxSubject(inboxSubject(a)); got != a || err != nil {
		t.Errorf("parseInboxSubject = %+v, %v, want %+v", got, err, a)
	}
	if got, want := timerSubject(a), "cortex.v1.timer._.echo.ctx=2E1"; got != want {
		t.Errorf("timerSubject = %q, want %q", got, want)
	}
	// The partition is of the conversation, whoever writes to whom.
	b := inboxAddress{tenant: "", to: "cortex", context: "ctx.1", from: "echo"}
	if got := strings.Split(inboxSubject(b), ".")[5]; got != "40" {
		t.Errorf("partition = %s, want 40", got)
	}
	for _, subject := range []string{
		"cortex.v1.inbox._.echo.5.c", "cortex.v1.inbox._.echo.5.c.u.x", "cortex.v1.inbox._.echo.5.c._", "cortex.v1.inbox._._.5.c.u",
		"cortex.v1.inbox._.echo.5.=0A.u", "cortex.v1.inbox._.echo.5.=FF.u", "cortex.v1.inbox", "other._.echo.5.c.u",
	} {
		if got, err := parseInboxSubject(subject); err == nil {
			t.Errorf("parseInboxSubject(%q) = %+v, want an error", subject, got)
		}
	}
}

func TestConsumerName(t *testing.T) {
	long := strings.Repeat("é", transport.MaxID/2)
	seen := map[string]transport.Topic{}
	for _, topic := range []transport.Topic{
		transport.Inbox("", "cortex"), transport.Inbox("acme", "cortex"), transport.Inbox("", "0"), transport.Inbox("", "cortex,acme"),
		transport.Inbox("", "echo"), transport.Inbox("acme", "echo"), transport.Inbox("echo", "acme"), transport.Inbox("", long), transport.Inbox(long, "x"),
	} {
		name := consumerName(topic)
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %v have the same consumer %q", topic, other, name)
		}
		if len(name) > 128 || strings.ContainsAny(name, ".*> /\\") {
			t.Errorf("consumerName(%v) = %q is no legal name", topic, name)
		}
		seen[name] = topic
	}
	for topic, want := range map[transport.Topic]string{
		transport.Inbox("", "cortex"): "cortex-0", transport.Inbox("acme", "echo"): "agent-echo,acme",
	} {
		if got := consumerName(topic); got != want {
			t.Errorf("consumerName(%v) = %q, want %q", topic, got, want)
		}
	}
}
