//go:build unix

package tests

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestSlowAgent checks that bob's hundreds of requests to an agent that does one task at a time do not delay ada's single one until the end. Both use
// keys.
func TestSlowAgent(t *testing.T) {
	t.Parallel()
	s := serveLimited(t, true, 1024)
	s.isReady()
	dial := func(role, name string) *nats.Bus {
		out, err := exec.Command(s.path, "auth", "add", role, name, "--data", s.data).Output()
		if err != nil {
			t.Fatal(err)
		}
		bus, err := nats.Dial(t.Context(), &nats.Options{URL: "nats://" + s.address(`url=nats://([0-9.:]+)`), Creds: strings.TrimSpace(string(out))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	var mu sync.Mutex
	done := 0
	his, hers := make(chan int, 1), make(chan int, 1) // number of tasks begun
	asked := make(chan struct{})                      // closed when Cortex has ada's task, and the agent may go on
	slow, ctx := dial("agent", "slow"), t.Context()
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		card := &a2a.AgentCard{Name: "slow", Description: "takes its time", Skills: []a2a.AgentSkill{{ID: "dawdle", Name: "dawdle"}}}
		ended <- agents.Serve(serving, slow, card, agents.Handler(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			mu.Lock()
			done++
			n := done
			mu.Unlock()
			if n == 20 {
				his <- n
				select {
				case <-asked:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			if strings.Contains(task.Text(), "ada") {
				hers <- n
			}
			return &agents.Result{}, nil
		}), &agents.Options{Concurrency: 1})
	}()
	defer stop()
	ask := func(bus *nats.Bus, who string, n int) {
		id := fmt.Sprint(who, n)
		err := bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
			ID: id, Time: time.Now(), From: "user:" + who, ContextID: id,
			Payload: &a2a.Message{ID: id, ContextID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("@slow dawdle for " + who)}},
		})
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	bob, ada := dial("user", "bob"), dial("user", "ada")
	says := func(want string, command ...string) {
		t.Helper()
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for end := time.Now().Add(patience); ; <-poll.C {
			out, err := exec.Command(s.path, append(command, "--data", s.data)...).CombinedOutput()
			if strings.Contains(string(out), want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%v: %v: %s", command, err, out)
			}
		}
	}
	says("slow", "agents")
	var asking sync.WaitGroup
	for from := range 8 {
		asking.Go(func() {
			for n := from; n < 300; n += 8 {
				ask(bob, "bob", n)
			}
		})
	}
	asking.Wait()
	before := within(t, his)
	ask(ada, "ada", 1)
	says("→ slow", "history", "ada1")
	close(asked)
	if n := within(t, hers) - before; n > 140 { // how much is sent ahead to the agent depends on the machine
		t.Errorf("ada's task is done after %d of bob's, want not half of them; the log:\n%s", n, s.log)
	}
	stop() // before the service, so that it can say goodbye
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.stop()
}

// within receives from c, and fails the test when nothing arrives.
func within(t *testing.T, c <-chan int) int {
	t.Helper()
	select {
	case n := <-c:
		return n
	case <-time.After(patience):
		t.Fatal("it does not come")
		return 0
	}
}
