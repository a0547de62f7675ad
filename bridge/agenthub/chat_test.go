package agenthub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// cli starts a session of a chat_cli, and waits until the hub knows it.
func (w *world) cli() *hubtest.CLI {
	w.T.Helper()
	c := &hubtest.CLI{Hub: w.dial()}
	w.subscribe(c.Subscribe, "agent_chat_cli")
	return c
}

// repl starts a chat_repl, whose clock never ends its waiting.
func (w *world) repl(stamp int64) *hubtest.REPL {
	w.T.Helper()
	c := &hubtest.REPL{Hub: w.dial(), After: func(time.Duration) <-chan time.Time { return nil }, Stamp: func() int64 { return stamp }}
	w.subscribe(c.Subscribe, "agent_chat_repl")
	return c
}

// subscribe calls f, and waits until the hub has another stream of a peer.
func (w *world) subscribe(f func(context.Context) error, of string) {
	w.T.Helper()
	before := len(w.hub.exchange.to(messages, of, ""))
	must(w.T, f(w.T.Context()))
	w.Until(of+" has subscribed", func() bool { return len(w.hub.exchange.to(messages, of, "")) > before })
}

func kindOf(m *hubpb.Message) string { return meta(m.Metadata, "task_type") }

// notes returns the chats that are noted.
func (w *world) notes() (keys []string) {
	for n, err := range w.Store.Notes(context.Background(), "", storage.NoteReply) {
		must(w.T, err)
		keys = append(keys, n.Key)
	}
	return keys
}

// idle waits until all messages are answered.
func (w *world) idle() {
	w.T.Helper()
	w.Until("all is answered", func() bool {
		w.hub.chats.mu.Lock()
		defer w.hub.chats.mu.Unlock()
		return len(w.hub.chats.open) == 0
	})
}

// TestCLI has a chat_cli talk, whose context is a conversation.
func TestCLI(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.cli()
	for _, text := range []string{"hello", "and again"} {
		id, err := c.Say(t.Context(), text)
		must(t, err)
		m := receive(t, "the answer", c.Shown)
		if m.Content[0].GetText() != "you said "+text || kindOf(m) != chatResponse || meta(m.Metadata, "original_message_id") != id || m.ContextId != c.Context ||
			m.TaskId != "" || m.Role != hubpb.Role_ROLE_AGENT || meta(m.Metadata, "from_agent") != "cortex" {
			t.Errorf("the answer is %v", m)
		}
	}
	w.Until("nothing is noted", func() bool { return len(w.notes()) == 0 })
}

// TestOwnConversation checks that what a chat says is for a conversation of its own: in one that somebody else has begun under its id it is refused.
func TestOwnConversation(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.cli()
	_, err := c.Say(t.Context(), "hello")
	must(t, err)
	receive(t, "the answer", c.Shown)
	for e, err := range w.Store.Load(t.Context(), "", contextID("agent_chat_cli", c.Context), 0) {
		must(t, err)
		if m, ok := transport.Request(e.Cause); ok && m.Metadata[transport.MetaOwn] != true {
			t.Errorf("the message has the metadata %v", m.Metadata)
		}
		return
	}
	t.Error("the conversation is not there")
}

// TestREPL has a chat_repl talk: each line has one answer.
func TestREPL(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.repl(1)
	for i := range 3 {
		text := fmt.Sprint("line ", i)
		if shown, ok, err := c.Line(t.Context(), text); shown != "you said "+text || !ok || err != nil {
			t.Fatalf("%s: it shows %q, %t, %v", text, shown, ok, err)
		}
	}
}

// TestTwoREPLs checks that two chat_repls do not get each other's answers, although they have one name and the same ids: what one shows is never the
// answer to the other's line, and no line stays without an answer.
func TestTwoREPLs(t *testing.T) {
	w := newWorld(t)
	w.serve()
	a, b := w.repl(7), w.repl(7)
	for i := range 3 {
		for name, c := range map[string]*hubtest.REPL{"a": a, "b": b} {
			text := fmt.Sprint(name, i)
			if shown, ok, err := c.Line(t.Context(), text); shown != "you said "+text || !ok || err != nil {
				t.Fatalf("%s: it shows %q, %t, %v", text, shown, ok, err)
			}
		}
	}
}

