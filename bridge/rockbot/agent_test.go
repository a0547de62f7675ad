package rockbot

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

func contains(text, pattern string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(text)
}

// TestDelegate has an agent of either generation work: it is announced, gets a task as RockBot sends it, and its answer is Cortex's.
func TestDelegate(t *testing.T) {
	for _, second := range []bool{false, true} {
		w := newWorld(t)
		w.serve()
		got := make(chan *rockbottest.Message, 1)
		w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}, Second: second, Do: func(k *rockbottest.Work) {
			got <- k.Message
			k.Status(rockbottest.Working, "searching")
			k.Result(rockbottest.Completed, "pong: ünïcode <&>")
		}})
		if said := w.Ask(w.name("Echo"), "echo", "ping", `{"n":1}`); said != "pong: ünïcode <&>" {
			t.Errorf("the answer is %q", said)
		}
		m := <-got
		want := `ping`
		if !second {
			want = "ping\n{\"n\":1}"
		}
		if m.Text() != want || (m.Data() != "") != second || m.Body["skill"] != "echo" || m.Context() != "" {
			t.Errorf("the task is %v", m.Body)
		}
		if m.Source != w.o.name || m.ReplyTo != "agent.response."+w.o.name || m.Correlation != m.Task() || len(m.Task()) != 32 {
			t.Errorf("the task has the properties %+v", m)
		}
	}
}

// raw publishes an answer with a body as it is.
func raw(p *rockbottest.Program, k *rockbottest.Work, kind, body string, headers amqp.Table) {
	_ = p.Raw(k.ReplyTo, amqp.Publishing{Type: kind, CorrelationId: k.Correlation, Headers: headers, Body: []byte(strings.ReplaceAll(body, "ID", k.Task()))})
}

