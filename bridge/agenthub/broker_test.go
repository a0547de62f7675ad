package agenthub

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
)

// elsewhere starts a broker, at the same address as before.
func (w *world) elsewhere() (b *hubtest.Broker, stop func()) {
	w.T.Helper()
	at := w.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	b = &hubtest.Broker{}
	var err error
	w.address, stop, err = b.Serve(at)
	must(w.T, err)
	stop = sync.OnceFunc(stop)
	w.T.Cleanup(stop)
	return b, stop
}

// connect connects Cortex to the broker.
func (w *world) connect(b *hubtest.Broker, id string) *broker {
	w.T.Helper()
	is, err := newBroker(w.Site(), w.prefix, id, w.times)
	must(w.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- is.run(ctx, func(ctx context.Context) error { return is.connect(ctx, w.address) })
	}()
	w.T.Cleanup(func() {
		cancel()
		<-ended
	})
	if b != nil {
		w.connected(b, is)
	}
	return is
}

// connected waits until Cortex has subscribed.
func (w *world) connected(b *hubtest.Broker, is *broker) {
	w.T.Helper()
	w.Until("Cortex has subscribed", func() bool {
		is.mu.Lock()
		defer is.mu.Unlock()
		return is.up && b.Has("messages", is.id) && b.Has("tasks", is.id) && b.Has("events", is.id) && (is.id != "cortex" || b.Has("messages", responder))
	})
}

// begin runs an agent at the broker, and waits until it has subscribed there.
func (w *world) begin(b *hubtest.Broker, a *hubtest.SubAgent) (leave func()) {
	w.T.Helper()
	leave = w.run(a)
	w.Until(a.ID+" has subscribed", func() bool { return b.Has("tasks", a.ID) })
	return leave
}

// TestBrokersAgent has Cortex give work to an agent by way of a broker, which is started again.
func TestBrokersAgent(t *testing.T) {
	w := newWorld(t)
	b, stop := w.elsewhere()
	is := w.connect(b, "cortex")
	leave := w.begin(b, hubtest.Echo())
	w.Until("Cortex knows the agent", func() bool { return w.Has("agent_echo") })
	if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: Echo: hi" {
		t.Errorf("the answer is %q", got)
	}
	stop()
	leave()
	w.Until("the agent is gone", func() bool { return !w.Has("agent_echo") })
	b, _ = w.elsewhere()
	w.connected(b, is)
	w.begin(b, hubtest.Echo())
	w.Until("Cortex knows the agent", func() bool { return w.Has("agent_echo") })
	if got := w.ask("c", "agent_echo: again"); got != "TASK_STATE_COMPLETED: Echo: again" {
		t.Errorf("the answer is %q", got)
	}
}

// TestBrokerIsBackSoon checks that an agent stays one of Cortex's while the broker is started again, and gets what it was given meanwhile.
func TestBrokerIsBackSoon(t *testing.T) {
	w := newWorld(t)
	w.times.grace = time.Minute
	b, stop := w.elsewhere()
	is := w.connect(b, "cortex")
	a := hubtest.Echo()
	leave := w.begin(b, a)
	w.Until("Cortex knows the agent", func() bool { return w.Has("agent_echo") })
	stop()
	leave()
	w.Until("Cortex notices", func() bool {
		is.mu.Lock()
		defer is.mu.Unlock()
		return !is.up
	})
	if !w.Has("agent_echo") {
		t.Error("the agent is gone at once")
	}
	w.Until("it tells that it waits", func() bool { return w.Waits() != nil })
	b, _ = w.elsewhere()
	w.connected(b, is)
	if why := w.Waits(); why != nil {
		t.Errorf("it works, and tells that it waits: %v", why)
	}
	if !w.Has("agent_echo") {
		t.Error("the agent is not there any more")
	}
	w.begin(b, hubtest.Echo())
	if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: Echo: hi" {
		t.Errorf("the answer is %q", got)
	}
}

