package console

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// slowStore is a store whose loads wait until they may go on, which counts the entries that it has decoded.
type slowStore struct {
	*memstore.Store
	entries atomic.Int64
	on      chan struct{}
}

func (s *slowStore) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		<-s.on
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if s.entries.Add(1); !yield(e, err) {
				return
			}
		}
	}
}

func (s *slowStore) say(t *testing.T, contextID, id, answer string, seq uint64, after conversation.Version) conversation.Version {
	t.Helper()
	v, err := s.Append(t.Context(), "", contextID, after, &conversation.Entry{
		Seq: seq, Time: time.Now(), Turn: id, Decision: &llm.Decision{Kind: llm.KindRespond, Say: answer},
		Cause: &transport.Event{ID: id, From: "user:ada", ContextID: contextID, Payload: &a2a.Message{
			ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// page is a live page of a test, and what it was sent.
func (s *slowStore) page(c *Console, by, contextID string) (*stream, *httptest.ResponseRecorder) {
	out := httptest.NewRecorder()
	who := Person{User: by}
	return &stream{c: c, w: out, control: http.NewResponseController(out), who: who, reading: c.readings.enter(c, who, contextID), written: map[string]int{}}, out
}

// TestPagesShareReading has many pages of a long conversation: what is new in it is decoded for the first one, and at most once more for all who came
// meanwhile; it takes memory once, and each page is sent what is new, once.
func TestPagesShareReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := memory.New(nil), &slowStore{Store: memstore.New(), on: make(chan struct{})}
		defer bus.Close()
		c := New(Config{Client: &client.Client{Transport: bus}, Store: store, Agents: registry.New(registry.Config{}).Snapshot})
		const pages = 200
		last := store.say(t, "c", "first", strings.Repeat("x", ownKept/pages), 1, 0)
		all, outs := make([]*stream, pages), make([]*httptest.ResponseRecorder, pages)
		for i := range all {
			all[i], outs[i] = store.page(c, "user:ada", "c")
		}
		ended := make(chan error, pages)
		catchUp := func() {
			t.Helper()
			before := store.entries.Load()
			for _, s := range all {
				go func() { ended <- s.catchUp(t.Context()) }()
			}
			synctest.Wait()
			close(store.on)
			for range all {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			if n := store.entries.Load() - before; n != 1 {
				t.Errorf("%d entries were decoded for %d pages, want 1", n, pages)
			}
			store.on = make(chan struct{})
		}
		catchUp()
		store.say(t, "c", "second", "yes", 2, last)
		catchUp()
		for i, out := range outs {
			if text := out.Body.String(); strings.Count(text, "event: turn\n") != 2 || strings.Count(text, "id: ") != 2 {
				t.Fatalf("page %d is sent\n%.2000s", i, text)
			}
		}
		if !c.kept.Take(t.Context(), "user:ada", ownKept/2) {
			t.Error("the pages have taken most of their person's room")
		}
		c.kept.Give("user:ada", ownKept/2)
		for _, s := range all {
			c.readings.leave(s.reading)
		}
		if len(c.readings.of) != 0 || !c.kept.Take(t.Context(), "user:ada", ownKept) {
			t.Error("pages that are closed keep something")
		}
	})
}

// TestDeletedWhileOpen has a conversation deleted while a page of it is open: another page of the same person is not sent what it was, nor are pages of
// another person, and those that follow are sent what comes then.
func TestDeletedWhileOpen(t *testing.T) {
	store := &slowStore{Store: memstore.New(), on: make(chan struct{})}
	close(store.on)
	bus := memory.New(nil)
	defer bus.Close()
	c := New(Config{Client: &client.Client{Transport: bus}, Store: store, Agents: registry.New(registry.Config{}).Snapshot})
	store.say(t, "c", "first", "a secret", 1, 0)
	old, out := store.page(c, "user:ada", "c")
	if err := old.catchUp(t.Context()); err != nil || !strings.Contains(out.Body.String(), "a secret") {
		t.Fatalf("%v: it is sent %s", err, out.Body)
	}
	if err := store.Erase(t.Context(), "", "c"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s, out := store.page(c, []string{"user:ada", "user:bob", "user:ada"}[i], "c")
		err := s.catchUp(t.Context())
		if want := []error{errOther, nil, nil}[i]; !errors.Is(err, want) || strings.Contains(out.Body.String(), "secret") {
			t.Errorf("page %d: %v, want %v; it is sent %s", i, err, want, out.Body)
		}
		if err == nil {
			if i == 1 {
				store.say(t, "c", "again", "something else", 1, 0)
			}
			if err := s.catchUp(t.Context()); err != nil || !strings.Contains(out.Body.String(), "something else") {
				t.Errorf("page %d: %v; it is sent %s", i, err, out.Body)
			}
		}
	}
	if err := old.catchUp(t.Context()); !errors.Is(err, errOther) {
		t.Errorf("the page that was open: %v, want %v", err, errOther)
	}
}

// TestLeftWhileRead has a page leave while it is looked at whether the conversation is still there: another page that has come meanwhile looks again.
func TestLeftWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: memstore.New(), on: make(chan struct{})}
		bus := memory.New(nil)
		defer bus.Close()
		c := New(Config{Client: &client.Client{Transport: bus}, Store: store, Agents: registry.New(registry.Config{}).Snapshot})
		store.say(t, "c", "first", "a secret", 1, 0)
		old, _ := store.page(c, "user:ada", "c")
		read := make(chan error, 1)
		go func() { read <- old.catchUp(t.Context()) }()
		synctest.Wait()
		close(store.on)
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		if err := store.Erase(t.Context(), "", "c"); err != nil {
			t.Fatal(err)
		}
		store.on = make(chan struct{})
		leaving, _ := store.page(c, "user:ada", "c")
		staying, out := store.page(c, "user:ada", "c")
		ctx, leave := context.WithCancel(t.Context())
		go func() { read <- leaving.catchUp(ctx) }()
		synctest.Wait()
		leave()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves: %v", err)
		}
		close(store.on)
		synctest.Wait()
		if err := staying.catchUp(t.Context()); !errors.Is(err, errOther) || strings.Contains(out.Body.String(), "secret") {
			t.Errorf("who stays: %v, want %v; it is sent %s", err, errOther, out.Body)
		}
	})
}
