package nats

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestTraceThroughGateway checks that the trace context of people's and agents' events passes the gateway, to inboxes and to listeners.
func TestTraceThroughGateway(t *testing.T) {
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "rojo=1"
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, nil)
	inbox, live := transport.Inbox("", transport.Cortex), transport.Live("", "c1")
	got := make(chan *transport.Event, 10)
	note := func(e *transport.Event) error {
		got <- e
		return nil
	}
	serveTopic(t, cortex, inbox, nil, note)
	serveTopic(t, cortex, live, nil, note)
	want := func(what string) {
		t.Helper()
		if e := receive(t, got); e.Traceparent != parent || e.Tracestate != state {
			t.Errorf("%s came with the trace %q, %q", what, e.Traceparent, e.Tracestate)
		}
	}
	send := func(b *Bus, topic transport.Topic, from string) {
		t.Helper()
		e := message(topic, "c1", "hello")
		e.From, e.Traceparent, e.Tracestate = from, parent, state
		if topic.Kind == transport.KindLive {
			e.To = ""
			e.Payload = &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}}
		}
		if err := b.Publish(t.Context(), topic, e); err != nil {
			t.Fatal(err)
		}
	}
	send(n.dial(t, &Options{Creds: userCreds(t, dir, "", "ann")}), inbox, "user:ann")
	want("what a person says")
	agent := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "worker")})
	send(agent, inbox, "worker")
	want("what an agent says")
	send(agent, live, "worker")
	want("what an agent shows")
	own := transport.Inbox("", "worker")
	serveTopic(t, agent, own, &transport.SubscribeOptions{Unordered: true}, note)
	send(cortex, own, transport.Cortex)
	want("a task")
}
