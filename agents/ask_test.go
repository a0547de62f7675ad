package agents_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// answer answers a request of agent_x, on the given topic.
func (b *bench) answer(to transport.Topic, request *transport.Event, text string, failed bool) {
	b.t.Helper()
	id := transport.MessageEventID(request)
	m := said(text)
	m.ID = "answer-" + id
	m.Metadata = map[string]any{transport.MetaMessage: id, transport.MetaFailed: failed}
	e := &transport.Event{ID: m.ID, Time: time.Now(), From: transport.Cortex, ContextID: "ctx", Payload: m}
	if err := b.bus.Publish(b.t.Context(), to, e); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// requests are what agents have asked so far.
func (b *bench) requests() []*transport.Event {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*transport.Event
	for _, e := range b.results {
		if _, ok := transport.Request(e); ok {
			all = append(all, e)
		}
	}
	return all
}

// asking is a handler that asks for each word of its task and returns the answers.
func asking(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	var heard []string
	for _, word := range strings.Fields(t.Text()) {
		m, err := t.Ask(ctx, agents.Request{Text: word})
		switch {
		case errors.Is(err, agents.ErrAsk):
			heard = append(heard, err.Error())
		case err != nil:
			return nil, err
		default:
			heard = append(heard, transport.Text(m.Parts))
		}
	}
	return agents.Text(strings.Join(heard, ", ")), nil
}

// A request says whose it is and which agents it has passed; its answer arrives through the inbox or the control topic.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(asking), nil)
		latest := time.Now().Add(time.Hour).Format(time.RFC3339Nano)
		b.give(task("t1", "one one two", map[string]any{
			transport.MetaHops: 2, transport.MetaAncestors: []any{"agent_a"}, transport.MetaLatest: latest,
			transport.MetaDeadline: time.Now().Add(time.Minute).Format(time.RFC3339Nano),
		}))
		first := b.requests()[0]
		m := first.Payload.(*a2a.Message)
		want := map[string]any{
			transport.MetaTaskID: "t1", transport.MetaHops: 2.0, transport.MetaAncestors: []any{"agent_a"}, transport.MetaDeadline: latest,
		}
		if diff := cmp.Diff(want, m.Metadata); diff != "" || first.From != "agent_x" || first.TaskID != "t1" || first.ContextID != "ctx" || m.ID != first.ID {
			t.Errorf("request %+v (-want +got):\n%s", first, diff)
		}
		b.answer(transport.Inbox("", "agent_x"), first, "1", false)
		second := b.requests()[1]
		if second.ID == first.ID {
			t.Errorf("two requests of one task have the id %s", first.ID)
		}
		b.answer(transport.Control("", "agent_x"), second, "uno", false)
		b.answer(transport.Control("", "agent_x"), b.requests()[2], "no luck", true)
		b.want("t1 COMPLETED: 1, uno, the request failed: no luck")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A task that is started again sends its request under the same id, in an event that the transport has not seen, and uses an answer
// that arrived in between.
func TestAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(asking), &agents.Options{Grace: -1})
		b.give(task("t1", "one", nil))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := len(b.requests()); got != 1 {
			t.Fatalf("%d requests, want 1", got)
		}
		stop = b.execute(agents.Handler(asking), &agents.Options{Grace: -1})
		pass(5 * time.Second)
		all := b.requests()
		if len(all) != 2 || all[1].ID == all[0].ID || transport.MessageEventID(all[1]) != all[0].ID {
			t.Fatalf("requests = %v", all)
		}
		for _, e := range b.results {
			if _, ok := e.Payload.(*transport.Cancel); ok {
				t.Error("an agent that stopped has canceled what it asked")
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.answer(transport.Inbox("", "agent_x"), all[0], "1", false)
		stop = b.execute(agents.Handler(asking), nil)
		pass(5 * time.Second)
		b.want("t1 COMPLETED: 1")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A lost request is sent again. When its task is canceled, so is the request.
func TestAskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(asking), nil)
		b.give(task("t1", "one", nil))
		pass(40 * time.Second)
		all := b.requests()
		if len(all) != 2 || transport.MessageEventID(all[1]) != all[0].ID {
			t.Fatalf("requests = %v", all)
		}
		b.cancel(&transport.Cancel{TaskID: "t1"})
		b.want("t1 CANCELED: the task was canceled")
		for _, e := range b.results {
			if c, ok := e.Payload.(*transport.Cancel); ok {
				if want := transport.TurnID("", "ctx", "agent_x", all[0].ID); c.Turn != want || e.From != "agent_x" {
					t.Errorf("canceled %+v, want the turn %s", c, want)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				return
			}
		}
		t.Error("the request was not canceled")
	})
}

// Answers arrive even if all of the agent's capacity is used by tasks that wait for them.
func TestAskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(asking), &agents.Options{Concurrency: 1})
		b.give(task("t1", "one", nil))
		b.give(task("t2", "two", nil))
		r := b.requests()
		b.answer(transport.Inbox("", "agent_x"), r[0], "1", false)
		b.want()
		b.answer(transport.Control("", "agent_x"), r[0], "1", false)
		b.answer(transport.Control("", "agent_x"), b.requests()[1], "2", false)
		b.want("t1 COMPLETED: 1", "t2 COMPLETED: 2")
		if n := b.waiting(); n != 0 {
			t.Errorf("%d events wait", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAskNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			for _, r := range []agents.Request{{}, {Text: "x", Skill: "s"}, {Text: "x", Agent: "a b"}, {Agent: "a", Input: func() {}}} {
				if _, err := t.Ask(ctx, r); err == nil {
					return nil, errors.New("it was asked")
				}
			}
			return nil, nil
		}), nil)
		b.give(task("t1", "one", nil))
		b.want("t1 COMPLETED")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := new(agents.Task).Ask(t.Context(), agents.Request{Text: "x"}); err == nil {
		t.Error("a task of nobody was asked in")
	}
}

// An answer that no task of this instance waits for (another program or a lost instance asked) is acknowledged and not given up.
func TestAnswerToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(asking), nil)
		for _, to := range []transport.Topic{transport.Inbox("", "agent_x"), transport.Control("", "agent_x")} {
			b.answer(to, &transport.Event{ID: "q" + string(to.Kind), Payload: said("?")}, "yes", false)
		}
		for d, err := range b.bus.DeadLetters(t.Context(), "") {
			t.Errorf("dead letter %v, %v", d, err)
		}
		if n := b.waiting(); n != 0 {
			t.Errorf("%d events wait", n)
		}
		stop()
	})
}
