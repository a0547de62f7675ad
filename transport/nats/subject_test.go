package nats

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

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
