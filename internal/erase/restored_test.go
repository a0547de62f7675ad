package erase_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

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

// restart stops s, gives its server back the inbox of an earlier copy of its folder, as one that was killed between two writes of its state may have,
// and starts it again.
func (s *site) restart(dir, before string) *site {
	s.t.Helper()
	inbox := filepath.Join("jetstream", "$G", "streams", "CORTEX_INBOX")
	s.stop()
	if err := os.RemoveAll(filepath.Join(dir, inbox)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, inbox), os.DirFS(filepath.Join(before, inbox))); err != nil {
		s.t.Fatal(err)
	}
	return openSite(s.t, dir)
}

// wantDecided checks what was decided.
func (s *site) wantDecided(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := cmp.Diff(want, s.decided); d != "" {
		s.t.Errorf("what was decided differs (-want +got):\n%s", d)
	}
}

// TestDeletedStaysDeleted gives a server back the inbox that it had before messages were acknowledged and their conversations deleted. The messages of
// deleted conversations are delivered again, and nothing is decided: also where a conversation has begun anew, and where nobody had handled the message
// before its conversation was deleted. What is said later is decided.
func TestDeletedStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	s := openSite(t, dir)
	// The copy has the messages, since nothing is decided before it is made.
	s.hold.Lock()
	for _, id := range []string{"gone", "anew", "unheard"} {
		s.publish(id, "m1", "first life")
	}
	before := storechecktest.Copy(t, dir)
	remove := func(id string, entries int) {
		t.Helper()
		if done, err := erase.Conversation(t.Context(), s.store, s.bus, "", id); err != nil || done.Entries != entries {
			t.Fatalf("deleting %s = %+v, %v, want %d entries", id, done, err, entries)
		}
	}
	remove("unheard", 0)
	s.hold.Unlock()
	for _, id := range []string{"gone", "anew"} {
		if got := s.say(id, "m1", "first life"); got != "first life" { // it is the same message: say waits for the answer
			t.Fatalf("the answer in %s is %q", id, got)
		}
		remove(id, 1)
	}
	if got := s.say("anew", "m2", "second life"); got != "second life" {
		t.Errorf("the answer is %q", got)
	}
	s = s.restart(dir, before)
	for _, id := range []string{"gone", "anew", "unheard"} {
		if got := s.say(id, "m3", "new words"); got != "new words" { // it is handled behind m1
			t.Errorf("the answer in %s is %q", id, got)
		}
	}
	s.wantDecided("new words", "new words", "new words")
}

// talking is the bus of a process that deletes a conversation. Something is said in it when its events are erased, and its log is not.
type talking struct {
	*nats.Bus
	meanwhile func()
}

func (b talking) Erase(ctx context.Context, tenant, contextID string) error {
	err := b.Bus.Erase(ctx, tenant, contextID)
	b.meanwhile()
	return err
}

// TestSaidDuringADeletion has a message said and answered while its conversation is being deleted, which deletes it, too. When its server delivers the
// message again, nothing is decided.
func TestSaidDuringADeletion(t *testing.T) {
	dir := t.TempDir()
	s := openSite(t, dir)
	if got := s.say("c", "m1", "before"); got != "before" {
		t.Fatalf("the answer is %q", got)
	}
	before := ""
	bus := talking{s.bus, func() {
		s.hold.Lock()
		s.publish("c", "m2", "meanwhile")
		before = storechecktest.Copy(t, dir)
		s.hold.Unlock()
		if got := s.say("c", "m2", "meanwhile"); got != "meanwhile" {
			t.Errorf("the answer is %q", got)
		}
	}}
	if _, err := erase.Conversation(t.Context(), s.store, bus, "", "c"); err != nil {
		t.Fatal(err)
	}
	s.wantDecided("before", "meanwhile")
	s = s.restart(dir, before)
	if got := s.say("c", "m3", "new words"); got != "new words" { // it is handled behind m2
		t.Errorf("the answer is %q", got)
	}
	s.wantDecided("new words")
}

// TestDeletedDuringADecision deletes a conversation while a message in it is decided, its first one or a later one: the message does not begin the
// conversation anew.
func TestDeletedDuringADecision(t *testing.T) {
	for name, began := range map[string]bool{"first": false, "later": true} {
		t.Run(name, func(t *testing.T) { deletedDuringADecision(t, began) })
	}
}

func deletedDuringADecision(t *testing.T, began bool) {
	s := openSite(t, t.TempDir())
	if began {
		if got := s.say("c", "m1", "before"); got != "before" {
			t.Fatalf("the answer is %q", got)
		}
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
