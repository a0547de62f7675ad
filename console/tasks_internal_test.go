package console

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// vast is a store of maxTasks conversations, each with an open task of half a megabyte, which are made as they are read.
type vast struct{ *memstore.Store }

func (vast) Contexts(context.Context, string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		for i := range maxTasks {
			if !yield(storage.ContextInfo{ContextID: fmt.Sprint("c", i), Updated: time.Unix(2, 0)}, nil) {
				return
			}
		}
	}
}

func (vast) Load(_ context.Context, _, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		if after == 0 {
			m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("go"))
			yield(&conversation.Entry{
				Version: 1, Seq: 1, Time: time.Unix(1, 0), Life: "l", Turn: "t", Cause: &transport.Event{ID: "e", From: "user", ContextID: contextID, Payload: m},
				Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "worker", Task: strings.Repeat("x", 1<<19)}}},
			}, nil)
		}
	}
}

// watched is an answer of which only the length is kept, and of whose parts each is looked at.
type watched struct {
	*httptest.ResponseRecorder
	look func([]byte)
}

func (w watched) Write(b []byte) (int, error) {
	w.look(b)
	return len(b), nil
}

// TestTasksAreFewInMemory has as many long tasks as a page of tasks lists: while it is made, also as JSON, which has the whole texts, the memory in use
// stays below what the page takes of the room for pages.
func TestTasksAreFewInMemory(t *testing.T) {
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before, most uint64
	look := func() { most = max(most, used()) }
	now := func() time.Time {
		look() // what a page shows has been read the second time
		return time.Unix(3, 0)
	}
	c := New(Config{Client: &client.Client{Transport: memory.New(nil)}, Store: vast{memstore.New()}, Agents: registry.New(registry.Config{}).Snapshot, Now: now})
	for _, query := range []string{"", "all"} {
		for _, accept := range []string{"text/html", "application/json"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks?"+query, nil)
			r.Header.Set("Accept", accept)
			whole, parts := 0, 0
			before, most = used(), 0
			err := c.tasks(watched{httptest.NewRecorder(), func(b []byte) {
				if parts++; parts%20 == 0 {
					look()
				}
				if len(b) > 1<<19 {
					whole++
				}
			}}, r, Person{User: "user:ada"})
			if err != nil || accept != "text/html" && whole != maxTasks || parts == 0 {
				t.Errorf("%q as %s: %d whole tasks in %d parts, %v", query, accept, whole, parts, err)
			}
			if most > before+ownPages/2 {
				t.Errorf("%q as %s takes %d MiB", query, accept, (most-before)>>20)
			}
		}
	}
}
