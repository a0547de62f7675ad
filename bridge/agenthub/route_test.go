package agenthub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

// listen returns what comes on a stream that open opens.
func (w *world) listen(k kind, of string, open func(context.Context) (grpc.ServerStreamingClient[hubpb.AgentEvent], error)) <-chan *hubpb.AgentEvent {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.T.Cleanup(cancel)
	before := len(w.hub.exchange.to(k, of, ""))
	stream, err := open(ctx)
	must(w.T, err)
	w.Until(of+" has subscribed", func() bool { return len(w.hub.exchange.to(k, of, "")) > before })
	all := make(chan *hubpb.AgentEvent, 1000)
	go func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			all <- e
		}
	}()
	return all
}

func (w *world) messagesOf(of string) <-chan *hubpb.AgentEvent {
	return w.listen(messages, of, func(ctx context.Context) (grpc.ServerStreamingClient[hubpb.AgentEvent], error) {
		return w.dial().SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: of, MessageTypes: []string{"none"}})
	})
}

func (w *world) tasksOf(of string) <-chan *hubpb.AgentEvent {
	return w.listen(tasks, of, func(ctx context.Context) (grpc.ServerStreamingClient[hubpb.AgentEvent], error) {
		return w.dial().SubscribeToTasks(ctx, &hubpb.SubscribeToTasksRequest{AgentId: of})
	})
}

func (w *world) eventsOf(of string) <-chan *hubpb.AgentEvent {
	return w.listen(events, of, func(ctx context.Context) (grpc.ServerStreamingClient[hubpb.AgentEvent], error) {
		return w.dial().SubscribeToAgentEvents(ctx, &hubpb.SubscribeToAgentEventsRequest{AgentId: of})
	})
}

// TestPublisher has the publisher give tasks to the subscriber, which never registers.
func TestPublisher(t *testing.T) {
	w := newWorld(t)
	w.serve()
	did := make(chan string, 10)
	w.join(hubtest.Subscriber(func(kind string) { did <- kind }))
	seen := w.tasksOf("watcher")
	must(t, hubtest.Publish(t.Context(), w.dial()))
	got := []string{receive(t, "work", did), receive(t, "work", did), receive(t, "work", did)}
	slices.Sort(got)
	if want := []string{"greeting", "math_calculation", "random_number"}; !slices.Equal(got, want) {
		t.Errorf("the subscriber did %q", got)
	}
	ends := map[string]int{}
	for ends["TASK_STATE_COMPLETED"]+ends["TASK_STATE_FAILED"] < 4 {
		e := receive(t, "what the subscriber reports", seen)
		if u := e.GetStatusUpdate(); u != nil {
			ends[u.Status.State.String()]++
		}
	}
	if ends["TASK_STATE_FAILED"] != 1 {
		t.Errorf("the tasks ended as %v", ends)
	}
	if w.Has("agent_demo_subscriber") {
		t.Error("Cortex knows an agent that has not registered")
	}
}

