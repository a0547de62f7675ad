package rockbot

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// shout is an agent of Cortex.
func (w *world) shout(h agents.Handler) (id string, leave func()) {
	id = w.name("shout")
	return id, w.Join(&a2a.AgentCard{Name: id, Description: "Shouts", Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Shouts", Tags: []string{}}}}, h)
}

// TestAsked has RockBot give work to an agent of Cortex, and to Cortex itself.
func TestAsked(t *testing.T) {
	w := newWorld(t)
	id, _ := w.shout(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		return agents.Text(t.Text() + "!"), nil
	})
	w.o.announce = []string{"cortex", "shout*"}
	p := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	for agent, want := range map[string]string{w.o.name: "Cortex has heard it", id: "hello!"} {
		if _, err := p.Knows(w.soon(), agent, true); err != nil {
			t.Fatal(err)
		}
		task := p.Invoke(agent, "", "hello")
		m := w.response(p, task, 1)
		if m.Type != rockbottest.Result || m.State() != rockbottest.Completed || m.Text() != want || m.Source != agent || m.Task() != task {
			t.Errorf("%s has answered %+v", agent, m)
		}
		if all := p.Statuses(task); len(all) == 0 || all[0].State() != rockbottest.Working {
			t.Errorf("%s has said %+v of its work", agent, all)
		}
	}
	w.stop()
	for _, agent := range []string{w.o.name, id} {
		if _, err := p.Knows(w.soon(), agent, false); err != nil {
			t.Error(err)
		}
	}
}

// callers starts a caller of an agent of Cortex, and both.
func (w *world) callers(h agents.Handler) (p *rockbottest.Program, id string) {
	w.T.Helper()
	id, _ = w.shout(h)
	w.o.announce = []string{"cortex", "shout*"}
	p = w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	for _, name := range []string{w.o.name, id} {
		if _, err := p.Knows(w.soon(), name, true); err != nil {
			w.T.Fatal(err)
		}
	}
	return p, id
}

// TestAgain has the same task come again: it is not done again, and its answer is sent again.
func TestAgain(t *testing.T) {
	w := newWorld(t)
	var runs atomic.Int64
	p, id := w.callers(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		runs.Add(1)
		return agents.Text(t.Text() + "!"), nil
	})
	task := p.Invoke(id, "shout", "hello")
	first := w.response(p, task, 1)
	p.Send(task, id, "shout", "hello", nil)
	second := w.response(p, task, 2)
	w.stop()
	p.Send(task, id, "shout", "hello", nil) // it waits in the queue
	w.serve()
	third := w.response(p, task, 3)
	for _, m := range []*rockbottest.Message{first, second, third} {
		if m.Text() != "hello!" || m.State() != rockbottest.Completed {
			t.Errorf("the answer is %v", m.Body)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("it was done %d times", runs.Load())
	}
}

// acks takes note of what becomes of a message.
type acks struct{ acked, requeued atomic.Bool }

func (a *acks) Ack(uint64, bool) error { a.acked.Store(true); return nil }

func (a *acks) Nack(_ uint64, _, requeue bool) error { a.requeued.Store(requeue); return nil }

func (a *acks) Reject(uint64, bool) error { return nil }

// TestAgainIsKept has a task come again while nothing can be said to RabbitMQ: the message stays there until its answer was sent again, or who repeats a task
// often would have Cortex keep all that for them.
func TestAgainIsKept(t *testing.T) {
	w := newWorld(t)
	p, id := w.callers(func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil })
	w.response(p, p.Invoke(id, "shout", "hello"), 1)
	b, err := newBridge(w.site(), &w.o, w.times)
	must(t, err)
	var q *ask
	w.Until("it is noted", func() bool {
		for n, err := range b.asks.notes.Notes(t.Context(), "", storage.NoteReply) {
			must(t, err)
			q = readAsk(&n)
		}
		return q != nil && q.Answered
	})
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	a := &acks{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.asks.repeat(ctx, &amqp.Delivery{Acknowledger: a}, q, &request{})
	}()
	cancel()
	<-ended
	b.asks.wg.Wait()
	if a.acked.Load() || !a.requeued.Load() {
		t.Errorf("acknowledged: %v, given back: %v", a.acked.Load(), a.requeued.Load())
	}
}