// TestAnswers has an agent answer in all ways that RockBot may, and in some that it should not.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	w.serve()
	const done = `{"taskId":"ID","contextId":null,"state":3,"artifacts":null,"message":{"role":"agent","parts":[{"kind":"text","text":"TEXT","data":null,"mimeType":null}]}}`
	full := func(text string) string { return strings.Replace(done, "TEXT", text, 1) }
	answers := map[string]struct {
		do   func(p *rockbottest.Program, k *rockbottest.Work)
		want string
	}{
		"an error":  {func(_ *rockbottest.Program, k *rockbottest.Work) { k.Fail("boom") }, "boom"},
		"a failure": {func(_ *rockbottest.Program, k *rockbottest.Work) { k.Result(rockbottest.Failed, "no such skill") }, "no such skill"},
		"a status behind the result": {func(_ *rockbottest.Program, k *rockbottest.Work) {
			k.Result(rockbottest.Completed, "first")
			k.Status(rockbottest.Working, "late")
		}, "^first$"},
		"two results": {func(_ *rockbottest.Program, k *rockbottest.Work) {
			k.Result(rockbottest.Completed, "first")
			k.Result(rockbottest.Failed, "second")
		}, "^first$"},
		"results of nobody": {func(p *rockbottest.Program, k *rockbottest.Work) {
			p.Publish(k.ReplyTo, rockbottest.Result, rockbottest.NewID(), "", map[string]any{"taskId": rockbottest.NewID(), "state": 3, "message": nil})
			p.Publish(k.ReplyTo, rockbottest.Result, "", "", map[string]any{"taskId": "", "state": 3, "message": nil})
			k.Result(rockbottest.Completed, "mine")
		}, "^mine$"},
		"a state as a word": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, strings.Replace(full("word"), `"state":3`, `"state":"Completed"`, 1), nil)
		}, "^word$"},
		"other case": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, strings.ToUpper(rockbottest.Result), strings.NewReplacer("taskId", "Taskid", "state", "State", `"message"`, `"Message"`).Replace(full("case")), nil)
		}, "^case$"},
		"escaped": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, full(`\u00fc\u002B`), nil)
		}, `^ü\+$`},
		"header of bytes": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, full("bytes"), amqp.Table{"rb-source": []byte("x"), "rb-n": int32(7)})
		}, "^bytes$"},
		"unknown state": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, strings.Replace(full("odd"), `"state":3`, `"state":17`, 1), nil)
		}, "in a state that is no end. odd"},
		"no state": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, `{"taskId":"ID"}`, nil)
		}, "cannot be read: state is missing"},
		"no JSON": {func(p *rockbottest.Program, k *rockbottest.Work) { raw(p, k, rockbottest.Result, `pong`, nil) }, "cannot be read"},
		"null":    {func(p *rockbottest.Program, k *rockbottest.Work) { raw(p, k, rockbottest.Result, `null`, nil) }, "cannot be read"},
		"wrong type": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, `{"taskId":7,"state":3,"message":[]}`, nil)
		}, "cannot be read"},
		"deep": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, strings.Repeat(`{"taskId":`, 10000), nil)
		}, "cannot be read: .*nested too deep"},
		"huge": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, full(strings.Repeat("x", maxBody)), nil)
		}, "cannot be read: the message has more than [0-9]+ bytes"},
		"long": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, full(strings.Repeat("long ", 50_000)+"end"), nil)
		}, "end$"},
		"another kind": {func(p *rockbottest.Program, k *rockbottest.Work) { raw(p, k, "RockBot.A2A.Unheard", `{}`, nil) }, "cannot be read: it is of a type that answers nothing"},
		"artifacts only": {func(p *rockbottest.Program, k *rockbottest.Work) {
			raw(p, k, rockbottest.Result, `{"taskId":"ID","state":3,"artifacts":[{"name":"a","description":null,"parts":[{"kind":"text","text":"made"}]}],"message":null}`, nil)
		}, "made"},
	}
	p := &rockbottest.Program{Name: "Answers", Skills: []string{"say"}}
	p.Do = func(k *rockbottest.Work) { answers[k.Text()].do(p, k) }
	w.agent(p)
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			if said := w.Ask(p.Name, "say", name, ""); !contains(said, "(?s)"+a.want) {
				t.Errorf("the answer is %.300q, want %s", said, a.want)
			}
		})
	}
}

// TestQuestion has an agent of the second generation ask something: the reply goes to the same task and context.
func TestQuestion(t *testing.T) {
	w := newWorld(t)
	w.serve()
	rounds := make(chan *rockbottest.Message, 2)
	p := w.agent(&rockbottest.Program{Name: "Asker", Skills: []string{"book"}, Second: true, Do: func(k *rockbottest.Work) {
		if rounds <- k.Message; k.Context() == "" {
			k.Answer(rockbottest.InputRequired, "Which day?", "c-77")
			return
		}
		k.Result(rockbottest.Completed, "Booked for "+k.Text())
	}})
	turn := w.Send(p.Name, "book", "book a table", "")
	if said := w.Answer(turn); !contains(said, "Which day") {
		t.Fatalf("the question is %q", said)
	}
	w.stop()
	w.serve() // the note knows
	next, err := w.Client.Reply(t.Context(), turn, a2a.NewTextPart("Friday"))
	must(t, err)
	if said := w.Answer(next); !contains(said, "Booked for .*Friday") {
		t.Errorf("the answer is %q", said)
	}
	first, second := <-rounds, <-rounds
	if first.Task() != second.Task() || first.Correlation != second.Correlation || first.Body["skill"] != second.Body["skill"] || second.Context() != "c-77" {
		t.Errorf("the task was %v, and is %v", first.Body, second.Body)
	}
}

