package console

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
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

// TestReadingEndsBeforeKeeping: a stream that waits for room to keep what it has read does not keep others from reading.
func TestReadingEndsBeforeKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := memory.New(nil), memstore.New()
		defer bus.Close()
		e := &conversation.Entry{
			Seq: 1, Time: time.Now(), Turn: "m", Decision: &llm.Decision{Kind: llm.KindRespond, Say: strings.Repeat("x", 2*freeKept)},
			Cause: &transport.Event{ID: "m", From: "user:ada", ContextID: "c", Payload: &a2a.Message{
				ID: "m", ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")},
			}},
		}
		if _, err := store.Append(t.Context(), "", "c", 0, e); err != nil {
			t.Fatal(err)
		}
		c := New(Config{Client: &client.Client{Transport: bus}, Store: store, Agents: registry.New(registry.Config{}).Snapshot})
		ada := Person{User: "user:ada"}
		if !c.kept.Take(t.Context(), ada.User, ownKept) {
			t.Fatal("there is no room to keep anything")
		}
		s := &stream{c: c, who: ada, reading: c.readings.enter(c, ada, "c")}
		ended := make(chan error)
		go func() { ended <- s.catchUp(t.Context()) }()
		synctest.Wait() // it waits to keep
		if s.reading.version() == 0 {
			t.Error("the log was not read")
		}
		now, cancelNow := context.WithCancel(t.Context())
		cancelNow()
		if leave, err := c.enterPage(now, httptest.NewRecorder(), ada, ownPages); err != nil {
			t.Errorf("there is no room to read meanwhile: %v", err)
		} else {
			leave()
		}
		if err := <-ended; !errors.Is(err, errKept) {
			t.Errorf("catchUp = %v, want %v", err, errKept)
		}
	})
}