// TestRouting checks who gets what, in order.
func TestRouting(t *testing.T) {
	w := newWorld(t)
	w.serve()
	hub := w.dial()
	a1, a2, aTasks, aEvents := w.messagesOf("a"), w.messagesOf("a"), w.tasksOf("a"), w.eventsOf("a")
	b, bTasks, sender := w.messagesOf("b"), w.tasksOf("b"), w.messagesOf("sender")
	publish := func(id, task, to string) {
		t.Helper()
		r, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{MessageId: id, TaskId: task, Role: hubpb.Role_ROLE_AGENT, Content: []*hubpb.Part{hubtest.Text(id)}},
			Routing: &hubpb.AgentEventMetadata{FromAgentId: "sender", ToAgentId: to, EventType: "x"},
		})
		if err != nil || !r.Success {
			t.Errorf("PublishMessage = %v, %v", r, err)
		}
	}
	want := func(what string, from <-chan *hubpb.AgentEvent, all ...string) {
		t.Helper()
		for _, want := range all {
			e := receive(t, what, from)
			got := "message " + e.GetMessage().GetMessageId()
			if task := e.GetTask(); task != nil {
				got = fmt.Sprint("task ", task.Id, " ", len(task.History))
			}
			if u := e.GetStatusUpdate(); u != nil {
				got = "status " + u.TaskId
			}
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
	}
	publish("1", "", "a")
	publish("2", "T", "a")
	publish("3", "T", "a")
	publish("4", "", "")
	publish("5", "U", "")
	_, err := hub.PublishTaskUpdate(t.Context(), &hubpb.PublishTaskUpdateRequest{Update: &hubpb.TaskStatusUpdateEvent{TaskId: "T"}, Routing: &hubpb.AgentEventMetadata{FromAgentId: "sender"}})
	must(t, err)
	publish("6", "", "sender")
	for _, s := range []<-chan *hubpb.AgentEvent{a1, a2} {
		want("a's messages", s, "message 1", "message 2", "message 3", "message 4", "message 5")
	}
	want("a's tasks", aTasks, "task T 1", "task T 2", "task U 1", "status T")
	want("b's messages", b, "message 4", "message 5")
	want("b's tasks", bTasks, "task U 1", "status T")
	want("a's events", aEvents, "message 1", "message 2", "task T 1", "message 3", "task T 2", "message 4", "message 5", "task U 1", "status T")
	want("the sender's messages", sender, "message 6")
}

// TestDirectory checks that subscribers are told which agents are there, come and go.
func TestDirectory(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hand("early")
	seen := w.eventsOf("watcher")
	last := ""
	want := func(want string) {
		t.Helper()
		told := func(e *hubpb.AgentEvent) string {
			c := e.GetAgentCard()
			return c.GetEventType() + " " + c.GetAgentId() + " " + c.GetAgentCard().GetName()
		}
		e := receive(t, want, seen)
		if told(e) == last { // an agent that joins while a program subscribes may be told twice
			e = receive(t, want, seen)
		}
		c, got := e.GetAgentCard(), told(e)
		if last = got; got != want || e.Routing.EventType != "agent."+c.GetEventType() || !strings.HasPrefix(e.EventId, "agent_"+c.GetEventType()+"_") {
			t.Errorf("the event is %v, want %s", e, want)
		}
	}
	want("registered early early")
	h := w.hand("worker")
	want("registered worker worker")
	_, err := h.hub.RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "worker", Description: "Digs"}})
	must(t, err)
	want("updated worker worker")
	h.leave()
	want("unregistered worker worker")
}

// TestBehind checks that a subscriber that takes nothing delays its senders only for so long, and disturbs nobody else.
func TestBehind(t *testing.T) {
	w := newWorld(t)
	w.times.behind = 0
	w.serve()
	s := newStream(t.Context(), "stuck", "", w.hub.now()) // nobody takes
	must(t, w.hub.exchange.open(messages, s))
	seen := w.messagesOf("other")
	hub := w.dial()
	for i := range maxQueue + 10 {
		for _, to := range []string{"stuck", "other"} {
			_, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
				Message: &hubpb.Message{MessageId: fmt.Sprint(i), Role: hubpb.Role_ROLE_AGENT}, Routing: &hubpb.AgentEventMetadata{FromAgentId: "sender", ToAgentId: to},
			})
			must(t, err)
		}
		if e := receive(t, "the message", seen); e.GetMessage().MessageId != fmt.Sprint(i) {
			t.Errorf("message %d is %v", i, e)
		}
	}
	if n := len(s.take()); n != maxQueue {
		t.Errorf("%d events wait", n)
	}
}

