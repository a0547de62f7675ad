package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// keys makes a folder of keys for tenants, the default one if none is given.
func keys(t *testing.T, tenants ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := auth.Init(dir, tenants...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// agentCreds and userCreds make credentials.
func agentCreds(t *testing.T, dir, tenant, id string) string {
	t.Helper()
	file, err := auth.AddAgent(dir, tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func userCreds(t *testing.T, dir, tenant, name string) string {
	t.Helper()
	file, err := auth.AddUser(dir, tenant, name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAgentThroughGateway makes an agent with its own credentials do everything that agents do.
func TestAgentThroughGateway(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	results := make(chan *transport.Event, 10)
	serveTopic(t, cortex, inbox, nil, func(e *transport.Event) error {
		results <- e
		return nil
	})
	board := make(chan *transport.Event, 10)
	serveTopic(t, cortex, transport.Cards(""), nil, func(e *transport.Event) error {
		board <- e
		return nil
	})
	if _, ok := receive(t, board).Payload.(*transport.Synced); !ok {
		t.Fatal("want Synced first")
	}

	agent := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "w.1*")})
	own := transport.Inbox("", "w.1*")
	control := make(chan *transport.Event, 10)
	serveTopic(t, agent, transport.Control("", "w.1*"), nil, func(e *transport.Event) error {
		control <- e
		return nil
	})
	tasks := make(chan *transport.Event, 10)
	serveTopic(t, agent, own, &transport.SubscribeOptions{Unordered: true}, func(e *transport.Event) error {
		tasks <- e
		if text(e) == "poison" {
			return transport.Permanent(errPoison)
		}
		return nil
	})
	card := &transport.Card{AgentID: "w.1*", Instance: "1", TTL: time.Hour, Card: &a2a.AgentCard{Name: "w.1*"}}
	if err := agent.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "w.1*", Payload: card}); err != nil {
		t.Fatalf("publish the card: %v", err)
	}
	if c, ok := receive(t, board).Payload.(*transport.Card); !ok || c.AgentID != "w.1*" || c.TTL != time.Hour {
		t.Errorf("card %+v came, want the agent's", c)
	}

	publish(t, cortex, own, "c1", "do it")
	if e := receive(t, tasks); text(e) != "do it" || e.Delivery != 1 {
		t.Errorf("task %q came (delivery %d), want do it", text(e), e.Delivery)
	}
	for range 2 { // the second is a duplicate
		e := message(inbox, "c1", "done")
		e.ID, e.From = "result", "w.1*"
		if err := agent.Publish(t.Context(), inbox, e); err != nil {
			t.Fatalf("publish a result: %v", err)
		}
	}
	if e := receive(t, results); text(e) != "done" || e.From != "w.1*" {
		t.Errorf("result %q of %q came, want done of w.1*", text(e), e.From)
	}
	poison := message(own, "c1", "poison")
	poison.TaskID = "t1"
	if err := cortex.Publish(t.Context(), own, poison); err != nil {
		t.Fatal(err)
	}
	receive(t, tasks)
	eventually(t, "the task that was given up is a dead letter, and nothing waits", func() bool {
		dead := 0
		for l, err := range cortex.DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if l.Topic == own && l.Reason == errPoison.Error() {
				dead++
			}
		}
		left, err := agent.Waiting(t.Context(), own)
		return err == nil && left == 0 && dead == 1
	})
	if len(results) != 0 {
		t.Errorf("%q came twice", text(<-results))
	}

	watched := make(chan *transport.Event, 10)
	live := transport.Live("", "c1")
	serveTopic(t, cortex, live, nil, func(e *transport.Event) error {
		watched <- e
		return nil
	})
	shown := message(live, "c1", "half way")
	shown.From = "w.1*"
	if err := agent.Publish(t.Context(), live, shown); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, watched); text(e) != "half way" || e.From != "w.1*" {
		t.Errorf("%q of %q is shown, want half way of w.1*", text(e), e.From)
	}
	stop := &transport.Event{ID: "x", From: transport.Cortex, ContextID: "c1", Payload: &transport.Cancel{TaskID: "t1"}}
	if err := cortex.Publish(t.Context(), transport.Control("", "w.1*"), stop); err != nil {
		t.Fatal(err)
	}
	if e := receive(t, control); e.From != transport.Cortex {
		t.Errorf("a cancel of %q came, want Cortex's", e.From)
	}
	card.Gone = transport.GoneLeft
	if err := agent.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "w.1*", Payload: card}); err != nil {
		t.Fatal(err)
	}
	if c, ok := receive(t, board).Payload.(*transport.Card); !ok || c.Gone != transport.GoneLeft {
		t.Errorf("card %+v came, want that it left", c)
	}
}

var errPoison = errors.New("it is poison")

