package a2a_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestPeer gives tasks of every kind to peers of every kind.
func TestPeer(t *testing.T) {
	for _, binding := range bindings {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming %v", binding, streams), func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, streams)
				a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
				if a.ID() != "Weather_Bureau" || len(a.Card().Skills) != 2 || len(a.Card().SupportedInterfaces) != 0 {
					t.Errorf("the card is %+v", a.Card())
				}
				c := agentstest.Serve(t, a)
				for _, test := range []struct {
					text  string
					state a2a.TaskState
					want  string
				}{
					{"say sun", a2a.TaskStateCompleted, "sun"},
					{"stream it", a2a.TaskStateCompleted, "one, two, three"},
					{"message rain", a2a.TaskStateCompleted, "no task for rain"},
					{"reject it", a2a.TaskStateRejected, "not that"},
					{"fail at it", a2a.TaskStateFailed, "it went wrong"},
					{"error", a2a.TaskStateFailed, "it broke"},
				} {
					got := c.Do(test.text)
					if got.State != test.state || !strings.Contains(got.Text, test.want) {
						t.Errorf("%s: %s %q, want %s %q", test.text, got.State, got.Text, test.state, test.want)
					}
				}
				for _, test := range []struct {
					text, question, want string
					state                a2a.TaskState
				}{
					{"ask me", "Where?", "so it is here", a2a.TaskStateInputRequired},
					{"login first", "Log in at https://example.com", "so it is here", a2a.TaskStateAuthRequired},
				} {
					m := &a2a.Message{TaskID: a2a.TaskID(test.text[:3]), Parts: a2a.ContentParts{a2a.NewTextPart(test.text)}}
					if got := c.Task(m); got.State != test.state || got.Text != test.question {
						t.Errorf("%s: %s %q", test.text, got.State, got.Text)
						continue
					}
					if test.state == a2a.TaskStateAuthRequired {
						time.AfterFunc(300*time.Millisecond, func() { close(p.login) })
					}
					m = &a2a.Message{TaskID: m.TaskID, Parts: a2a.ContentParts{a2a.NewTextPart("here")}, Metadata: map[string]any{transport.MetaContinued: true}}
					if got := c.Task(m); got.State != a2a.TaskStateCompleted || got.Text != test.want {
						t.Errorf("%s, answered: %s %q", test.text, got.State, got.Text)
					}
				}
				got := c.Do("files please")
				if got.State != a2a.TaskStateCompleted || len(got.Artifacts) != 1 || string(got.Artifacts[0].Parts[0].Raw()) != "a,b\n" || got.Artifacts[0].Name != "t.csv" {
					t.Errorf("files: %s %q %+v", got.State, got.Text, got.Artifacts)
				}
				if data, _ := got.Data().(map[string]any); data["rain"] != true || !strings.Contains(got.Text, "2 more are left out") {
					t.Errorf("files: %q %v", got.Text, got.Parts)
				}
				for _, part := range got.Parts {
					if u := part.URL(); u != "" && u != "https://example.com/x.png" {
						t.Errorf("a stranger's link %q is passed on", u)
					}
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if n := len(p.begun); n != 9 {
					t.Errorf("%d tasks were begun: %q", n, p.begun)
				}
				contexts := map[string]bool{}
				for _, m := range p.messages[1:] { // the first one has none
					contexts[m.ContextID] = true
				}
				if len(contexts) != 1 {
					t.Errorf("one conversation has the contexts %v", contexts)
				}
			})
		}
	}
}

// TestPollingIsNoProgress asks a peer for its task again and again: what it says is shown once, and moves the deadline once.
func TestPollingIsNoProgress(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", false)
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
	c := agentstest.Serve(t, a)
	go func() {
		defer close(p.release)
		eventually(t, "it is asked again", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.headers) > 4
		})
	}()
	if got := c.Do("wait here"); got.Text != "waited for here" || len(got.Progress) > 1 {
		t.Errorf("got %q, progress %q", got.Text, got.Progress)
	}
}

// TestTextIsShownAsItComes shows the text of an artifact before it is whole.
func TestTextIsShownAsItComes(t *testing.T) {
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, binding, true)
			a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
			bus := memory.New(nil)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			defer func() {
				stop()
				running.Wait()
				bus.Close()
			}()
			running.Go(func() { agents.Serve(ctx, bus.Dial(), a.Card(), a, &agents.Options{Grace: -1}) })
			seen := make(chan string, 100)
			listen := func(topic transport.Topic, f func(*transport.Event)) {
				sub, err := bus.Subscribe(ctx, topic, nil)
				if err != nil {
					t.Fatal(err)
				}
				running.Go(func() {
					sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
						f(e)
						return nil
					})
				})
			}
			listen(transport.Live("", "c"), func(e *transport.Event) {
				if u, ok := e.Payload.(*a2a.TaskArtifactUpdateEvent); ok {
					seen <- transport.Text(u.Artifact.Parts)
				}
			})
			done := make(chan string, 1)
			listen(transport.Inbox("", transport.Cortex), func(e *transport.Event) {
				if task, ok := e.Payload.(*a2a.Task); ok {
					done <- transport.Text(task.Status.Message.Parts)
				}
			})
			m := &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, ContextID: "c", TaskID: "1", Parts: a2a.ContentParts{a2a.NewTextPart("dribble")}}
			e := &transport.Event{ID: "m", Time: time.Now(), From: transport.Cortex, ContextID: "c", TaskID: "1", Payload: m}
			if err := bus.Publish(ctx, transport.Inbox("", a.ID()), e); err != nil {
				t.Fatal(err)
			}
			for shown := ""; shown != "one, two, "; {
				select {
				case text := <-seen:
					shown += text
				case <-time.After(time.Minute):
					t.Fatalf("%q is shown", shown)
				}
			}
			close(p.release)
			if got := <-done; got != "one, two, three" {
				t.Errorf("got %q", got)
			}
		})
	}
}