// TestLate checks that whoever waits gets one response in time, and the answer as a result, which a chat_repl shows at its next line.
func TestLate(t *testing.T) {
	w := newWorld(t)
	w.times.answer = 50 * time.Millisecond
	w.serve()
	c, r := w.cli(), w.repl(1)
	_, err := c.Say(t.Context(), "slow one")
	must(t, err)
	if m := receive(t, "the response", c.Shown); kindOf(m) != chatResponse || m.Content[0].GetText() != "This takes longer. The answer comes when it is there." {
		t.Errorf("the response is %v", m)
	}
	if shown, ok, err := r.Line(t.Context(), "slow two"); !ok || err != nil || shown != "This takes longer. The answer comes when it is there." {
		t.Errorf("it shows %q, %t, %v", shown, ok, err)
	}
	close(w.gate)
	m := receive(t, "the result", c.Shown)
	if kindOf(m) != taskResult || m.Content[0].GetText() != "you said slow one" || meta(m.Metadata, "task_id") == "" || m.ContextId != c.Context || m.TaskId != "" {
		t.Errorf("the result is %v", m)
	}
	w.Until("all is answered", func() bool { return len(w.notes()) == 0 })
	if shown, ok, err := r.Line(t.Context(), "next"); !ok || err != nil || shown != "you said slow two" {
		t.Errorf("it shows %q, %t, %v", shown, ok, err)
	}
}

// TestSaidAgain checks that a message that is sent again is one turn, with one answer as long as whoever got it is there, and that the same id with
// another text is another message.
func TestSaidAgain(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.cli()
	must(t, c.Send(t.Context(), "m1", "slow"))
	must(t, c.Send(t.Context(), "m1", "slow"))
	close(w.gate)
	receive(t, "the answer", c.Shown)
	w.idle()
	must(t, c.Send(t.Context(), "m1", "slow"))
	w.idle()
	must(t, c.Send(t.Context(), "m1", "another"))
	if m := receive(t, "the answer to the other message", c.Shown); m.Content[0].GetText() != "you said another" {
		t.Errorf("the answer is %v", m)
	}
}

// TestAnsweredAgain checks that a message that is sent again is answered again when whoever got the answer has gone.
func TestAnsweredAgain(t *testing.T) {
	w := newWorld(t)
	w.serve()
	hub, end, err := hubtest.Dial(w.address)
	must(t, err)
	c := &hubtest.CLI{Hub: hub}
	w.subscribe(c.Subscribe, "agent_chat_cli")
	must(t, c.Send(t.Context(), "m1", "hello"))
	receive(t, "the answer", c.Shown)
	end()
	w.Until("it has gone", func() bool { return len(w.hub.exchange.to(messages, "agent_chat_cli", "")) == 0 })
	again := &hubtest.CLI{Hub: w.dial(), Context: c.Context}
	w.subscribe(again.Subscribe, "agent_chat_cli")
	must(t, again.Send(t.Context(), "m1", "hello"))
	if m := receive(t, "the answer", again.Shown); m.Content[0].GetText() != "you said hello" {
		t.Errorf("the answer is %v", m)
	}
}

// TestAway checks that an answer waits for whoever has asked, and comes as a result, since a program that subscribes later waits for no response.
func TestAway(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := &hubtest.CLI{Hub: w.dial(), Context: "x"}
	must(t, c.Send(t.Context(), "m1", "hello"))
	must(t, c.Subscribe(t.Context()))
	if m := receive(t, "the answer", c.Shown); kindOf(m) != taskResult || m.Content[0].GetText() != "you said hello" {
		t.Errorf("the answer is %v", m)
	}
}

// TestNobodyAsks checks that an answer that nobody takes is dropped some time later.
func TestNobodyAsks(t *testing.T) {
	w := newWorld(t)
	w.times.undelivered = 50 * time.Millisecond
	w.serve()
	c := &hubtest.CLI{Hub: w.dial(), Context: "x"}
	must(t, c.Send(t.Context(), "m1", "hello"))
	w.Until("it is dropped", func() bool { return len(w.notes()) == 0 })
}

// TestHubAgain checks that a hub that is started again answers what was accepted before.
func TestHubAgain(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.cli()
	must(t, c.Send(t.Context(), "m1", "slow"))
	w.stop()
	if len(w.notes()) != 1 {
		t.Fatalf("noted: %q", w.notes())
	}
	w.serve()
	again := w.cli()
	close(w.gate)
	m := receive(t, "the answer", again.Shown)
	if kindOf(m) != taskResult || m.Content[0].GetText() != "you said slow" || m.ContextId != c.Context || meta(m.Metadata, "original_message_id") != "m1" {
		t.Errorf("the answer is %v", m)
	}
	w.Until("nothing is noted", func() bool { return len(w.notes()) == 0 })
}

// TestResponder checks that Cortex leaves AgentHub's chats to a chat_responder that is there.
func TestResponder(t *testing.T) {
	w := newWorld(t)
	w.serve()
	go hubtest.Responder(t.Context(), w.dial()) //nolint:errcheck // it ends with the test
	w.Until("it has subscribed", func() bool { return len(w.hub.exchange.to(messages, responder, "")) == 1 })
	c := w.repl(1)
	if shown, ok, err := c.Line(t.Context(), "hello"); shown != "responder: hello" || !ok || err != nil {
		t.Errorf("it shows %q, %t, %v", shown, ok, err)
	}
	if len(w.notes()) > 0 {
		t.Errorf("Cortex answers as well: %q", w.notes())
	}
}

