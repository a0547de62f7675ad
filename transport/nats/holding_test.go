package nats

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

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

// TestNobodyFillsWhatWaitsFromWithin has somebody speak by way of the process that does the work, as the console and A2A have them, to a conversation that is
// busy: what waits there has the same bound. Cancellations are taken beyond it, but not without end, and none is large.
func TestNobodyFillsWhatWaitsFromWithin(t *testing.T) {
	w := &town{dir: keys(t, "")}
	w.node = newNode(t, ServerOptions{Auth: w.dir})
	w.cortex = w.dial(t, nil)
	heard, release := make(chan string, 1000), make(chan struct{})
	inbox := transport.Inbox("", transport.Cortex)
	serveTopic(t, w.cortex, inbox, nil, func(e *transport.Event) error {
		heard <- e.ContextID
		if e.ContextID == "c1" {
			<-release
		}
		return nil
	})
	n := 0
	publish := func(who, contextID string, p transport.Payload) error {
		n++
		e := message(inbox, contextID, "")
		e.ID, e.From, e.Payload = fmt.Sprint("m", n), who, p
		return w.cortex.Publish(t.Context(), inbox, e)
	}
	say := func(who, contextID, text string) error {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
		m.ID = fmt.Sprint("m", n+1)
		return publish(who, contextID, m)
	}
	large := strings.Repeat("x", 900_000)
	err := say("eve", "c1", "hello")
	receive(t, heard) // the inbox is served
	taken := 1
	for ; err == nil && taken < 60; taken++ {
		err = say("eve", "c1", large)
	}
	if most := maxHeldBytesEach/len(large) + 10; taken > most || !errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), "go on when they are answered") {
		t.Errorf("%d were taken, and then %v; want at most %d, and why", taken, err, most)
	}
	if err := publish("eve", "c1", &transport.Cancel{}); err != nil {
		t.Errorf("a cancellation is refused: %v", err)
	}
	if err := publish("eve", "c1", &transport.Cancel{Turn: large}); !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("a large cancellation: %v, want ErrInvalid", err)
	}
	cancels := 0
	for err = nil; err == nil && cancels < 2*maxHeldCancels; cancels++ {
		err = publish("eve", "c1", &transport.Cancel{Turn: "t", Reason: strings.Repeat("x", transport.MaxCancelReason)})
	}
	if cancels < maxHeldCancels-10 || !errors.Is(err, transport.ErrFull) {
		t.Errorf("%d cancellations were taken, and then %v; want about %d", cancels, err, maxHeldCancels)
	}
	if err := say("bob", "c2", "hello"); err != nil {
		t.Errorf("another is refused: %v", err)
	}
	if got := receive(t, heard); got != "c2" {
		t.Errorf("%s is heard, want what another says", got)
	}
	close(release)
	eventually(t, "eve is let in again", func() bool { return say("eve", "c3", large) == nil })
}

// TestNamelessShareOne checks that programs of a bridge, which choose their names, have one share, of which one name leaves some to the others, and people have theirs.
func TestNamelessShareOne(t *testing.T) {
	in := &inbox{topic: transport.Inbox("", transport.Cortex), holds: map[string]holding{}}
	b := &Bus{ordered: []*inbox{in}}
	check := func(when string, refused map[string]string) {
		t.Helper()
		for _, who := range []string{"rockbot:x", "rockbot:y", "rockbot:new", "user:agenthub/a", "user:rockbot", "user:ann"} {
			if why := b.tooMuchHeld(in.topic, who, false); (why == "") != (refused[who] == "") || !strings.Contains(why, refused[who]) {
				t.Errorf("%s, %s is told %q, want %q", when, who, why, refused[who])
			}
			if why := b.tooMuchHeld(in.topic, who, true); why != "" {
				t.Errorf("%s, a cancellation of %s is refused: %s", when, who, why)
			}
		}
	}
	hold := func(who string, bytes int) { in.hold(&delivery{from: transport.Escape(who), bytes: bytes}, 1) }
	const most, all = maxHeldBytesEach / 4 * 3, "of all programs of this bridge"
	hold("rockbot:x", most)
	hold("user:ann", most+1)
	check("at the bound of a name", nil)
	hold("rockbot:x", 1)
	check("above it", map[string]string{"rockbot:x": "of rockbot:x"})
	hold("rockbot:y", maxHeldBytesEach-most-2)
	check("before the bound of all", map[string]string{"rockbot:x": "of rockbot:x", "rockbot:y": "of rockbot:y"})
	hold("rockbot:y", 1)
	check("at the bound of all", map[string]string{"rockbot:x": all, "rockbot:y": all, "rockbot:new": all})
	few := &delivery{from: transport.Escape("rockbot:x"), cancel: true}
	in.hold(few, maxHeldCancels/4*3+1)
	for who, want := range map[string]string{"rockbot:x": "of rockbot:x", "rockbot:y": ""} {
		if why := b.tooMuchHeld(in.topic, who, true); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("with many cancellations of rockbot:x, one of %s is told %q, want %q", who, why, want)
		}
	}
	in.hold(few, -maxHeldCancels/4*3-1)
	for who, sizes := range map[string][]int{"rockbot:x": {most, 1}, "rockbot:y": {maxHeldBytesEach - most - 2, 1}, "user:ann": {most + 1}} {
		for _, n := range sizes {
			in.hold(&delivery{from: transport.Escape(who), bytes: n}, -1)
		}
	}
	if len(in.holds) != 0 || in.heldBytes != 0 {
		t.Errorf("at the end it holds %v, %d bytes", in.holds, in.heldBytes)
	}
}
