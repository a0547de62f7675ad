package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// loads is a store that counts how often a log is read.
type loads struct {
	*memstore.Store
	n atomic.Int64
}

func (l *loads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	l.n.Add(1)
	return l.Store.Load(ctx, tenant, contextID, after)
}

// TestStrayProgress has an agent tell a thousand times of tasks that nobody has, in somebody's conversation: its log is not read for it, and a browser that
// looks at it is not told to begin anew. Nor is it told why
// somebody else may not speak there.
func TestStrayProgress(t *testing.T) {
	var bus *hearing
	var store *loads
	w := newWorld(t, func(c *console.Config) {
		own := *c.Client
		bus = &hearing{Bus: own.Transport.(*memory.Bus)}
		store = &loads{Store: c.Store.(*memstore.Store)}
		own.Transport, c.Client, c.Store = bus, &own, store
	})
	b := w.browser()
	turn := w.ask("x", "hello")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, w.url+"c/x/events", nil)
	r.RemoteAddr = "127.0.0.1:1"
	for _, c := range b.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	u := &unread{t: t, head: make(http.Header)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.pages.ServeHTTP(u, r)
	}()
	got := func(text string) func() bool {
		return func() bool {
			u.mu.Lock()
			defer u.mu.Unlock()
			return strings.Contains(u.written.String(), text)
		}
	}
	until(t, "the browser has the turn", got("event: turn"))
	n := int64(0)
	say := func(e *transport.Event) {
		n++
		e.ID, e.Time, e.ContextID = fmt.Sprint("e", n), time.Now(), "x"
		must(t, w.bus.Publish(ctx, transport.Live("", "x"), e))
	}
	// A delta is in no log, and shows that all before it was handled. The first one also shows that the console listens.
	until(t, "the console listens", func() bool {
		say(&transport.Event{From: transport.Cortex, Payload: &transport.Delta{Turn: turn, Attempt: "a", Text: "first"}})
		return got("first")()
	})
	before := store.n.Load()
	for i := range 1000 {
		id := a2a.TaskID(fmt.Sprint("none", i))
		m := &a2a.Message{ID: "m", Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart("half way")}}
		say(&transport.Event{From: "danger", TaskID: id, Payload: &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: "x", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: m}}})
		if i%100 == 99 {
			text := fmt.Sprint("after", i, ".")
			say(&transport.Event{From: transport.Cortex, Payload: &transport.Delta{Turn: turn, Attempt: "a", Text: text}})
			until(t, "what was said is handled", got(text))
		}
	}
	if read := store.n.Load() - before; read > 100 { // it is read every three seconds anyway
		t.Errorf("the log was read %d times", read)
	}
	if got("resync")() {
		t.Error("the browser is to begin anew")
	}
	for who, text := range map[string]string{"user:bob": "what bob may not say", "user": "what you may not say"} {
		say(&transport.Event{From: transport.Cortex, Payload: &a2a.Message{
			ID: who, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)},
			Metadata: map[string]any{transport.MetaTurn: "refused " + who, transport.MetaRequester: who},
		}})
	}
	until(t, "the browser is told what its person may not say", got("what you may not say"))
	say(&transport.Event{From: transport.Cortex, Payload: &transport.Delta{Turn: turn, Attempt: "a", Text: "last"}})
	until(t, "all is handled", got("last"))
	if got("what bob may not say")() {
		t.Error("it is told what somebody else may not say")
	}
	cancel()
	<-ended
}
