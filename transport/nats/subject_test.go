package nats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestSubjects(t *testing.T) {
	a := inboxAddress{tenant: "", to: "echo", context: "ctx.1", from: "user:joe"}
	if got, want := inboxSubject(a), "cortex.v1.inbox._.echo.0.ctx=2E1.user=3Ajoe"; got != want {
		t.Errorf("inboxSubject = %q, want %q", got, want)
	}
	if got, err := parseInboxSubject(inboxSubject(a)); got != a || err != nil {
		t.Errorf("parseInboxSubject = %+v, %v, want %+v", got, err, a)
	}
	if got, want := timerSubject(a), "cortex.v1.timer._.echo.ctx=2E1"; got != want {
		t.Errorf("timerSubject = %q, want %q", got, want)
	}
	// The partition depends on the conversation, not on sender or receiver.
	b := inboxAddress{tenant: "", to: "cortex", context: "ctx.1", from: "echo"}
	if got := strings.Split(inboxSubject(b), ".")[5]; got != "0" {
		t.Errorf("partition = %s, want 0", got)
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
	seen := map[string]partitionID{}
	for _, topic := range []transport.Topic{
		transport.Inbox("", "cortex"), transport.Inbox("acme", "cortex"), transport.Inbox("", "0"), transport.Inbox("", "cortex,acme"),
		transport.Inbox("", "echo"), transport.Inbox("acme", "echo"), transport.Inbox("echo", "acme"), transport.Inbox("", long), transport.Inbox(long, "x"),
		transport.Inbox("0", "echo"), transport.Inbox("_", "echo"),
	} {
		for g := whole; g < transport.Partitions; g++ {
			s := partitionID{topic, g}
			name := s.consumer()
			if other, ok := seen[name]; ok {
				t.Errorf("%v and %v have the same consumer %q", s, other, name)
			}
			if len(name) > 128 || strings.ContainsAny(name, ".*> /\\") {
				t.Errorf("the consumer of %v is %q, which is no legal name", s, name)
			}
			seen[name] = s
		}
	}
	for s, want := range map[partitionID]string{
		{transport.Inbox("", "cortex"), 0}: "cortex-0", {transport.Inbox("acme", "cortex"), 1}: "cortex-1,acme",
		{transport.Inbox("acme", "echo"), whole}: "agent-echo,acme", {transport.Inbox("", "echo"), 2}: "agent-echo,_,2",
	} {
		if got := s.consumer(); got != want {
			t.Errorf("consumer of %v = %q, want %q", s, got, want)
		}
	}
}

// TestSections checks the filters of the partitions and of the whole inbox.
func TestSections(t *testing.T) {
	topic := transport.Inbox("acme", transport.Cortex)
	for p := range transport.Partitions {
		want := fmt.Sprintf("cortex.v1.inbox.acme.cortex.%d.>", p)
		if got := (partitionID{topic, p}).filter(); got != want {
			t.Errorf("filter of partition %d = %q, want %q", p, got, want)
		}
	}
	if got := (partitionID{topic, whole}).filter(); got != "cortex.v1.inbox.acme.cortex.>" {
		t.Errorf("filter of the whole = %q", got)
	}
}
