package console_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with a console, a scripted decider, and agents: worker, danger, which needs a yes, and evil, whose card is hostile.
type world struct {
	t     *testing.T
	bus   *memory.Bus
	store *memstore.Store
	dir   *directory.Directory
	url   string // of the console, ending in /
	pages http.Handler
	key   []byte // of its gate
	gate  chan struct{}
	wrote atomic.Int32 // tokens that the decider has written
	given int          // letters that were given up

	mu      sync.Mutex
	prompts []*prompt.Prompt // those of the decisions, in their order
	stop    context.CancelFunc
	ended   chan struct{} // closed when the console has ended
}

var templates = func() *prompt.Templates {
	t, err := prompt.New("")
	if err != nil {
		panic(err)
	}
	return t
}()

const hostile = "<script>alert(1)</script> \u202eevil [x](javascript:alert(2)) <img src=x onerror=alert(3)>"

// Decide implements [llm.Decider]: the first word of a message says what happens.
func (w *world) Decide(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	w.mu.Lock()
	if p, err := templates.Render(&t.Input); err == nil {
		w.prompts = append(w.prompts, p)
	}
	w.mu.Unlock()
	usage := llm.Usage{Input: 1200, Cached: 900, Output: 80, Cost: 0.0031}
	answer := func(text string) (*llm.Decision, error) {
		return &llm.Decision{Kind: llm.KindRespond, Say: text, Reason: "the results say so", Model: "test-1", Usage: usage}, nil
	}
	if len(t.Steps) > 0 {
		var all []string
		for _, task := range t.Steps[len(t.Steps)-1].Tasks {
			all = append(all, task.Result)
		}
		return answer(strings.Join(all, "\n\n"))
	}
	word, _, _ := strings.Cut(t.User, " ")
	to := func(agent string, tasks ...string) (*llm.Decision, error) {
		d := &llm.Decision{Kind: llm.KindDelegate, Reason: "they can do it", Model: "test-1", Usage: usage}
		for i, text := range tasks {
			d.Delegations = append(d.Delegations, llm.Delegation{ID: fmt.Sprint("d", i), Agent: agent, Skill: "do", Task: text})
		}
		return d, nil
	}
	switch {
	case len(t.Waiting) > 0:
		return &llm.Decision{Kind: llm.KindDelegate, Model: "test-1", Delegations: []llm.Delegation{
			{ID: string(t.Waiting[0].ID), Agent: t.Waiting[0].Agent, Task: t.User},
		}}, nil
	case word == "stream":
		var text strings.Builder
		for i := range 200 {
			piece := fmt.Sprintf("word%d ", i)
			text.WriteString(piece)
			stream(piece)
			if w.wrote.Add(1); i == 20 {
				select {
				case <-w.gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		return answer(text.String())
	case word == "flood": // a thousand tokens in a second, at least three thousand, until the gate is open
		began, tick := time.Now(), time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var text strings.Builder
		for n := 0; ; <-tick.C {
			for ; n < int(time.Since(began).Milliseconds()); n++ {
				piece := fmt.Sprint("t", n, " ")
				text.WriteString(piece)
				stream(piece)
				w.wrote.Add(1)
			}
			select {
			case <-w.gate:
				if n >= 3000 {
					return answer(text.String())
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			default:
			}
		}
	case word == "hostile":
		return answer(hostile)
	case word == "free":
		return &llm.Decision{Kind: llm.KindRespond, Say: "gladly", Model: "test-1"}, nil
	case word == "long":
		return answer("start " + strings.Repeat("x", 1<<20) + " end")
	case word == "think":
		<-ctx.Done()
		return nil, ctx.Err()
	case word == "danger":
		return to("danger", t.User)
	case word == "two":
		return to("worker", "slow one", "fast two")
	case word == "wide":
		wide := strings.Repeat("wide ", 100)
		return answer("##### Deep\n\n# Top\n\n| a | b |\n|---|---|\n| " + strings.ReplaceAll(wide, " ", "_") + " | 2 |\n\n```\n" + wide + "\n```\n\n    " + wide)
	case word == "markdown":
		return answer("## Trains\n\nThere are **two**:\n\n| train | leaves | price |\n|---|---|---|\n| ICE 701 | 08:05 | 49 € |\n| RE 5 | 08:12 | 21 € |\n\nSee [the timetable](https://example.com/t).\n\n```\nicebook --train 701\n```")
	}
	return to("worker", t.User)
}

// work is what the agents do.
func (w *world) work(ctx context.Context, task *agents.Task) (*agents.Result, error) {
	text := task.Text()
	switch {
	case strings.HasPrefix(text, "slow"):
		task.Progress("half way through " + text)
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case text == "paint":
		return agents.InputRequired("Which colour shall it be?"), nil
	case text == "fail":
		return nil, fmt.Errorf("the printer is out of paper")
	case strings.HasPrefix(text, "file"):
		names := []string{}
		for _, f := range task.Files() {
			names = append(names, f.Name)
		}
		return &agents.Result{Parts: a2a.ContentParts{a2a.NewTextPart("here: " + strings.Join(names, ", ")), {Content: a2a.Raw("a,b\n1,2\n"), Filename: "t able.csv", MediaType: "text/csv"}}}, nil
	}
	return agents.Text("done: " + text), nil
}

type option func(*console.Config)

func newWorld(t *testing.T, options ...option) *world {
	t.Helper()
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), gate: make(chan struct{}), key: []byte("0123456789abcdef"), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	skills := []a2a.AgentSkill{{ID: "do", Name: "Do", Description: "Does what it is told", Tags: []string{"work"}, Examples: []string{"do the dishes"}}}
	order := a2a.AgentSkill{ID: "order", Name: "Order", Description: "Orders something in a given way", Tags: []string{"work"}}
	cards := []*a2a.AgentCard{
		agentcard.Attach(&a2a.AgentCard{Name: "worker", Description: "Does what it is told, and says how far it is", Version: "1.2.0", Skills: append(skills, order)}, &agentcard.Spec{
			Tags: []string{"office"}, Abilities: map[string]agentcard.Ability{"order": {InputSchema: []byte(`{"type":"object","required":["what"],"properties":{"what":{"type":"string","description":"What is to be done"},"times":{"type":"integer","minimum":1},"how":{"enum":["fast","well"]},"quiet":{"type":"boolean","description":"Say nothing"}}}`)}},
		}),
		agentcard.Attach(&a2a.AgentCard{Name: "danger", Description: "Does what cannot be undone", Version: "1.0.0", Skills: skills}, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"do": {Confirm: true}}}),
	}
	w.dir = directory.New(registry.Config{Announce: true})
	running.Go(func() { _ = w.dir.Registry.Run(ctx, w.bus) })
	for _, c := range cards {
		running.Go(func() { _ = agents.Serve(ctx, w.bus, c, agents.Handler(w.work), nil) })
	}
	<-w.dir.Registry.Synced()
	until(t, "all agents are there", func() bool { return len(w.dir.Routable("")) == len(cards) })
	o, err := cortex.New(cortex.Config{Transport: w.bus, Store: w.store, Decider: w, Agents: w.dir.Routable, Present: w.dir.Present, Router: w.dir.Index})
	must(t, err)
	running.Go(func() { _ = o.Run(ctx) })
	cfg := console.Config{
		Client: &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, "")}, Store: w.store, Agents: w.dir.Registry.Snapshot, Version: "1.2.3",
		Gate: console.NewGate(w.key, nil), Done: ctx.Done(), Prompt: templates.Render,
	}
	for _, opt := range options {
		opt(&cfg)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.url = "http://" + l.Addr().String() + "/"
	w.pages = console.New(cfg).Handler()
	running.Go(func() {
		defer close(w.ended)
		if err := httpserver.Serve(ctx, l, w.pages, &httpserver.Options{Connections: 1000, Body: console.MaxBody}); err != nil {
			t.Error(err)
		}
	})
	return w
}

