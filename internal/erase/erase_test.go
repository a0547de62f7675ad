package erase_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// toEcho gives a message to the agent that it begins with, and answers when the task is done.
type toEcho struct{}

func (toEcho) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		return &llm.Decision{Kind: llm.KindRespond, Say: "done"}, nil
	}
	agent, _, _ := strings.Cut(t.User, ":")
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: agent, Skill: "echo", Task: t.User}}}, nil
}

// brittle is a store that records which notes are erased, and fails the first time.
type brittle struct {
	*memstore.Store
	failed bool
	erased []string
}

var errBrittle = errors.New("no")

func (s *brittle) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if !s.failed {
		s.failed = true
		return 0, errBrittle
	}
	s.erased = append(s.erased, n.Key)
	return s.Store.EraseNote(ctx, tenant, kind, n)
}

// TestConversationErasesNotes checks that the notes of the agents that worked for a conversation are erased with it, even if they no longer
// mention it, since their older versions may; and that an erasure can be repeated after an error.
func TestConversationErasesNotes(t *testing.T) {
	store, bus := &brittle{Store: memstore.New()}, memory.New(nil)
	defer bus.Close()
	ctx := t.Context()
	for _, agent := range []string{"given", "tried", "other"} {
		if _, err := store.PutNote(ctx, "", storage.NoteEvidence, storage.Note{Key: agent, Value: []byte(`[{"id":"t","text":"` + agent + `"}]`)}); err != nil {
			t.Fatal(err)
		}
	}
	entry := &conversation.Entry{
		Seq: 1,
		Cause: &transport.Event{ID: "m", From: "user", ContextID: "gone", Payload: &a2a.Message{
			ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("work")},
		}},
		Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "given"}, {ID: "2", Agent: "unknown"}}},
		Retries:  map[a2a.TaskID]conversation.Retry{"t": {Agent: "tried"}},
	}
	if _, err := store.Append(ctx, "", "gone", 0, entry); err != nil {
		t.Fatal(err)
	}
	if _, err := erase.Conversation(ctx, store, bus, "", "gone"); !errors.Is(err, errBrittle) {
		t.Fatalf("Conversation = %v, want the store's error", err)
	}
	done, err := erase.Conversation(ctx, store, bus, "", "gone")
	if err != nil || done != (erase.Erased{Entries: 1}) {
		t.Errorf("Conversation again = %+v, %v, want one entry, and nothing less known", done, err)
	}
	if d := cmp.Diff([]string{"given", "tried"}, store.erased); d != "" {
		t.Errorf("the notes that were erased differ (-want +got):\n%s", d)
	}
	for n, err := range store.Notes(ctx, "", storage.NoteEvidence) {
		if want := `[{"id":"t","text":"` + n.Key + `"}]`; err != nil || string(n.Value) != want {
			t.Errorf("the note of %s is %q, %v, want %q", n.Key, n.Value, err, want)
		}
	}
	for c, err := range store.Contexts(ctx, "") {
		t.Errorf("conversation %q is left, %v", c.ContextID, err)
	}
}

// looking knows whether all evidence was read.
type looking struct {
	*memstore.Store
	all bool
}

func (s *looking) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	s.all = s.all || kind == storage.NoteEvidence
	return s.Store.Notes(ctx, tenant, kind)
}

