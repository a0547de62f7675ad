//go:build unix

package cortex_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// hurried are alpha, whose tasks have a second, and beta.
func hurried(string) []prompt.Agent {
	specs := map[string]agentcard.Spec{"alpha": within(time.Second), "beta": within(time.Minute)}
	return specified(specs)("")[:2]
}

// TestKill9WhileTryingAgain kills the process at several steps while alpha misses its deadline, beta gets the task and asks
// back, and the user replies: each time both messages have one answer, and beta has one task.
func TestKill9WhileTryingAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	c := startChild(t, dir, "127.0.0.1:0", 0, "retries")
	listen := strings.TrimPrefix(c.url, "nats://")
	bus, store := c.join(t)
	serve := func(agent string, do func(e *transport.Event) error) {
		sub, err := bus.Subscribe(t.Context(), transport.Inbox("", agent), &transport.SubscribeOptions{Unordered: true})
		if err != nil {
			t.Fatal(err)
		}
		go sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { return do(e) })
	}
	given := make(chan a2a.TaskID, 1000)
	serve("alpha", func(*transport.Event) error { return nil })
	serve("beta", func(e *transport.Event) error {
		given <- e.TaskID
		state, text := a2a.TaskStateInputRequired, "how many?"
		if said := transport.Text(message(e).Parts); said != "find lamps" {
			state, text = a2a.TaskStateCompleted, "found "+said
		}
		return bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), resultEvent("r-"+e.ID, "beta", e.TaskID, state, text))
	})

	survived := false
	for at := 3; !survived; at += 8 {
		c.stop()
		c = startChild(t, dir, listen, at, "retries")
		killed := false
		for _, say := range []struct{ id, text, want string }{
			{fmt.Sprintf("m%d", at), "lamps", "how many?"},
			{fmt.Sprintf("n%d", at), "four", "beta COMPLETED found four; "},
		} {
			published := false
			poll := time.NewTicker(10 * time.Millisecond)
			var log []*conversation.Entry
			for deadline := time.Now().Add(3 * time.Minute); log == nil; <-poll.C {
				if time.Now().After(deadline) {
					t.Fatalf("killed at step %d: no answer to %q within three minutes", at, say.text)
				}
				if !published {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					published = bus.Publish(ctx, transport.Inbox("", transport.Cortex), userEvent(say.id, say.text)) == nil
					cancel()
				}
				if !killed && c.hasEnded() {
					killed = true
					c = startChild(t, dir, listen, 0, "retries")
				}
				log = answered(t, store, say.id)
			}
			poll.Stop()
			if got := answersOf(t, log)[say.id]; got != say.want {
				t.Fatalf("killed at step %d: answer %q, want %q", at, got, say.want)
			}
		}
		ids := map[a2a.TaskID]bool{}
		for len(given) > 0 {
			ids[<-given] = true
		}
		if len(ids) != 1 {
			t.Errorf("killed at step %d: beta got %d different tasks, want one that goes on", at, len(ids))
		}
		c.stop()
		if survived = !killed && !c.killed(); survived && at < 30 {
			t.Errorf("there were only %d steps: the fatal step is not everywhere", at)
		}
	}
}