// join announces an agent that does what it is told.
func (w *world) join(name, about string) {
	w.t.Helper()
	id := must1(transport.AgentID(name))(w.t)
	e := &transport.Event{ID: "card-" + id, Time: time.Now(), From: id, Payload: &transport.Card{AgentID: id, Instance: "i", TTL: time.Hour, Card: &a2a.AgentCard{
		Name: name, Description: about, Version: "1", Skills: []a2a.AgentSkill{{ID: "s", Name: about, Description: about, Tags: []string{"t"}}},
	}}}
	must(w.t, w.bus.Publish(w.t.Context(), transport.Cards(""), e))
	until(w.t, id+" is there", func() bool {
		_, ok := w.dir.Registry.Snapshot().Get(id)
		return ok
	})
}

// until waits until something is true, which what describes.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

// link returns a link that lets in once.
func (w *world) link() string {
	return w.url + "?token=" + console.Token(w.key, time.Now().Add(time.Minute))
}

// browser returns a client that is logged in, and follows no redirect.
func (w *world) browser() *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	must(w.t, err)
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Get(w.link())
	must(w.t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("the link answers %s", answer.Status)
	}
	return c
}

// ask says something, and waits for the answer.
func (w *world) ask(contextID, text string) string {
	w.t.Helper()
	c := &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond}
	turn, err := c.Send(w.t.Context(), client.Text(contextID, text))
	must(w.t, err)
	_, err = c.Answer(w.t.Context(), turn)
	must(w.t, err)
	return c.ID(turn)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// giveUp makes a dead letter, for this reason.
func (w *world) giveUp(reason string) {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	defer end()
	inbox := transport.Inbox("", "clerk")
	w.given++
	must(w.t, w.bus.Publish(ctx, inbox, &transport.Event{ID: fmt.Sprint("letter-", w.given), Time: time.Now(), From: transport.Cortex, ContextID: "x", Payload: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("book it"))}))
	sub, err := w.bus.Subscribe(ctx, inbox, nil)
	must(w.t, err)
	_ = sub.Serve(ctx, func(context.Context, *transport.Event) error {
		defer end()
		return transport.Permanent(errors.New(reason))
	})
}