// TestAskedQuestion has an agent of Cortex ask something: a caller of the second generation replies, for one of the first the question is the end.
func TestAskedQuestion(t *testing.T) {
	for _, first := range []bool{false, true} {
		w := newWorld(t)
		if first {
			w.o.first = []string{w.name("RockBot")}
		}
		p, id := w.callers(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			if t.Message.Metadata[transport.MetaContinued] == true {
				return agents.Text("Loud: " + t.Text()), nil
			}
			return agents.InputRequired("How loud?"), nil
		})
		task := p.Invoke(id, "shout", "hello")
		m := w.response(p, task, 1)
		if first {
			if m.State() != rockbottest.Completed || !contains(m.Text(), "How loud") {
				t.Errorf("the question is %v", m.Body)
			}
			continue
		}
		if m.State() != rockbottest.InputRequired || !contains(m.Text(), "How loud") || m.Context() == "" {
			t.Fatalf("the question is %v", m.Body)
		}
		w.stop()
		w.serve()
		p.Send(task, id, "shout", "very", m.Context())
		n := 2
		for m = w.response(p, task, n); m.State() == rockbottest.InputRequired; m = w.response(p, task, n) {
			n++ // Cortex was stopped before it noted that the question was given
		}
		if m.State() != rockbottest.Completed || !contains(m.Text(), "Loud: .*very") {
			t.Errorf("the answer is %v", m.Body)
		}
	}
}