// TestBrokersChats has Cortex answer the chats at a broker, which tells everybody everything.
func TestBrokersChats(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	w.connect(b, "cortex")
	c := &hubtest.CLI{Hub: w.dial()}
	must(t, c.Subscribe(t.Context()))
	r := &hubtest.REPL{Hub: w.dial(), After: func(time.Duration) <-chan time.Time { return nil }}
	must(t, r.Subscribe(t.Context()))
	w.Until("they have subscribed", func() bool { return b.Has("messages", "agent_chat_cli") && b.Has("messages", "agent_chat_repl") })
	for _, text := range []string{"hello", "and again"} {
		_, err := c.Say(t.Context(), text)
		must(t, err)
		if m := receive(t, "the answer", c.Shown); m.Content[0].GetText() != "you said "+text || kindOf(m) != chatResponse {
			t.Errorf("the answer is %v", m)
		}
		if shown, ok, err := r.Line(t.Context(), text); shown != "you said "+text || !ok || err != nil {
			t.Errorf("it shows %q, %t, %v", shown, ok, err)
		}
	}
}

// TestBrokersQuestion checks that a reply gets through at a broker, where an agent is given the first message of a task again and again.
func TestBrokersQuestion(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	w.connect(b, "cortex")
	a := hubtest.Echo()
	a.Skills[0].Do = func(_ context.Context, _ *hubpb.Task, m *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
		text := words(m)
		if !strings.Contains(text, "deep") {
			return hubpb.TaskState_TASK_STATE_INPUT_REQUIRED, &hubpb.Artifact{ArtifactId: "q", Parts: []*hubpb.Part{hubtest.Text("How deep?")}}
		}
		return completed, &hubpb.Artifact{ArtifactId: "a", Parts: []*hubpb.Part{hubtest.Text(text)}}
	}
	w.begin(b, a)
	w.Until("Cortex knows the agent", func() bool { return w.Has("agent_echo") })
	if got := w.ask("c", "agent_echo: dig"); !strings.Contains(got, "How deep?") {
		t.Errorf("the question is %q", got)
	}
	turn, err := w.Client.Send(t.Context(), client.Text("c", "two metres deep"))
	must(t, err)
	if got := w.Answer(turn); got != "TASK_STATE_COMPLETED: dig\ntwo metres deep" {
		t.Errorf("the answer is %q", got)
	}
}

// TestBrokerHasACortex checks that under another id Cortex leaves the chats to the cortex that is there.
func TestBrokerHasACortex(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	w.connect(b, "second")
	c := &hubtest.CLI{Hub: w.dial()}
	must(t, c.Subscribe(t.Context()))
	w.Until("it has subscribed", func() bool { return b.Has("messages", "agent_chat_cli") })
	_, err := c.Say(t.Context(), "hello")
	must(t, err)
	w.begin(b, hubtest.Echo())
	w.Until("Cortex knows the agent", func() bool { return w.Has("agent_echo") })
	if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: Echo: hi" {
		t.Errorf("the answer is %q", got)
	}
	if len(w.notes()) > 0 || len(c.Shown) > 0 {
		t.Error("Cortex answers what is for another")
	}
}