// TestCanceled cancels a task: the agent is told, and whatever it says then does not count.
func TestCanceled(t *testing.T) {
	w := newWorld(t)
	w.serve()
	begun, end := make(chan *rockbottest.Work, 1), make(chan struct{})
	p := w.agent(&rockbottest.Program{Name: "Slow", Skills: []string{"work"}, Do: func(k *rockbottest.Work) {
		begun <- k
		select {
		case <-end:
		case <-t.Context().Done():
		}
		k.Result(rockbottest.Completed, "done after all")
	}})
	turn := w.Send(p.Name, "work", "work", "")
	k := <-begun
	must(t, w.Client.Cancel(t.Context(), turn.ContextID, transport.Cancel{Turn: w.Client.ID(turn)}))
	if said := w.Answer(turn); contains(said, "done") {
		t.Errorf("the answer is %q", said)
	}
	w.Until("the agent is told", func() bool { all := p.Cancels(); return len(all) == 1 && all[0].Task() == k.Task() })
	close(end)
	if said := w.Ask(p.Name, "work", "again", ""); said != "done after all" {
		t.Errorf("the next answer is %q", said)
	}
}

// TestNoQueue gives a task to an agent that has no queue.
func TestNoQueue(t *testing.T) {
	w := newWorld(t)
	w.serve()
	p := w.program(&rockbottest.Program{Name: "Herald"})
	c := p.Card()
	ghost := w.name("Ghost")
	c["agentName"] = ghost
	p.Publish("discovery.announce", rockbottest.Card, "", "", c)
	w.Knows(ghost)
	if said := w.Ask(ghost, "", "boo", ""); !contains(said, "there is no such agent: RabbitMQ has no queue for the tasks of "+ghost) {
		t.Errorf("the answer is %q", said)
	}
}

// TestPinned gives a task to an agent that is away, and starts it: ephemeral ones do that task, leave, and answer then.
func TestPinned(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "well-known-agents.json")
	p := &rockbottest.Program{Name: "Research", Skills: []string{"research"}, Do: func(k *rockbottest.Work) {}}
	must(t, os.WriteFile(file, []byte(`[{"AgentName":"`+w.name("Research")+`","skills":[{"id":"research","name":"Research"}]},{"agentName":"Elsewhere","url":"http://x"}]`), 0o600))
	var err error
	w.o.pinned, err = readKnown(t.Context(), file)
	must(t, err)
	w.serve()
	w.Knows(w.name("Research"))
	turn := w.Send(w.name("Research"), "research", "find out", "")
	ch := w.channel()
	w.Until("the task is in its queue", func() bool {
		q, err := ch.QueueDeclarePassive(taskQueue(w.name("Research")), true, false, false, false, nil)
		if err != nil {
			ch = w.channel()
		}
		return err == nil && q.Messages == 1
	})
	w.stop()
	w.serve()
	p.Do = func(k *rockbottest.Work) {
		p.Announce()
		p.Leave()
		k.Result(rockbottest.Completed, "found")
	}
	w.program(p)
	if said := w.Answer(turn); said != "found" {
		t.Errorf("the answer is %q", said)
	}
	if !w.Has(p.Name) {
		t.Error("the agent has left for good")
	}
}

// TestLeft has an agent leave while it works: it takes no more tasks, and its answer counts.
func TestLeft(t *testing.T) {
	w := newWorld(t)
	w.serve()
	begun, end := make(chan struct{}), make(chan struct{})
	p := &rockbottest.Program{Name: "Leaver", Skills: []string{"work"}}
	p.Do = func(k *rockbottest.Work) {
		close(begun)
		select {
		case <-end:
		case <-t.Context().Done():
		}
		k.Result(rockbottest.Completed, "done")
	}
	w.agent(p)
	turn := w.Send(p.Name, "work", "work", "")
	<-begun
	p.Leave()
	other := w.agent(&rockbottest.Program{Name: "Stayer", Skills: []string{"echo"}}) // the farewell was heard before
	if said := w.Ask(p.Name, "work", "more", ""); !contains(said, "the agent has left") {
		t.Errorf("the answer is %q", said)
	}
	close(end)
	if said := w.Answer(turn); said != "done" {
		t.Errorf("the answer is %q", said)
	}
	w.Until("it has left", func() bool { return !w.Has(p.Name) })
	if said := w.Ask(other.Name, "echo", "still here", ""); said != "still here" {
		t.Errorf("the answer is %q", said)
	}
}

