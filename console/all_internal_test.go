package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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

// TestAllTurns asks for all turns of a conversation that has more than a page shows: it says how many are missing. A file of the first of them is there still.
func TestAllTurns(t *testing.T) {
	store := memstore.New()
	c := New(Config{Client: &client.Client{Transport: memory.New(nil)}, Store: store, Agents: registry.New(registry.Config{}).Snapshot})
	const more = 3
	for i := range uint64(mostTurns + more) {
		id := fmt.Sprint("m", i)
		m := &a2a.Message{ID: id, ContextID: "x", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}
		if i == 0 {
			m.Parts = append(m.Parts, &a2a.Part{Content: a2a.Raw("what the file says"), Filename: "a.txt"})
		}
		e := &conversation.Entry{
			Seq: i + 1, Time: time.Now(), Turn: transport.TurnID("", "x", "user", id), Decision: &llm.Decision{Kind: llm.KindRespond, Say: "hi"},
			Cause: &transport.Event{ID: id, From: "user", ContextID: "x", Payload: m},
		}
		if _, err := store.Append(t.Context(), "", "x", conversation.Version(i), e); err != nil {
			t.Fatal(err)
		}
	}
	get := func(page func(http.ResponseWriter, *http.Request, Person) error, query string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/c/x?"+query, nil)
		r.SetPathValue("context", "x")
		r.SetPathValue("key", "f1")
		w := httptest.NewRecorder()
		if err := page(w, r, Person{User: "user"}); err != nil {
			t.Fatal(err)
		}
		return w.Body.String()
	}
	text := get(c.chat, "all")
	if n := strings.Count(text, `class="turn"`); n != mostTurns || !strings.Contains(text, fmt.Sprint(more, " earlier turns")) {
		t.Errorf("%d turns are shown:\n%.3000s", n, text)
	}
	if text := get(c.file, ""); text != "what the file says" {
		t.Errorf("the file is %q", text)
	}
}
