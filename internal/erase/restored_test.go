package erase_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// site is a Cortex on a store of files, which answers each message with its text.
type site struct {
	t     *testing.T
	bus   *nats.Bus
	store *jetstore.Store
	stop  func()

	asked   chan struct{} // gets a value when a decision begins; nil: none is wanted
	hold    sync.Mutex    // nothing is decided meanwhile
	mu      sync.Mutex
	decided []string
}

func (s *site) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	s.hold.Lock()
	defer s.hold.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decided = append(s.decided, t.User)
	return &llm.Decision{Kind: llm.KindRespond, Say: t.User}, nil
}

// openSite starts a Cortex on the folder dir.
func openSite(t *testing.T, dir string) *site {
	t.Helper()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Sync: "2m"})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t}
	if s.bus, err = nats.Dial(t.Context(), &nats.Options{Server: server}); err != nil {
		t.Fatal(err)
	}
	if s.store, err = jetstore.Open(t.Context(), s.bus.Conn(), nil); err != nil {
		t.Fatal(err)
	}
	orch, err := cortex.New(cortex.Config{
		Transport: s.bus, Store: s.store, Decider: s, Agents: func(string) []prompt.Agent { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { orch.Run(ctx) }) //nolint:errcheck // it ends with ctx
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		s.bus.Close()
		server.Shutdown()
	})
	t.Cleanup(s.stop)
	return s
}

// say sends a message and returns the answer.
func (s *site) say(contextID, id, text string) string {
	s.t.Helper()
	c := &client.Client{Transport: s.bus, Log: client.ReadLog(s.store, "")}
	m := &client.Message{ContextID: contextID, ID: id, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	answer := ""
	for e, err := range c.Ask(s.t.Context(), m) {
		if err != nil {
			s.t.Fatal(err)
		}
		if m, ok := e.Payload.(*a2a.Message); ok {
			answer = transport.Text(m.Parts)
		}
	}
	return answer
}

// publish sends a message.
func (s *site) publish(contextID, id, text string) {
	s.t.Helper()
	err := s.bus.Publish(s.t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: id, Time: time.Now(), From: "user", ContextID: contextID, Payload: &a2a.Message{
			ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)},
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// done waits until the inbox is empty.
func (s *site) done() {
	s.t.Helper()
	for {
		left, err := s.bus.Waiting(s.t.Context(), transport.Inbox("", transport.Cortex))
		if err != nil {
			s.t.Fatal(err)
		}
		if left == 0 {
			return
		}
		select {
		case <-s.t.Context().Done():
			s.t.Fatal(s.t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestDeletedStaysDeleted gives a server back the inbox that it had before messages were acknowledged and their conversations deleted, as one that was
// killed between two writes of its state may have. The messages of deleted conversations are delivered again, and nothing is decided, also where a
// conversation has begun anew; what
// is said later is.
func TestDeletedStaysDeleted(t *testing.T) {
	inbox := filepath.Join("jetstream", "$G", "streams", "CORTEX_INBOX")
	dir := t.TempDir()
	s := openSite(t, dir)
	// The copy has the messages, since nothing is decided before it is made.
	s.hold.Lock()
	for _, id := range []string{"gone", "anew"} {
		s.publish(id, "m1", "first life")
	}
	before := storechecktest.Copy(t, dir)
	s.hold.Unlock()
	s.done()
	for _, id := range []string{"gone", "anew"} {
		if _, err := erase.Conversation(t.Context(), s.store, s.bus, "", id); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.say("anew", "m2", "second life"); got != "second life" {
		t.Errorf("the answer is %q", got)
	}
	s.done()
	s.stop()
	if err := os.RemoveAll(filepath.Join(dir, inbox)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, inbox), os.DirFS(filepath.Join(before, inbox))); err != nil {
		t.Fatal(err)
	}
	s = openSite(t, dir)
	if got := s.say("gone", "m3", "new words"); got != "new words" {
		t.Errorf("the answer in the conversation that begins anew is %q", got)
	}
	s.done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.decided) != 1 || s.decided[0] != "new words" {
		t.Errorf("decided again: %q, want only the new words", s.decided)
	}
}

// TestDeletedDuringADecision deletes a conversation while a message in it is decided: the message does not begin the conversation anew.
func TestDeletedDuringADecision(t *testing.T) {
	s := openSite(t, t.TempDir())
	if got := s.say("c", "m1", "before"); got != "before" {
		t.Fatalf("the answer is %q", got)
	}
	s.asked = make(chan struct{}, 1)
	s.hold.Lock()
	s.publish("c", "m2", "meanwhile")
	select {
	case <-s.asked:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	if _, err := erase.Conversation(t.Context(), s.store, s.bus, "", "c"); err != nil {
		t.Fatal(err)
	}
	s.hold.Unlock()
	if got := s.say("c", "m3", "after"); got != "after" { // it is handled behind m2
		t.Errorf("the answer is %q", got)
	}
	var said []string
	for e, err := range s.store.Load(t.Context(), "", "c", 0) {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, e.Cause.ID)
	}
	if len(said) != 1 || said[0] != "m3" {
		t.Errorf("the log has what %q have said, want only m3", said)
	}
}