// TestRenamedMeanwhile has an agent announce itself in other letters while it is being added: Cortex knows it by the last name only.
func TestRenamedMeanwhile(t *testing.T) {
	w := newWorld(t)
	b, err := newBridge(w.site(), &w.o, w.times)
	must(t, err)
	put := func(name string) {
		t.Helper()
		must(t, b.guests.put(heavyCard(t, name, 1), false, time.Now()))
	}
	put("Digger")
	_, all := b.guests.due()
	put("digger")
	for _, g := range all {
		b.guests.settle(t.Context(), g)
	}
	for name, there := range map[string]bool{"Digger": true, "digger": false} {
		if err := b.host.Update(t.Context(), &a2a.AgentCard{Name: name}); (err == nil) != there {
			t.Errorf("while it is added: is %s there? %v", name, err)
		}
	}
	b.guests.look(t.Context())
	for name, there := range map[string]bool{"Digger": false, "digger": true} {
		if err := b.host.Update(t.Context(), &a2a.AgentCard{Name: name}); (err == nil) != there {
			t.Errorf("then: is %s there? %v", name, err)
		}
	}
}

// TestSilent forgets an agent that was not heard of for long.
func TestSilent(t *testing.T) {
	w := newWorld(t)
	w.times.silent = 300 * time.Millisecond
	w.serve()
	w.agent(&rockbottest.Program{Name: "Quiet", Skills: []string{"echo"}})
	w.Until("it has left", func() bool { return !w.Has(w.name("Quiet")) })
}

// TestRestarted stops Cortex while an agent has a task: it is not sent again, and its answer counts, whenever it comes.
func TestRestarted(t *testing.T) {
	w := newWorld(t)
	w.serve()
	runs, end := make(chan struct{}, 9), make(chan struct{})
	p := w.agent(&rockbottest.Program{Name: "Slow", Skills: []string{"work"}, Do: func(k *rockbottest.Work) {
		runs <- struct{}{}
		select {
		case <-end:
		case <-t.Context().Done():
		}
		k.Result(rockbottest.Completed, "done: "+k.Text())
	}})
	turn := w.Send(p.Name, "work", "one", "")
	<-runs
	w.Until("RabbitMQ is known to have it", func() bool {
		for n, err := range w.Store.Notes(t.Context(), "", storage.NoteSent) {
			if s := (sent{}); err == nil && json.Unmarshal(n.Value, &s) == nil && s.Confirmed {
				return true
			}
		}
		return false
	})
	w.stop()
	w.serve()
	w.Knows(p.Name) // without a card
	w.stop()
	close(end) // the answer is in the queue
	ch := w.channel()
	w.Until("the answer is there", func() bool {
		q, err := ch.QueueDeclarePassive("cortex."+w.o.name+".response", true, false, false, false, nil)
		return err == nil && q.Messages == 1
	})
	w.serve()
	if said := w.Answer(turn); said != "done: one" || len(runs) > 0 {
		t.Errorf("the answer is %q, after %d more executions", said, len(runs))
	}
}

// TestReplicas has two processes that do not lead at the same time. What is decided when neither of them does is not told that there is no such agent, and
// RockBot's agents are not taken for those of Cortex by the process that leads next, although they are still known.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	w.o.announce = []string{"*"}
	w.leads.Store(false)
	w.start()
	p := w.program(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	if w.connections() > 0 {
		t.Error("who does not lead works")
	}
	w.leads.Store(true)
	if _, err := p.Knows(w.soon(), w.o.name, true); err != nil {
		t.Fatal(err)
	}
	p.Announce()
	w.Knows(p.Name)
	w.leads.Store(false)
	w.Until("it no longer works", func() bool {
		return contains(w.Log.String(), "another process leads") && contains(w.Log.String(), "host (left|handed over)")
	})
	turn := w.Send(p.Name, "echo", "meanwhile", "")
	w.leads.Store(true)
	if said := w.Answer(turn); said != "meanwhile" {
		t.Errorf("what was asked meanwhile is answered with %q", said)
	}
	if said := w.Ask(p.Name, "echo", "ping", ""); said != "ping" {
		t.Errorf("the answer is %q", said)
	}
	if m, err := p.Knows(w.soon(), w.o.name, true); err != nil || m.Body["isDeregistering"] != false {
		t.Errorf("RockBot knows %v, %v", m, err)
	}
}

