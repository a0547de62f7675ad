package nats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestNobodyFillsWhatWaits makes a person send large messages after one that takes long: beyond the person's part of the memory they are refused,
// while cancellations and other people's messages are accepted; when the first is handled, the person's are accepted again.
func TestNobodyFillsWhatWaits(t *testing.T) {
	w := &town{dir: keys(t, "")}
	w.node = newNode(t, ServerOptions{Auth: w.dir})
	w.cortex = w.dial(t, nil)
	heard, release := make(chan string, 1000), make(chan struct{})
	serveTopic(t, w.cortex, transport.Inbox("", transport.Cortex), nil, func(e *transport.Event) error {
		heard <- e.ContextID
		if e.ContextID == "c1" {
			<-release
		}
		return nil
	})
	eve, bob := w.intruder(t, userCreds(t, w.dir, "", "eve")), w.intruder(t, userCreds(t, w.dir, "", "bob"))
	to := func(in *intruder, contextID string) string {
		return inboxSubject(inboxAddress{to: transport.Cortex, context: contextID, from: in.who.ID})
	}
	large := fmt.Sprintf(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":%q}]}`, strings.Repeat("x", 900_000))
	n, taken := 0, 0
	say := func(in *intruder, contextID, kind, body string) (int, string) {
		n++
		return in.says(t, to(in, contextID), kind, strings.Replace(body, `"m"`, fmt.Sprintf(`"m%d"`, n), 1), headerID, fmt.Sprintf("m%d", n))
	}
	var why string
	for code := 0; code == 0 && taken < 60; taken++ {
		if code, why = say(eve, "c1", "message", large); code != 0 && code != codeTooMuch {
			t.Fatalf("refused with %d %q", code, why)
		}
	}
	if most := maxHeldBytesEach/len(large) + 10; taken > most || !strings.Contains(why, "go on when they are answered") {
		t.Errorf("%d were taken, and then %q; want at most %d, and why", taken, why, most)
	}
	if code, why := say(eve, "c1", "cancel", `{}`); code != 0 {
		t.Errorf("a cancellation is refused with %d %q", code, why)
	}
	if receive(t, heard); len(heard) != 0 {
		t.Fatalf("%s is heard before the first one is done", <-heard)
	}
	if code, why := say(bob, "c2", "message", `{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}`); code != 0 {
		t.Errorf("another is refused with %d %q", code, why)
	}
	if got := receive(t, heard); got != "c2" {
		t.Errorf("%s is heard, want what another says", got)
	}
	close(release)
	for range taken - 1 { // the accepted ones except the first, and the cancellation
		receive(t, heard)
	}
	eventually(t, "eve is let in again", func() bool { code, _ := say(eve, "c3", "message", large); return code == 0 })
}