// TestConversationUnlearns checks that the user's words in what a deleted conversation taught about agents are deleted too, also those
// that a running orchestrator had not written yet, and that those of other conversations stay.
func TestConversationUnlearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus, index := memstore.New(), memory.New(nil), router.New(nil)
		defer bus.Close()
		var list []prompt.Agent
		for _, id := range []string{"both", "one"} {
			card, handler, _ := agents.Lookup("echo")
			card.Name = id
			list = append(list, prompt.Agent{ID: id, Card: card})
			index.Put(id, card)
			go agents.Serve(t.Context(), bus, card, handler, nil) //nolint:errcheck // it ends with the test
		}
		orch, err := cortex.New(cortex.Config{
			Transport: bus, Store: store, Router: index, Decider: toEcho{}, Agents: func(string) []prompt.Agent { return list },
		})
		if err != nil {
			t.Fatal(err)
		}
		go orch.Run(t.Context()) //nolint:errcheck // it ends with the test
		say := func(contextID, text string) {
			synctest.Wait()
			id := contextID + "-" + text[:3]
			if err := bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
				ID: id, Time: time.Now(), From: "user", ContextID: contextID, Payload: &a2a.Message{
					ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)},
				},
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		say("kept", "both: words that stay")
		say("gone", "both: words that go")
		damaged := storage.Note{Key: "damaged", Value: []byte("{")}
		if _, err := store.PutNote(t.Context(), "", storage.NoteEvidence, damaged); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		say("kept", "one: words for one")
		say("gone", "one: words that nobody has written yet")

		looked := &looking{Store: store}
		done, err := erase.Conversation(t.Context(), looked, bus, "", "gone")
		if err != nil || done.Learned != 1 || done.Entries == 0 {
			t.Errorf("Conversation = %+v, %v, want entries, and something learned of one agent", done, err)
		}
		if looked.all {
			t.Error("what was learned about all agents was read")
		}
		<-time.After(time.Minute)
		left := map[string][]string{}
		for n, err := range store.Notes(t.Context(), "", storage.NoteEvidence) {
			if err != nil {
				t.Fatal(err)
			}
			var all []router.Evidence
			if err := json.Unmarshal(n.Value, &all); err != nil && n.Key != "damaged" {
				t.Fatal(err)
			}
			for _, e := range all {
				left[n.Key] = append(left[n.Key], e.Text)
			}
		}
		want := map[string][]string{"both": {"both: words that stay"}, "one": {"one: words for one"}}
		if d := cmp.Diff(want, left); d != "" {
			t.Errorf("what is known of agents differs (-want +got):\n%s", d)
		}
		var kept []string
		for c, err := range store.Contexts(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, c.ContextID)
		}
		if d := cmp.Diff([]string{"kept"}, kept); d != "" {
			t.Errorf("what is left differs (-want +got):\n%s", d)
		}
	})
}

// TestConversationTellsAgents checks that the agents that worked for an erased conversation hear of it, and no others, and from nobody else.
func TestConversationTellsAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan string, 10)
		for _, id := range []string{"given", "tried", "other"} {
			card, handler, _ := agents.Lookup("echo")
			card.Name = id
			go agents.Serve(ctx, bus, card, handler, &agents.Options{Tenant: "acme", Forget: func(tenant, contextID string) error { //nolint:errcheck // it ends with the test
				told <- id + " of " + tenant + " forgets " + contextID
				return nil
			}})
		}
		synctest.Wait()
		entry := &conversation.Entry{
			Seq: 1,
			Cause: &transport.Event{ID: "m", From: "user", Tenant: "acme", ContextID: "gone", Payload: &a2a.Message{
				ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("work")},
			}},
			Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "given"}, {ID: "2", Agent: "un\x00known"}}},
			Retries:  map[a2a.TaskID]conversation.Retry{"t": {Agent: "tried"}},
		}
		if _, err := store.Append(ctx, "acme", "gone", 0, entry); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*transport.Event{
			{From: "user", Tenant: "acme", ContextID: "forged", Payload: &transport.Forget{}},
			{From: transport.Cortex, Tenant: "acme", ContextID: "kept", Payload: &transport.Forget{AgentID: "given"}},
		} {
			e.ID, e.Time = e.ContextID, time.Now()
			if err := bus.Publish(ctx, transport.Control("acme", "given"), e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := erase.Conversation(ctx, store, bus, "acme", "gone"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(told)
		var got []string
		for line := range told {
			got = append(got, line)
		}
		slices.Sort(got)
		if d := cmp.Diff([]string{"given of acme forgets gone", "tried of acme forgets gone"}, got); d != "" {
			t.Errorf("what agents were told differs (-want +got):\n%s", d)
		}
	})
}

// TestConversationWithoutNotes checks that a conversation can be deleted from a store without notes.
func TestConversationWithoutNotes(t *testing.T) {
	all, bus := memstore.New(), memory.New(nil)
	defer bus.Close()
	store := struct {
		storage.Store
		storage.Eraser
	}{all, all}
	entry := &conversation.Entry{Seq: 1, Cause: &transport.Event{ID: "m", From: "user", ContextID: "gone", Payload: &transport.Cancel{}}}
	if _, err := store.Append(t.Context(), "", "gone", 0, entry); err != nil {
		t.Fatal(err)
	}
	if done, err := erase.Conversation(t.Context(), store, bus, "", "gone"); err != nil || done != (erase.Erased{Entries: 1}) {
		t.Errorf("Conversation = %+v, %v, want one entry", done, err)
	}
	for c, err := range store.Contexts(t.Context(), "") {
		t.Errorf("conversation %q is left, %v", c.ContextID, err)
	}
}