// TestCards sends cards that are none, too old, Cortex's own, or names that stand for others: no agent comes of them, and those behind are heard.
func TestCards(t *testing.T) {
	w := newWorld(t)
	w.Join(&a2a.AgentCard{Name: w.name("Taken"), Description: "one of Cortex's own"}, func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("own"), nil })
	w.serve()
	p := w.program(&rockbottest.Program{Name: "Herald", Skills: []string{"echo"}})
	p.Wrong = nil
	for _, body := range []string{
		`null`, `[]`, `{`, `{"agentName":null}`, `{"agentName":""}`, `{"agentName":"#"}`, `{"agentName":"agent.*"}`, `{"agentName":"status"}`, `{"agentName":"Cancel.x"}`,
		`{"description":"nobody"}`, `{"agentName":"` + strings.Repeat("x", 200) + `"}`, `{"agentName":"` + w.o.name + `"}`, `{"agentName":"user"}`, `{"agentName":"cortex"}`,
		`{"agentName":"` + w.name("Taken") + `"}`, `{"agentName":"` + w.name("Many") + `","skills":[` + strings.Repeat(`{"id":"x"},`, 5) + `null]}`,
		`{"agentName":"` + w.name("Away") + `","url":"http://127.0.0.1:1/"}`,
	} {
		must(t, p.Raw("discovery.announce", amqp.Publishing{Type: rockbottest.Card, Headers: amqp.Table{"rb-source": "stranger"}, Body: []byte(body)}))
	}
	must(t, p.Raw("discovery.announce", amqp.Publishing{Type: rockbottest.Card, Timestamp: time.Now().Add(-time.Hour), Headers: amqp.Table{"rb-source": "stranger"}, Body: []byte(`{"agentName":"` + w.name("Old") + `"}`)}))
	// A card without a type, an id, a time and a sender is one nevertheless.
	must(t, p.Raw("discovery.announce", amqp.Publishing{Body: []byte(`{"AGENTNAME":"` + p.Name + `"}`)}))
	w.Knows(p.Name)
	w.Knows(w.name("Many"))
	for _, name := range []string{"Old", "Away"} {
		if w.Has(w.name(name)) {
			t.Errorf("%s is there", name)
		}
	}
	if said := w.Ask(w.name("Taken"), "", "who", ""); said != "own" {
		t.Errorf("Cortex's own agent has said %q", said)
	}
	for _, want := range []string{"another agent called " + w.name("Taken") + " is there", "add it with cortex agent a2a http://127.0.0.1:1/"} {
		w.Until(want+" is said", func() bool { return contains(w.Log.String(), want) })
	}
}

// TestPrefix tells agents of the same name apart.
func TestPrefix(t *testing.T) {
	w := newWorld(t)
	w.o.prefix = "rb."
	w.Join(&a2a.AgentCard{Name: w.name("Echo"), Description: "one of Cortex's own"}, func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("own"), nil })
	w.serve()
	w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	for id, want := range map[string]string{w.name("Echo"): "own", "rb." + w.name("Echo"): "who"} {
		if said := w.Ask(id, "", "who", ""); said != want {
			t.Errorf("%s has said %q", id, said)
		}
	}
}