// TestBehindAll checks that a subscriber that takes nothing does not hold up who tells all.
func TestBehindAll(t *testing.T) {
	w := newWorld(t)
	w.times.behind, w.times.behindAll = time.Hour, 0
	w.serve()
	must(t, w.hub.exchange.open(events, newStream(t.Context(), "stuck", "", w.hub.now()))) // nobody takes
	seen := w.messagesOf("other")
	hub := w.dial()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range maxQueue + 10 {
		_, err := hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{
			Message: &hubpb.Message{MessageId: fmt.Sprint(i), Role: hubpb.Role_ROLE_AGENT}, Routing: &hubpb.AgentEventMetadata{FromAgentId: "sender"},
		})
		must(t, err)
		if e := receive(t, "the message", seen); e.GetMessage().MessageId != fmt.Sprint(i) {
			t.Errorf("message %d is %v", i, e)
		}
	}
}

// TestUnread has a program subscribe under many names, and read nothing of what is sent to it: it is cut off before all of that fills the memory, and who
// reads is not.
func TestUnread(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hub.exchange.most = 2 * maxQueueBytes
	unread := make([]grpc.ServerStreamingClient[hubpb.AgentEvent], 32) // the first event of each is being sent, which counts, too
	// A window of a fixed size does not grow for a client that is quick at first.
	c, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10))
	must(t, err)
	defer c.Close()
	greedy := hubpb.NewAgentHubClient(c)
	for i := range unread {
		of := fmt.Sprint("greedy", i)
		unread[i], err = greedy.SubscribeToMessages(t.Context(), &hubpb.SubscribeToMessagesRequest{AgentId: of})
		must(t, err)
		w.Until("it has subscribed", func() bool { return w.hub.exchange.knows(of) })
	}
	seen := w.messagesOf("reader")
	hub := w.dial()
	much := strings.Repeat("x", maxQueueBytes/4)
	for i := 0; w.hub.exchange.knows("greedy0"); i++ {
		for _, to := range []string{fmt.Sprint("greedy", i%len(unread)), "reader"} {
			_, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
				Message: &hubpb.Message{MessageId: fmt.Sprint(i), Role: hubpb.Role_ROLE_AGENT, Content: []*hubpb.Part{hubtest.Text(much)}},
				Routing: &hubpb.AgentEventMetadata{FromAgentId: "sender", ToAgentId: to},
			})
			must(t, err)
		}
		if e := receive(t, "the message", seen); e.GetMessage().MessageId != fmt.Sprint(i) {
			t.Errorf("message %d is %v", i, e.GetMessage().MessageId)
		}
		if i > len(unread) { // less than one stream keeps
			t.Fatal("what nobody reads is kept")
		}
	}
	for err == nil {
		_, err = unread[0].Recv()
	}
	w.Until("nothing waits", func() bool {
		x := w.hub.exchange
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.waits == 0 && len(x.unsent) == 0
	})
}

// TestUnreadAnswers has a program make calls whose large answers it does not read: its connection is closed before they fill the memory, and who reads has
// their answers.
func TestUnreadAnswers(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hub.exchange.most = 8 << 20
	hub := w.dial()
	_, err := hub.PublishMessage(t.Context(), &hubpb.PublishMessageRequest{
		Message: &hubpb.Message{MessageId: "m", TaskId: "large", Content: []*hubpb.Part{hubtest.Text(strings.Repeat("x", 2<<20))}},
	})
	must(t, err)
	c, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10))
	must(t, err)
	defer c.Close()
	closed := make(chan struct{})
	for i := range 16 {
		call, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, hubpb.AgentHub_GetTask_FullMethodName, grpc.WaitForReady(i == 0))
		if i == 0 {
			must(t, err)
			go func() {
				c.WaitForStateChange(t.Context(), connectivity.Ready)
				close(closed)
			}()
		}
		if err != nil || call.SendMsg(&hubpb.GetTaskRequest{TaskId: "large"}) != nil || call.CloseSend() != nil {
			break
		}
	}
	receive(t, "the end of the connection", closed)
	for range 10 {
		got, err := hub.GetTask(t.Context(), &hubpb.GetTaskRequest{TaskId: "large"})
		must(t, err)
		if n := len(got.History[0].Content[0].GetText()); n != 2<<20 {
			t.Errorf("who reads gets %d bytes", n)
		}
	}
	c.Close()
	w.Until("nothing waits", func() bool {
		x := w.hub.exchange
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.waits == 0 && len(x.unsent) == 0 && len(x.answers) == 0
	})
}