// TestBrokersMessagesWait checks that messages of the broker which wait to be stored take no more memory than they may, and that a peer is told whose message
// is not taken.
func TestBrokersMessagesWait(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	is := w.connect(b, "cortex")
	message := func(id string) *hubpb.AgentEvent {
		m := &hubpb.Message{MessageId: id, ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{textPart("hello")}}
		return &hubpb.AgentEvent{
			Payload: &hubpb.AgentEvent_Message{Message: m}, Routing: &hubpb.AgentEventMetadata{FromAgentId: "peer", ToAgentId: "cortex", EventType: "message"},
		}
	}
	if !is.refused.TryAcquire(maxRefused) { // what is refused is told so at once
		t.Fatal("something waits")
	}
	is.chats.mu.Lock()
	is.message(message("one"))
	if is.waiting.TryAcquire(maxWaiting) {
		t.Error("a message that waits takes nothing")
	}
	for i := range maxOwnChats {
		is.chats.open[fmt.Sprint(i)] = &chat{Peer: "peer"}
	}
	is.chats.mu.Unlock()
	w.Until("nothing waits any more", func() bool { return is.waiting.TryAcquire(maxWaiting) })
	is.waiting.Release(maxWaiting)
	w.Until("it is logged", func() bool { return strings.Contains(w.Log.String(), "too many messages wait for their answers") })
	stream, err := w.dial().SubscribeToMessages(t.Context(), &hubpb.SubscribeToMessagesRequest{AgentId: "peer"})
	must(t, err)
	w.Until("the peer has subscribed", func() bool { return b.Has("messages", "peer") })
	is.message(message("two"))
	e, err := stream.Recv()
	must(t, err)
	if text := words(e.GetMessage()); !strings.Contains(text, "too many messages wait") || meta(e.GetMessage().Metadata, "original_message_id") != "two" {
		t.Errorf("the peer hears %v", e)
	}
}

// TestBrokersBurst has a peer ask more at once than all peers of a broker may: the broker tells nobody to ask again later, so that a message waits until it may
// be asked, and is answered. It holds up no others meanwhile, and where there is no room for that, the peer is told at once.
func TestBrokersBurst(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	is := w.connect(b, "cortex")
	var now atomic.Int64
	is.pace.Now = func() time.Time { return time.Unix(now.Load(), 0) }
	stream, err := w.dial().SubscribeToMessages(t.Context(), &hubpb.SubscribeToMessagesRequest{AgentId: "peer"})
	must(t, err)
	w.Until("the peer has subscribed", func() bool { return b.Has("messages", "peer") })
	for is.pace.Admit(kit.Host(""), 0) == nil {
	}
	say := func(id string) {
		is.message(&hubpb.AgentEvent{
			Payload: &hubpb.AgentEvent_Message{Message: &hubpb.Message{MessageId: id, ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{textPart("hello")}}},
			Routing: &hubpb.AgentEventMetadata{FromAgentId: "peer", ToAgentId: "cortex", EventType: "message"},
		})
	}
	hears := func(id, want string) {
		t.Helper()
		e, err := stream.Recv()
		must(t, err)
		if m := e.GetMessage(); !strings.Contains(words(m), want) || meta(m.Metadata, "original_message_id") != id {
			t.Errorf("the peer hears %v, want %q for %s", m, want, id)
		}
	}
	say("first")
	w.Until("it waits where it holds up no others", func() bool {
		aside := !is.refused.TryAcquire(maxRefused)
		if !aside {
			is.refused.Release(maxRefused)
		}
		free := is.waiting.TryAcquire(maxWaiting)
		if free {
			is.waiting.Release(maxWaiting)
		}
		return aside && free
	})
	for is.refused.TryAcquire(waiterWeight) {
	}
	say("second")
	hears("second", "ask again later")
	now.Store(60)
	hears("first", "you said hello")
}

// TestBrokersNames has a broker name more agents than there may be: no more is remembered of them.
func TestBrokersNames(t *testing.T) {
	w := newWorld(t)
	b, _ := w.elsewhere()
	is := w.connect(b, "cortex")
	is.mu.Lock()
	for i := range maxGuests {
		is.known[fmt.Sprint("agent-", i)] = true
	}
	is.mu.Unlock()
	is.card(t.Context(), &hubpb.AgentCardEvent{AgentCard: &hubpb.AgentCard{Name: "another"}, EventType: "registered"})
	is.guests.mu.Lock()
	defer is.guests.mu.Unlock()
	if n := is.guests.streams["another"]; n != 0 {
		t.Errorf("it has %d streams that nobody closes", n)
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	clear(is.known)
}
