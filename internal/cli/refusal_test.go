package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// unheard is a transport that loses live events.
type unheard struct{ transport.Transport }

func (u unheard) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t.Kind == transport.KindLive {
		return nil
	}
	return u.Transport.Publish(ctx, t, e)
}

// tiny is a store that rejects every entry.
type tiny struct{ *jetstore.Store }

func (tiny) Append(context.Context, string, string, conversation.Version, *conversation.Entry) (conversation.Version, error) {
	return 0, transport.ErrTooLarge
}

// TestRefusalNobodyHeard refuses a message while the client misses live events: it gets the answer nevertheless.
func TestRefusalNobodyHeard(t *testing.T) {
	t.Run("without keys", func(t *testing.T) {
		l := newListening(t)
		refuse(t, l, l, cortex.Config{Store: tiny{l.store.(*jetstore.Store)}, Decider: nobody{}}, "too large to be kept")
	})
	t.Run("with keys", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "auth")
		if err := auth.Init(dir); err != nil {
			t.Fatal(err)
		}
		creds, err := auth.AddUser(dir, "", "ada")
		if err != nil {
			t.Fatal(err)
		}
		server, err := own.Start(t.Context(), &home.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		engine := dialed(t, server, "")
		if _, err := engine.bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil { // lets people in
			t.Fatal(err)
		}
		refuse(t, engine, dialed(t, server, creds), cortex.Config{Store: tiny{engine.store.(*jetstore.Store)}, Decider: nobody{}}, "too large to be kept")
	})
}

// untimed is a store that rejects deadlines.
type untimed struct{ *jetstore.Store }

func (s untimed) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if _, ok := e.Cause.Payload.(*transport.Deadline); ok {
		return 0, transport.Permanent(errors.New("no"))
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// delegating delegates to the agent worker.
type delegating struct{}

func (delegating) Decide(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "worker", Task: "x"}}}, nil
}

// TestTurnEndsBesideItsLog makes Cortex fail to end a turn in its log while the client misses live events: it gets the answer, although the turn is
// open in the log.
func TestTurnEndsBesideItsLog(t *testing.T) {
	l := newListening(t)
	refuse(t, l, l, cortex.Config{Store: untimed{l.store.(*jetstore.Store)}, Decider: delegating{}, TaskTimeout: time.Millisecond}, "failed repeatedly")
}

// refuse has a person's message refused by an orchestrator with the configuration cfg.
func refuse(t *testing.T, engine, person *link, cfg cortex.Config, want string) {
	t.Helper()
	cfg.Transport = unheard{engine.bus}
	cfg.Agents = func(string) []prompt.Agent {
		return []prompt.Agent{{ID: "worker", Seen: true, Card: &a2a.AgentCard{Name: "worker", Skills: []a2a.AgentSkill{{ID: "s", Name: "S"}}}}}
	}
	o, err := cortex.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = o.Run(ctx) })
	c := person.client()
	c.Poll = 10 * time.Millisecond
	var last *transport.Event
	for e, err := range c.Ask(ctx, client.Text("c1", "hello")) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	m, ok := last.Payload.(*a2a.Message)
	if !ok || !strings.Contains(transport.Text(m.Parts), want) || m.Metadata[transport.MetaFailed] != true {
		t.Errorf("the turn ended with %+v, want the refusal", last.Payload)
	}
}

// nobody is a decider that makes no decisions.
type nobody struct{}

func (nobody) Decide(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
	return nil, context.Canceled
}