// TestAskedCanceled cancels tasks: one that is worked on, one that nobody has, and one that is over.
func TestAskedCanceled(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{}, 1)
	p, id := w.callers(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		if t.Text() == "quick" {
			return agents.Text("done"), nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	task := p.Invoke(id, "shout", "slow")
	<-begun
	p.Cancel(task, id)
	if m := w.response(p, task, 1); m.Type != rockbottest.Result || m.State() != rockbottest.Canceled {
		t.Errorf("the answer is %v", m.Body)
	}
	nobody := rockbottest.NewID()
	p.Cancel(nobody, id)
	if m := w.response(p, nobody, 1); m.Body["code"] != "task_not_found" {
		t.Errorf("the answer is %v", m.Body)
	}
	quick := p.Invoke(id, "shout", "quick")
	w.response(p, quick, 1)
	p.Cancel(quick, id)
	if m := w.response(p, quick, 2); m.Body["code"] != "task_not_cancelable" {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestAskedFailed has an agent of Cortex fail, and asks for a skill that it does not have.
func TestAskedFailed(t *testing.T) {
	w := newWorld(t)
	p, id := w.callers(func(context.Context, *agents.Task) (*agents.Result, error) { return nil, errors.New("too quiet") })
	if m := w.response(p, p.Invoke(id, "shout", "hello"), 1); m.State() != rockbottest.Failed || !contains(m.Text(), "too quiet") {
		t.Errorf("the answer is %v", m.Body)
	}
	if m := w.response(p, p.Invoke(id, "whisper", "hello"), 1); m.State() != rockbottest.Failed || !contains(m.Text(), `skill "whisper" is not supported; there is shout`) {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestProgress passes on what an agent says while it works, and data that it gives back.
func TestProgress(t *testing.T) {
	w := newWorld(t)
	heard := make(chan struct{})
	p, id := w.callers(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
		t.Progress("taking a breath")
		select {
		case <-heard:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &agents.Result{Parts: a2a.ContentParts{a2a.NewTextPart("HELLO"), a2a.NewDataPart(map[string]any{"n": 1})}}, nil
	})
	task := p.Invoke(id, "shout", "hello")
	w.Until("progress is told", func() bool {
		for _, m := range p.Statuses(task) {
			if m.Text() == "taking a breath" {
				return true
			}
		}
		return false
	})
	close(heard)
	if m := w.response(p, task, 1); !contains(m.Text(), "^HELLO") || m.Data() != `{"n":1}` {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestMalformed sends what is no task: it comes to the dead letters, whoever asks is told, and what is behind it is worked on. No answer goes where none belongs.
func TestMalformed(t *testing.T) {
	w := newWorld(t)
	p, id := w.callers(func(_ context.Context, t *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil })
	dead := w.channel()
	must(t, dead.ExchangeDeclare("rockbot", "topic", true, false, false, false, nil))
	spy, err := dead.QueueDeclare("", false, true, true, false, nil)
	must(t, err)
	for _, topic := range []string{"discovery.announce", "agent.task.victim", "agent.response"} {
		must(t, dead.QueueBind(spy.Name, topic, "rockbot", false, nil))
	}
	const good = `{"taskId":"ID","skill":"shout","message":{"role":"user","parts":[{"kind":"text","text":"hello"}]}}`
	reply := "agent.response." + p.Name
	wrong := []struct{ kind, replyTo, body string }{
		{rockbottest.Request, reply, `null`},
		{rockbottest.Request, reply, `x`},
		{rockbottest.Request, reply, `[]`},
		{rockbottest.Request, reply, `{}`},
		{rockbottest.Request, reply, `{"taskId":7,"skill":"shout","message":{}}`},
		{rockbottest.Request, reply, strings.Repeat(`{"taskId":`, 9999)},
		{rockbottest.Request, reply, `{"taskId":"x","skill":"shout","message":null}`},
		{rockbottest.Request, reply, `{"taskId":"x","skill":"shout","message":{"parts":[]}}`},
		{rockbottest.Request, reply, strings.Replace(good, "hello", strings.Repeat("x", maxBody), 1)},
		{"RockBot.A2A.Unheard", reply, good},
		{rockbottest.Cancel, reply, good},
		{rockbottest.Request, "discovery.announce", good},
		{rockbottest.Request, "agent.task.victim", good},
		{rockbottest.Request, "agent.response.#", good},
	}
	for i, x := range wrong {
		task := rockbottest.NewID()
		must(t, p.Raw("agent.task."+id, amqp.Publishing{Type: x.kind, CorrelationId: task, ReplyTo: x.replyTo, Headers: amqp.Table{"rb-source": p.Name}, Body: []byte(strings.ReplaceAll(x.body, "ID", task))}))
		if x.replyTo != reply {
			continue
		}
		if m := w.response(p, task, 1); m.Body["code"] != "invalid_request" {
			t.Errorf("%d is answered with %v", i, m.Body)
		}
	}
	if m := w.response(p, p.Invoke(id, "shout", "hello"), 1); m.Text() != "done" {
		t.Errorf("the answer is %v", m.Body)
	}
	w.Until("the dead letters are there", func() bool {
		q, err := dead.QueueDeclarePassive("cortex."+w.o.name+".dlq", true, false, false, false, nil)
		return err == nil && q.Messages == len(wrong)
	})
	// Without a reply-to, the answer is for whoever wants it.
	task := rockbottest.NewID()
	must(t, p.Raw("agent.task."+id, amqp.Publishing{Type: rockbottest.Request, CorrelationId: task, Headers: amqp.Table{"rb-source": p.Name}, Body: []byte(strings.ReplaceAll(good, "ID", task))}))
	in, err := dead.Consume(spy.Name, "", true, false, false, false, nil)
	must(t, err)
	for d := range in {
		if d.RoutingKey == "discovery.announce" && d.Type == rockbottest.Card {
			continue
		}
		if d.RoutingKey != "agent.response" || d.CorrelationId != task {
			t.Errorf("%s has got %s: %s", d.RoutingKey, d.Type, d.Body)
		}
		break
	}
}

// TestGone answers tasks for an agent that has left since it was announced.
func TestGone(t *testing.T) {
	w := newWorld(t)
	id, leave := w.shout(func(_ context.Context, t *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil })
	w.o.announce = []string{"shout*"}
	p := w.program(&rockbottest.Program{Name: "RockBot"})
	w.serve()
	if _, err := p.Knows(w.soon(), id, true); err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err := p.Knows(w.soon(), id, false); err != nil {
		t.Fatal(err)
	}
	if m := w.response(p, p.Invoke(id, "shout", "hello"), 1); m.State() != rockbottest.Failed {
		t.Errorf("the answer is %v", m.Body)
	}
}

// TestLoop announces none of RockBot's agents to RockBot.
func TestLoop(t *testing.T) {
	w := newWorld(t)
	w.o.announce = []string{"*"}
	w.serve()
	p := w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	id, _ := w.shout(func(_ context.Context, t *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil })
	if _, err := p.Knows(w.soon(), id, true); err != nil {
		t.Fatal(err)
	}
	if m, err := p.Knows(w.soon(), p.Name, true); err != nil || m.Source != p.Name {
		t.Errorf("%s is announced by %v, %v", p.Name, m, err)
	}
}

// TestSoonest answers no sooner than a caller of the first generation can take it, also where nothing is done, and when the same task comes again.
func TestSoonest(t *testing.T) {
	w := newWorld(t)
	w.times.soonest = 300 * time.Millisecond
	p, id := w.callers(func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("done"), nil })
	for _, x := range []struct{ agent, skill, text string }{{w.o.name, "ask", "hello"}, {id, "whisper", "hello"}, {id, "shout", ""}} {
		task := rockbottest.NewID()
		for n := 1; n <= 2; n++ {
			sent := time.Now()
			p.Send(task, x.agent, x.skill, x.text, nil)
			w.response(p, task, n)
			if took := time.Since(sent); took < w.times.soonest {
				t.Errorf("%v, sent %d times, is answered after %v", x, n, took)
			}
		}
	}
}

// TestRefusedAnswer has a caller's queue refuse the answer to its task: the answer is given up, and so at once when the task comes again, or such callers would
// have all tasks that may be open.
func TestRefusedAnswer(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ch := w.channel()
	reply := responseTopic + "." + w.name("Full")
	q, err := ch.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	must(t, err)
	must(t, ch.QueueBind(q.Name, reply, exchange, false, nil))
	must(t, ch.PublishWithContext(t.Context(), exchange, reply, false, false, amqp.Publishing{})) // it is full
	given := func() int { return strings.Count(w.Log.String(), "the queue of the caller refuses it") }
	for n := range 2 {
		must(t, ch.PublishWithContext(t.Context(), exchange, taskTopic+w.o.name, false, false, amqp.Publishing{
			Type: typeRequest, MessageId: "m", ReplyTo: reply, Headers: amqp.Table{"rb-source": "Full"},
			Body: []byte(`{"taskId":"t","contextId":null,"skill":"ask","message":{"role":"user","parts":[{"kind":"text","text":"hello"}]}}`),
		}))
		w.Until("the answer is given up", func() bool { return given() == n+1 })
	}
}

// TestPace has callers with several names ask more at once than all may: their tasks wait in RabbitMQ until they may be asked, and each is answered once.
func TestPace(t *testing.T) {
	w := newWorld(t)
	b, err := newBridge(w.site(), &w.o, w.times)
	must(t, err)
	var now, looks atomic.Int64
	b.pace.Now = func() time.Time {
		looks.Add(1)
		return time.Unix(now.Load(), 0)
	}
	one, two := w.program(&rockbottest.Program{Name: "One"}), w.program(&rockbottest.Program{Name: "Two"}) // before Cortex tells that it is there
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx, func() bool { return false }) }()
	defer func() {
		cancel()
		<-ended
	}()
	_, err = one.Knows(w.soon(), w.o.name, true)
	must(t, err)
	for b.pace.Admit("user:"+hostName, 0) == nil {
	}
	before := looks.Load()
	var tasks []string
	for range 2 * inPrefetch {
		tasks = append(tasks, one.Invoke(w.o.name, "", "hello"), two.Invoke(w.o.name, "", "hello"))
	}
	w.Until("one has waited, and waits again", func() bool { return looks.Load() >= before+4 }) // the bytes, and the task
	for _, task := range tasks {
		if len(one.Responses(task))+len(one.Statuses(task)) > 0 {
			t.Error("a task is taken that is more than callers may ask")
		}
	}
	now.Store(60)
	for i, task := range tasks {
		p := []*rockbottest.Program{one, two}[i%2]
		if m := w.response(p, task, 1); m.Text() != "Cortex has heard it" || len(p.Responses(task)) != 1 {
			t.Errorf("the answer is %v", m.Body)
		}
	}
}

// TestShares has eight callers fill all places of tasks, as with slow ones: one after another keeps less, and somebody else's task is let in.
func TestShares(t *testing.T) {
	as := &asks{open: map[string]*ask{}}
	n := 0
	admit := func(source string) bool {
		n++
		return as.admit(&ask{Source: source, Task: fmt.Sprint(n), As: "Cortex"})
	}
	for range maxOwnAsks {
		for i := range 8 {
			admit(fmt.Sprint("slow ", i))
		}
	}
	for range 3 {
		if !admit("another") {
			t.Fatalf("eight callers have all %d places", len(as.open))
		}
	}
	alone := 0
	for as.open = map[string]*ask{}; admit("alone"); alone++ {
	}
	if alone != maxOwnAsks {
		t.Errorf("a caller alone has %d places, want %d", alone, maxOwnAsks)
	}
}

// TestLargeTask has a task that comes with much beside it: that is not kept until its answer is there, of which there may be many.
func TestLargeTask(t *testing.T) {
	w := newWorld(t)
	b, err := newBridge(w.site(), &w.o, w.times)
	must(t, err)
	freed := make(chan struct{})
	asking, _ := func() (*client.Client, *client.Message) {
		d := &amqp.Delivery{Headers: amqp.Table{"rb-traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, Body: make([]byte, maxBody)}
		runtime.AddCleanup(&d.Body[0], func(struct{}) { close(freed) }, struct{}{})
		return b.asks.message(d, &ask{Source: "a", Rounds: []round{{Turn: "t"}}}, &request{Message: say("user", "hello")})
	}()
	w.Until("the message is not kept", func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
	e := &transport.Event{}
	if asking.OnSend(e); e.Traceparent == "" {
		t.Error("its trace is lost")
	}
}
