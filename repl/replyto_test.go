package repl

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestChatNamesWhatItRepliesTo checks that a message names the turn whose answer the chat has shown last: its own, or one of the same user elsewhere.
func TestChatNamesWhatItRepliesTo(t *testing.T) {
	var named []string
	_, asker := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
		m, _ := transport.Request(e)
		named = append(named, transport.MetaString(m, transport.MetaReplyTo))
		s.Answer(e, "Do it? Answer yes or no.")
	})
	asker.User = "user:ada"
	g := glass{vt10x.New(vt10x.WithSize(120, 20))}
	edit := newPlainEditor(strings.NewReader(""), io.Discard, nil)
	defer edit.Close()
	c := &chat{ui: &ui{screen: screen{w: g}, editor: edit}, contextID: "ctx", present: newPresence()}
	c.Client = asker
	ids := 0
	asker.NewID = func() string { ids++; return "m" + string(rune('0'+ids)) }
	own := func(id string) string { return transport.TurnID("", "ctx", "user:ada", id) }

	c.turn(t.Context(), "pay Bob") // m1
	c.turn(t.Context(), "yes")     // m2
	c.tell(t.Context(), "ctx", []Turn{{ID: "elsewhere", Who: "user:ada", Answer: &client.Line{}}}, map[string]bool{})
	c.turn(t.Context(), "yes") // m3
	c.tell(t.Context(), "ctx", []Turn{{ID: "another's", Who: "user:eve", Answer: &client.Line{}}}, map[string]bool{})
	c.turn(t.Context(), "yes") // m4
	c.follow(t.Context(), "other")
	c.turn(t.Context(), "hello")
	if diff := cmp.Diff([]string{"", own("m1"), "elsewhere", own("m3"), ""}, named); diff != "" {
		t.Errorf("the turns that were named (-want +got):\n%s", diff)
	}
}