// TestSlowest checks that the connection is found for which most waits, of the host for which most does.
func TestSlowest(t *testing.T) {
	for want, unsent := range map[string]map[string]int{
		"127.0.0.1:2": {"127.0.0.1:1": 5, "127.0.0.1:2": 6, "10.0.0.1:7": 5},
		"10.0.0.1:8":  {"127.0.0.1:1": 5, "10.0.0.1:7": 2, "10.0.0.1:8": 4, "10.0.0.2:7": 5},
	} {
		x := newExchange()
		x.unsent = unsent
		if got := x.slowest(); got != want {
			t.Errorf("of %v it is %s, want %s", unsent, got, want)
		}
	}
}

// TestSentIsForgotten checks that nothing waits for a stream whose events are all sent, however quickly each was taken.
func TestSentIsForgotten(t *testing.T) {
	x := newExchange()
	s := newStream(t.Context(), "quick", "", time.Time{})
	must(t, x.open(messages, s))
	const events = 100_000
	go func() {
		for range events {
			s.put(t.Context(), waiting{weight: 1})
		}
	}()
	for n := 0; n < events; {
		<-s.more
		for _, e := range s.take() {
			x.sent(s, e.weight)
			n++
		}
	}
	if x.waits != 0 {
		t.Errorf("%d bytes of what was sent wait", x.waits)
	}
}

// TestMany checks that there are only so many subscriptions.
func TestMany(t *testing.T) {
	x := newExchange()
	var all []*stream
	open := func(of string) error {
		s := newStream(t.Context(), of, fmt.Sprint("127.0.0.1:", len(all)), time.Time{})
		err := x.open(messages, s)
		if err == nil {
			all = append(all, s)
		}
		return err
	}
	for range maxOwnStreams {
		must(t, open("a"))
	}
	if open("a") == nil {
		t.Error("a peer has one more than are allowed")
	}
	for i := range maxStreams - maxOwnStreams {
		must(t, open(fmt.Sprint(i)))
	}
	if open("b") == nil {
		t.Error("there is one more than are allowed")
	}
	for _, s := range all {
		x.close(messages, s)
	}
	must(t, open("a"))
}

// TestOneProgramHasAShare has one program subscribe as many agents as it can, on one connection, and on many from one host: there is room for others.
func TestOneProgramHasAShare(t *testing.T) {
	for name, at := range map[string]func(i int) string{
		"one connection": func(int) string { return "127.0.0.1:1" },
		"one host":       func(i int) string { return fmt.Sprint("192.0.2.7:", i) },
		"one host, IPv6": func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) }, // it has a network of addresses
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange()
			var all []*stream
			for i := range 2 * maxStreams {
				s := newStream(t.Context(), fmt.Sprint("many", i), at(i), time.Time{})
				if x.open(kind(i%int(kinds)), s) == nil {
					all = append(all, s)
				}
			}
			if n := len(all); n != maxStreams*3/4 {
				t.Errorf("one program has %d subscriptions of %d", n, maxStreams)
			}
			for i := range 20 {
				must(t, x.open(tasks, newStream(t.Context(), fmt.Sprint("other", i), fmt.Sprint("127.0.0.1:10", i/4), time.Time{})))
			}
			for i, s := range all {
				x.close(kind(i%int(kinds)), s)
			}
			if len(x.shares) != 5 {
				t.Errorf("of who has gone, shares are kept: %v", x.shares)
			}
		})
	}
}
