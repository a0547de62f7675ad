package conversation_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestRequesterOutlivesItsTurn has agents ask each other for a person whose own turn is answered, and leaves the window, while they are still at work:
// what they do, and what they ask for from then on, is the person's. So it is in the log, and in a snapshot of the time after that turn has left.
func TestRequesterOutlivesItsTurn(t *testing.T) {
	s := newScript(t)
	var log []*conversation.Entry
	step := func(from, id, words string, d *llm.Decision) { log = append(log, s.apply(says(from, id, words), d)) }
	step("user:ada", "m1", "do it", gives("alpha"))
	first := s.conv.Running()[0]
	root := s.conv.Turns[0].ID
	step("alpha", "m2", "help me", gives("beta"))
	log = append(log, s.apply(reports("alpha", "r1", first.ID, a2a.TaskStateCompleted, "done"), &llm.Decision{Kind: llm.KindRespond, Say: "It is done."}))
	for i := range 70 {
		step("user:ada", fmt.Sprint("p", i), "hello", &llm.Decision{Kind: llm.KindRespond, Say: "Hello."})
	}
	if s.conv.Turn(root) != nil {
		t.Fatal("the person's turn has not left the window")
	}
	step("beta", "m3", "help me, too", gives("gamma"))

	kept, err := s.conv.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	read, err := conversation.ReadSnapshot(kept)
	if err != nil {
		t.Fatal(err)
	}
	folded := conversation.NewConversation("", "c1")
	for _, e := range log {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again conversation.Entry
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if err := folded.Apply(&again); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]*conversation.Conversation{"the conversation": s.conv, "its snapshot": read, "its log": folded} {
		var asked []string
		for _, task := range c.Running() {
			turn := c.Turn(task.Turn)
			if asked = append(asked, turn.From); c.Requester(turn) != "user:ada" {
				t.Errorf("in %s, %s asks on behalf of %q, want user:ada", name, turn.From, c.Requester(turn))
			}
		}
		if len(asked) != 2 {
			t.Errorf("in %s there are requests of %v, want those of alpha and beta", name, asked)
		}
	}
}