// TestNameIsTakenLater has an agent of Cortex come by the name of one of RockBot's, which gives way to it, and is let in again afterwards.
func TestNameIsTakenLater(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	if said := w.Ask(w.name("Echo"), "", "who", ""); said != "who" {
		t.Errorf("RockBot's agent has said %q", said)
	}
	own := &a2a.AgentCard{Name: w.name("Echo"), Description: "one of Cortex's own"}
	leave := w.Join(own, func(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("own"), nil })
	w.Until("it gives way", func() bool { return strings.Contains(w.Log.String(), "agent of RockBot is left out") })
	for range 4 {
		if said := w.Ask(w.name("Echo"), "", "who", ""); said != "own" {
			t.Errorf("Cortex's agent has said %q", said)
		}
	}
	leave()
	w.Until("it is let in", func() bool { return w.Ask(w.name("Echo"), "", "who", "") == "who" })
}

// TestStrict drops an answer that says that it comes from somebody else.
func TestStrict(t *testing.T) {
	w := newWorld(t)
	w.o.strict = true
	w.serve()
	p := &rockbottest.Program{Name: "Echo", Skills: []string{"echo"}}
	p.Do = func(k *rockbottest.Work) {
		raw(p, k, rockbottest.Result, `{"taskId":"ID","state":3,"message":{"role":"agent","parts":[{"kind":"text","text":"forged"}]}}`, amqp.Table{"rb-source": "Mallory"})
		k.Result(rockbottest.Completed, "mine")
	}
	w.agent(p)
	if said := w.Ask(p.Name, "echo", "ping", ""); said != "mine" {
		t.Errorf("the answer is %q", said)
	}
}

// TestManyMessages sends answers to nothing: what is behind them is taken. That they are dropped is told, since another Cortex of the same name may wait for
// them.
func TestManyMessages(t *testing.T) {
	w := newWorld(t)
	w.serve()
	p := &rockbottest.Program{Name: "Echo", Skills: []string{"echo"}}
	p.Do = func(k *rockbottest.Work) {
		for range 300 {
			p.Publish(k.ReplyTo, rockbottest.Result, rockbottest.NewID(), "", map[string]any{"taskId": rockbottest.NewID(), "state": 3, "message": nil})
		}
		k.Result(rockbottest.Completed, "mine")
	}
	w.agent(p)
	if said := w.Ask(p.Name, "echo", "ping", ""); said != "mine" {
		t.Errorf("the answer is %q", said)
	}
	if !contains(w.Log.String(), "an answer to no task of this Cortex is dropped") {
		t.Error("that others are dropped is not told")
	}
}

// TestErased deletes what is noted of a task, as a deletion of its conversation does: an answer that comes later is not noted.
func TestErased(t *testing.T) {
	w := newWorld(t)
	w.serve()
	begun, end, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := w.agent(&rockbottest.Program{Name: "Slow", Skills: []string{"work"}, Do: func(k *rockbottest.Work) {
		if k.Text() == "other" {
			k.Result(rockbottest.Completed, "other")
			return
		}
		close(begun)
		select {
		case <-end:
		case <-t.Context().Done():
		}
		k.Result(rockbottest.Completed, "late")
		close(answered)
	}})
	turn := w.Send(p.Name, "work", "work", "")
	<-begun
	notes := func() (keys []string) {
		for n, err := range w.Store.Notes(t.Context(), "", storage.NoteSent) {
			if s := (sent{}); err == nil && json.Unmarshal(n.Value, &s) == nil && s.Confirmed && s.Context == turn.ContextID {
				keys = append(keys, n.Key)
			}
		}
		return keys
	}
	w.Until("it is noted", func() bool { return len(notes()) == 1 })
	must(t, w.Store.DeleteNote(t.Context(), "", storage.NoteSent, notes()[0], 0))
	close(end)
	<-answered
	if said := w.Ask(p.Name, "work", "other", ""); said != "other" { // answers are taken in their order
		t.Errorf("the answer is %q", said)
	}
	if all := notes(); len(all) != 0 {
		t.Errorf("there are notes: %q", all)
	}
}
