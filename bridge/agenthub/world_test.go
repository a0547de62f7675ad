package agenthub

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/app/role/roletest"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/llm"
)

// world is a Cortex with a hub.
type world struct {
	*roletest.World
	times   times
	prefix  string
	address string
	gate    chan struct{} // closed: answers that begin with slow are given

	hub  *hub
	stop func()
}

// quick are times for tests.
var quick = times{
	grace: 200 * time.Millisecond, registered: 300 * time.Millisecond, artifact: 2 * time.Second, answer: 10 * time.Second, undelivered: 10 * time.Second,
	open: time.Minute, behind: 10 * time.Second, behindAll: 200 * time.Millisecond,
}

// decider answers, or gives work to the agent that a text begins with.
type decider struct{ w *world }

func (d decider) Decide(ctx context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		last := t.Steps[len(t.Steps)-1].Tasks[0]
		said := last.Result
		for _, a := range last.Artifacts {
			said += a.Text
		}
		return &llm.Decision{Kind: llm.KindRespond, Say: string(last.State) + ": " + said}, nil
	}
	if strings.HasPrefix(t.User, "slow") {
		select {
		case <-d.w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(t.Waiting) > 0 {
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: string(t.Waiting[0].ID), Agent: t.Waiting[0].Agent, Task: t.User}}}, nil
	}
	if agent, task, ok := strings.Cut(t.User, ": "); ok {
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: agent, Skill: d.w.skill(agent), Task: task}}}, nil
	}
	return &llm.Decision{Kind: llm.KindRespond, Say: "you said " + t.User}, nil
}

// skill returns the first skill of an agent.
func (w *world) skill(agent string) string {
	if r, ok := w.Directory.Registry.Snapshot().Get(agent); ok && len(r.Card.Skills) > 0 {
		return r.Card.Skills[0].ID
	}
	return ""
}

func newWorld(t testing.TB) *world {
	w := &world{times: quick, gate: make(chan struct{})}
	w.World = roletest.New(t, decider{w})
	return w
}

// serve starts the hub, at the same address as before.
func (w *world) serve() {
	w.T.Helper()
	at := w.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", at)
	must(w.T, err)
	w.address = l.Addr().String()
	w.hub, err = newHub(w.Site(), w.prefix, w.times)
	must(w.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- w.hub.run(ctx, func(ctx context.Context) error { return w.hub.serve(ctx, l) })
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.T.Cleanup(w.stop)
}

// dial connects a program.
func (w *world) dial() hubpb.AgentHubClient {
	w.T.Helper()
	hub, end, err := hubtest.Dial(w.address)
	must(w.T, err)
	w.T.Cleanup(end)
	return hub
}

// join runs an agent, and waits until Cortex knows it. leave ends its stream.
func (w *world) join(a *hubtest.SubAgent) (leave func()) {
	w.T.Helper()
	leave = w.run(a)
	if !a.Silent {
		w.Until(a.ID+" is there", func() bool { return w.Has(a.ID) })
	}
	return leave
}

// run runs an agent, and waits until it has subscribed.
func (w *world) run(a *hubtest.SubAgent) (leave func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	hub, subscribed := w.dial(), make(chan struct{})
	a.OnStream = func() { close(subscribed) }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Run(ctx, hub)
	}()
	leave = func() {
		cancel()
		<-ended
	}
	w.T.Cleanup(leave)
	select {
	case <-subscribed:
	case <-time.After(time.Minute):
		w.T.Fatalf("%s does not subscribe", a.ID)
	}
	return leave
}

// ask asks Cortex, and returns the answer.
func (w *world) ask(context, text string) string {
	w.T.Helper()
	turn, err := w.Client.Send(w.T.Context(), client.Text(context, text))
	must(w.T, err)
	return w.Answer(turn)
}

// receive returns the next value of a channel.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: it does not come", what)
		panic("unreachable")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
