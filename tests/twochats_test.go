package tests

import (
	"strings"
	"testing"
	"time"
)

// trimmed returns the rows of a screen, without trailing spaces.
func trimmed(x *terminal) string {
	var rows []string
	for row := range strings.Lines(x.text()) {
		rows = append(rows, strings.TrimRight(row, " \n"))
	}
	return strings.Join(rows, "\n")
}

// TestTwoChatsInOneConversation lets two chats on two terminals, and a command, speak in one conversation: each chat shows the messages and answers
// of the others, once and marked, and above the line that its own user is typing.
func TestTwoChatsInOneConversation(t *testing.T) {
	t.Parallel()
	rows := func(x *terminal, want string) {
		t.Helper()
		poll := time.NewTicker(10 * time.Millisecond)
		defer poll.Stop()
		for end := time.Now().Add(patience); !strings.Contains(trimmed(x), want); <-poll.C {
			if time.Now().After(end) {
				t.Fatalf("the screen never shows %q:\n%s", want, trimmed(x))
			}
		}
	}
	data := t.TempDir()
	ann := open(t, "chat", "--data", data, "--context", "trip")
	rows(ann, "3 agents online")
	bob := open(t, "chat", "--data", data, "--context", "trip")
	rows(bob, "3 agents online")
	ann.types("what time is it in Tokyo?\r")
	rows(ann, "> what time is it in Tokyo?\n✓ agent_clock")
	rows(bob, "you, elsewhere: what time is it in Tokyo?\ncortex, elsewhere: Tokyo (Asia/Tokyo): ")
	bob.types("and this is typed mean")
	rows(bob, "> and this is typed mean")
	ann.types("what is 17*23?\r")
	rows(bob, "you, elsewhere: what is 17*23?\ncortex, elsewhere: 17*23 = 391\n> and this is typed mean\n")
	bob.types("while\x15")
	command := open(t, "ask", "--data", data, "--context", "trip", "times 2")
	command.shows("391 times 2 = 782")
	command.ends(0)
	for _, chat := range []*terminal{ann, bob} {
		rows(chat, "you, elsewhere: times 2\ncortex, elsewhere: 391 times 2 = 782\n>")
	}
	// Both at once.
	ann.types("echo of Ann\r")
	bob.types("echo of Bob\r")
	for chat, names := range map[*terminal][2]string{ann: {"Ann", "Bob"}, bob: {"Bob", "Ann"}} {
		own, other := names[0], names[1]
		rows(chat, "\nEcho: of "+own+"\n")
		rows(chat, "\nyou, elsewhere: echo of "+other+"\n")
		rows(chat, "\ncortex, elsewhere: Echo: of "+other+"\n")
		chat.types("/usage\r")
		rows(chat, "no model was asked")
		if text := trimmed(chat); strings.Contains(text, "elsewhere: echo of "+own) || strings.Count(text, "Echo: of "+other) != 1 {
			t.Errorf("the chat of %s shows\n%s", own, text)
		}
	}
	// Another conversation shows nothing of this one.
	bob.types("/new\r")
	rows(bob, "a new conversation: ")
	ann.types("echo for nobody\r")
	rows(ann, "\nEcho: for nobody\n")
	bob.types("/resume trip\r")
	rows(bob, "going on with trip")
	ann.types("echo for Bob\r")
	rows(bob, "you, elsewhere: echo for Bob\ncortex, elsewhere: Echo: for Bob\n")
	if text := trimmed(bob); strings.Contains(text, "elsewhere: echo for nobody") {
		t.Errorf("the chat of another conversation shows\n%s", text)
	}
	for _, chat := range []*terminal{bob, ann} {
		chat.types("\x04")
		chat.ends(0)
	}
}