// TestFull checks that a peer has only so many messages without an answer.
func TestFull(t *testing.T) {
	w := newWorld(t)
	w.times.answer = time.Minute
	w.Client.Poll = time.Minute
	w.serve()
	w.hub.pace.Now = hurried()
	c := w.cli()
	for i := range maxOwnChats {
		must(t, c.Send(t.Context(), fmt.Sprint(i), "slow"))
	}
	if err := c.Send(t.Context(), "more", "slow"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	close(w.gate)
	var got []string
	for range maxOwnChats {
		m := receive(t, "the answers", c.Shown)
		got = append(got, meta(m.Metadata, "original_message_id"))
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != maxOwnChats {
		t.Errorf("%d of %d are answered", n, maxOwnChats)
	}
}

// hurried returns a clock by which each look is a second after the one before: nobody asks too often.
func hurried() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.Unix(looks.Add(1), 0) }
}

// TestMachineAsksTooOften has peers of many names ask by connections of one machine, more than its share: the rest is refused, whatever they call themselves.
func TestMachineAsksTooOften(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hub.pace.Now = func() time.Time { return time.Unix(1, 0) }
	all := []hubpb.AgentHubClient{w.dial(), w.dial()}
	taken := 0
	for n := range 2 * transport.AgentWorkBurst {
		_, err := all[n%len(all)].PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{MessageId: "m", ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("hello")}},
			Routing: &hubpb.AgentEventMetadata{FromAgentId: fmt.Sprint("peer", n), ToAgentId: "cortex"},
		})
		switch {
		case err == nil:
			taken++
		case status.Code(err) != codes.ResourceExhausted:
			t.Fatalf("the %d. message: %v", n+1, err)
		}
	}
	if taken != transport.AgentWorkBurst {
		t.Errorf("%d messages of one machine are taken, want %d", taken, transport.AgentWorkBurst)
	}
}

// TestChatsOfAMachine has peers of many names at one machine ask as much as they can: there is room for those of others, and on this machine. So is beside one program of it.
func TestChatsOfAMachine(t *testing.T) {
	cs := &chats{open: map[string]*chat{}}
	enter := func(peer, conn string) bool {
		c := newChat(&hubpb.Message{MessageId: "m", ContextId: peer}, peer, "cortex")
		c.conn = conn
		_, _, err := cs.enter(c)
		return err == nil
	}
	taken := 0
	for n := range 2 * maxChats {
		if enter(fmt.Sprint("many", n), fmt.Sprint("192.0.2.7:", n)) {
			taken++
		}
	}
	if taken != maxChats*3/4 || !enter("ada", "192.0.2.8:1") || !enter("bob", "127.0.0.1:1") {
		t.Errorf("one machine has %d of %d chats, or others have none", taken, maxChats)
	}
	clear(cs.open)
	taken = 0
	for n := range 2 * maxChats {
		if enter(fmt.Sprint("many", n), "127.0.0.1:1") {
			taken++
		}
	}
	if taken != maxChats*3/4 || !enter("ada", "192.0.2.8:1") || !enter("bob", "127.0.0.1:2") {
		t.Errorf("one program has %d of %d chats, or others have none", taken, maxChats)
	}
}

// TestUnstored checks that a message is not accepted while Cortex cannot store it.
func TestUnstored(t *testing.T) {
	w := newWorld(t)
	w.serve()
	c := w.cli()
	w.Bus.Close()
	if err := c.Send(t.Context(), "m1", "hello"); status.Code(err) != codes.Unavailable {
		t.Errorf("the error is %v", err)
	}
}

// TestNoRoom has messages refused that there is no room for: peers learn that, and not that Cortex is away.
func TestNoRoom(t *testing.T) {
	for _, full := range []error{transport.ErrFull, transport.ErrFilesFull} {
		if err := unsent(fmt.Errorf("store a file: %w", full)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the error is %v, want ResourceExhausted", err)
		}
	}
}

// TestCortexsAgent checks that a program can speak to an agent of Cortex that is none of the hub's.
func TestCortexsAgent(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		card := &a2a.AgentCard{Name: "near", Skills: []a2a.AgentSkill{{ID: "one", Name: "One"}, {ID: "two", Name: "Two"}}}
		left <- agents.Serve(ctx, w.Bus, card, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			return agents.Text(task.Skill + " of near: " + task.Text()), nil
		}), &agents.Options{Grace: -1})
	}()
	t.Cleanup(func() {
		leave()
		<-left
	})
	w.Until("the agent is there", func() bool { return w.Has("near") })
	c := w.cli()
	_, err := c.Hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
		Message: &hubpb.Message{MessageId: "m", ContextId: c.Context, Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("dig")}, Metadata: hubtest.Metadata("task_type", "Two")},
		Routing: &hubpb.AgentEventMetadata{FromAgentId: "agent_chat_cli", ToAgentId: "near"},
	})
	must(t, err)
	if m := receive(t, "the answer", c.Shown); m.Content[0].GetText() != "two of near: dig" || meta(m.Metadata, "from_agent") != "near" {
		t.Errorf("the answer is %v", m)
	}
}