// TestPersonThroughGateway makes a person with credentials do everything that people do: talk, cancel, watch, and read.
func TestPersonThroughGateway(t *testing.T) {
	w := newTown(t)
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	live := transport.Live("", "c1")
	watched := make(chan *transport.Event, 10)
	serveTopic(t, person, live, nil, func(e *transport.Event) error {
		watched <- e
		return nil
	})
	for _, topic := range []transport.Topic{transport.Inbox("", transport.Cortex), transport.Control("", transport.Cortex)} {
		for _, p := range []transport.Payload{&transport.Cancel{}, message(topic, "c1", "hello").Payload} {
			e := &transport.Event{ID: "e", From: "user:ada", ContextID: "c1", Payload: p}
			if topic.Kind == transport.KindInbox {
				e.ID = fmt.Sprintf("%T", p)
			}
			if err := person.Publish(t.Context(), topic, e); err != nil {
				t.Fatal(err)
			}
			if got, want := receive(t, w.heard), fmt.Sprintf("%T from user:ada to ", p); !strings.HasPrefix(got, want) {
				t.Errorf("Cortex heard %q, want %q", got, want)
			}
		}
	}
	publish(t, w.cortex, live, "c1", "the answer")
	if e := receive(t, watched); text(e) != "the answer" {
		t.Errorf("%q is shown, want the answer", text(e))
	}
	board := make(chan *transport.Event, 10)
	serveTopic(t, person, transport.Cards(""), nil, func(e *transport.Event) error {
		board <- e
		return nil
	})
	if c, ok := receive(t, board).Payload.(*transport.Card); !ok || c.AgentID != "victim" {
		t.Errorf("card %+v, want the agent's", c)
	}
	if _, ok := receive(t, board).Payload.(*transport.Synced); !ok {
		t.Error("want Synced")
	}
	told := &transport.Event{ID: "t", From: transport.Cortex, Payload: &transport.AgentEvent{Kind: "registered", AgentID: "victim"}}
	if err := w.cortex.Publish(t.Context(), transport.Cards(""), told); err != nil {
		t.Fatal(err)
	}
	if a, ok := receive(t, board).Payload.(*transport.AgentEvent); !ok || a.AgentID != "victim" {
		t.Errorf("%+v, want what is told of the agent", a)
	}
	for _, err := range person.DeadLetters(t.Context(), "") {
		t.Errorf("DeadLetters = %v, want none", err)
	}
	if err := person.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy = %v", err)
	}
	if n, err := person.Waiting(t.Context(), transport.Inbox("", "sleeper")); err != nil || n != 1 {
		t.Errorf("Waiting = %d, %v, want 1", n, err)
	}

	// Read like package jetstore.
	js, err := jetstream.NewWithAPIPrefix(person.Conn(), person.API())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AccountInfo(t.Context()); err != nil {
		t.Error(err)
	}
	log, err := js.Stream(t.Context(), "CORTEX_LOG")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := log.GetLastMsgForSubject(t.Context(), "cortex.v1.log._.c1"); err != nil || string(m.Data) != `{"stored":true}` {
		t.Errorf("the log has %+v, %v", m, err)
	}
	if _, err := log.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy}); err == nil || !strings.Contains(err.Error(), "without consumers") {
		t.Errorf("a consumer is refused with %v, want that Cortex reads without", err)
	}
	notes, err := js.KeyValue(t.Context(), "CORTEX_NOTES")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := notes.Get(t.Context(), "_.evidence.victim"); err != nil || string(n.Value()) != `{"stored":true}` {
		t.Errorf("the note is %v, %v", n, err)
	}
}

// TestAgentKitThroughGateway makes an agent of the kit do a task with its own credentials.
func TestAgentKitThroughGateway(t *testing.T) {
	dir := keys(t, "acme")
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, &Options{Tenant: "acme"})
	bus := n.dial(t, &Options{Creds: agentCreds(t, dir, "acme", "shouter")})
	results := make(chan *a2a.Task, 10)
	serveTopic(t, cortex, transport.Inbox("acme", transport.Cortex), nil, func(e *transport.Event) error {
		if task, ok := e.Payload.(*a2a.Task); ok {
			results <- task
		}
		return nil
	})
	board := make(chan *transport.Card, 10)
	serveTopic(t, cortex, transport.Cards("acme"), nil, func(e *transport.Event) error {
		if c, ok := e.Payload.(*transport.Card); ok {
			board <- c
		}
		return nil
	})
	shown := make(chan *transport.Event, 10)
	serveTopic(t, cortex, transport.Live("acme", "c1"), nil, func(e *transport.Event) error {
		shown <- e
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- agents.Serve(ctx, bus, &a2a.AgentCard{Name: "shouter"}, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			task.Progress("shouting")
			return &agents.Result{Parts: a2a.ContentParts{a2a.NewTextPart(strings.ToUpper(task.Text()))}}, nil
		}), &agents.Options{Tenant: "acme"})
	}()
	if c := receive(t, board); c.AgentID != "shouter" || c.Gone != "" {
		t.Fatalf("card %+v, want the agent's", c)
	}
	inbox := transport.Inbox("acme", "shouter")
	e := message(inbox, "c1", "quiet")
	e.From, e.TaskID = transport.Cortex, "t1"
	if err := cortex.Publish(t.Context(), inbox, e); err != nil {
		t.Fatal(err)
	}
	if r := receive(t, results); r.Status.State != a2a.TaskStateCompleted || transport.Text(r.Status.Message.Parts) != "QUIET" {
		t.Errorf("result %+v, want QUIET", r.Status)
	}
	if e := receive(t, shown); e.From != "shouter" {
		t.Errorf("progress of %s, want the agent's", e.From)
	}
	cancel()
	if err := receive(t, served); err != nil {
		t.Errorf("Serve = %v", err)
	}
	for c := receive(t, board); c.Gone == ""; c = receive(t, board) { // first it drains
	}
}
