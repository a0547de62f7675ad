package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// BenchmarkTurnAmongMany measures a turn that is answered at once, in memory, in conversations of 10 turns of changing subjects:
// among 3 agents, which is the floor, and among 10,000. The difference of p50 is the cost of a choice. "first-bytes" is
// the size of the instructions and agents in the prompt of a first question.
func BenchmarkTurnAmongMany(b *testing.B) {
	for _, many := range []int{3, 10_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			agents, index := crowd(many), router.New(nil)
			for _, a := range agents {
				index.Put(a.ID, a.Card)
			}
			measure := benchmarkAnswer(b, agents, index)
			var took []time.Duration
			n := 0
			for b.Loop() {
				n++
				text := fmt.Sprintf("I need someone who %s %s", jobs[n/7%len(jobs)], things[n/3%len(things)])
				took = append(took, measure(fmt.Sprint("c", n/10), fmt.Sprint("m", n), text))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			in, _ := catalog.Preview(conversation.NewConversation("", "x"), "I need someone who sells wine", agents, index, t0)
			b.ReportMetric(float64(agentText(rendered(b, []*llm.Turn{{Input: *in}})[0])), "first-bytes")
		})
	}
}

// benchmarkAnswer runs an orchestrator and returns a function that measures how long an answer takes.
func benchmarkAnswer(b *testing.B, agents []prompt.Agent, index *router.Index) func(contextID, id, text string) time.Duration {
	bus := memory.New(nil)
	b.Cleanup(func() { bus.Close() })
	answered := make(chan struct{}, 1)
	orch, err := cortex.New(cortex.Config{
		Transport: bus, Store: memstore.New(), Decider: greet, Agents: func(string) []prompt.Agent { return agents }, Router: index,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	go orch.Run(ctx)
	watched := ""
	return func(contextID, id, text string) time.Duration {
		if contextID != watched {
			watched = contextID
			sub, err := bus.Subscribe(ctx, transport.Live("", contextID), nil)
			if err != nil {
				b.Fatal(err)
			}
			go sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
				if _, ok := e.Payload.(*a2a.Message); ok {
					answered <- struct{}{}
				}
				return nil
			})
		}
		e := userEvent(id, text)
		e.ContextID = contextID
		e.Payload.(*a2a.Message).ContextID = contextID
		began := time.Now()
		if err := bus.Publish(ctx, transport.Inbox("", transport.Cortex), e); err != nil {
			b.Fatal(err)
		}
		select {
		case <-answered:
		case <-time.After(patience):
			b.Fatalf("message %s is not answered", id)
		}
		return time.Since(began)
	}
}