// TestChatsOfNobody fills all chats with messages whose answers nobody takes: others can ask all the same, in place of the oldest of whoever has most of
// them. A chat that Cortex still works on is never given up.
func TestChatsOfNobody(t *testing.T) {
	cs := &chats{open: map[string]*chat{}}
	enter := func(peer string, n int) (*chat, error) {
		c := newChat(&hubpb.Message{MessageId: fmt.Sprint(n), ContextId: peer}, peer, "cortex")
		c.At = time.Unix(int64(n), 0)
		_, first, err := cs.enter(c)
		if err == nil && !first {
			t.Errorf("%s has asked %d before", peer, n)
		}
		return c, err
	}
	var all []*chat
	for n := range maxChats {
		c, err := enter(fmt.Sprint("peer", n/maxOwnChats), n)
		must(t, err)
		all = append(all, c)
	}
	if _, err := enter("honest", 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("all are worked on: %v", err)
	}
	var gone []int
	for _, n := range []int{0, 2*maxOwnChats + 7, 2*maxOwnChats + 8} { // of two peers
		cs.waits(all[n], func() { gone = append(gone, n) })
	}
	for n := range 3 {
		if _, err := enter("honest", n); err != nil {
			t.Errorf("the %d. message: %v", n+1, err)
		}
	}
	if want := []int{2*maxOwnChats + 7, 0, 2*maxOwnChats + 8}; !slices.Equal(gone, want) {
		t.Errorf("%v were given up, want %v", gone, want)
	}
	if _, err := enter("honest", 4); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("none is left to give up: %v", err)
	}
	if _, err := enter("peer0", 0); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one that was given up comes again before it has ended: %v", err)
	}
	cs.leave(all[0])
	cs.leave(all[1])
	if _, err := enter("peer0", 0); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestAnswersThatNobodyTakes has a peer without a subscription ask once more than it may: its oldest answer is given up, and its note goes.
func TestAnswersThatNobodyTakes(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hub.pace.Now = hurried()
	hub := w.dial()
	waiting := func() (n int) {
		w.hub.chats.mu.Lock()
		defer w.hub.chats.mu.Unlock()
		for _, c := range w.hub.chats.open {
			if c.giveUp != nil && !c.gone {
				n++
			}
		}
		return n
	}
	for n := range maxOwnChats + 1 {
		w.Until("all answers wait", func() bool { return n < maxOwnChats || waiting() == maxOwnChats })
		_, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{MessageId: fmt.Sprint(n), ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("hello")}},
			Routing: &hubpb.AgentEventMetadata{FromAgentId: "nobody", ToAgentId: "cortex"},
		})
		must(t, err)
	}
	w.Until("one is given up", func() bool { return waiting() == maxOwnChats && len(w.notes()) == maxOwnChats })
}

// TestDamagedNotes has a note of a peer's message that cannot be read: that is said, and the others are answered.
func TestDamagedNotes(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{contextID("peer", "c") + ".m", "rockbot-1.2"} { // one of another bridge
		_, err := w.Store.PutNote(t.Context(), "", storage.NoteReply, storage.Note{Key: key, Value: []byte(`{"peer":`)})
		must(t, err)
	}
	w.serve()
	w.Until("it is said", func() bool {
		return strings.Contains(w.Log.String(), "notes of AgentHub's messages cannot be read") && strings.Contains(w.Log.String(), "n=1")
	})
}

// TestFilesOfPeers has peers of two names bring files that are stored beside the conversation: they count as those of one, who is nobody else.
func TestFilesOfPeers(t *testing.T) {
	w := newWorld(t)
	w.serve()
	hub := w.dial()
	for _, peer := range []string{"one", "other"} {
		m := &hubpb.Message{MessageId: "m", ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{
			hubtest.Text("look"), filePart("big.bin", "application/octet-stream", make([]byte, transport.MaxInlineFile+1)),
		}}
		_, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{Message: m, Routing: &hubpb.AgentEventMetadata{FromAgentId: peer, ToAgentId: "cortex"}})
		must(t, err)
	}
	files := 0
	for o, err := range w.Bus.Objects(t.Context(), "") {
		must(t, err)
		if files++; o.From != hostName {
			t.Errorf("a file is one of %s", o.From)
		}
	}
	if files != 2 {
		t.Errorf("there are %d files", files)
	}
}
