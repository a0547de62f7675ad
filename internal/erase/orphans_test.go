package erase_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestOrphans holds that a file of which nothing speaks is removed when it is old, and no other one.
func TestOrphans(t *testing.T) {
	store, bus := memstore.New(), memory.New(nil)
	defer bus.Close()
	put := func(contextID string) transport.FileRef {
		ref, err := transport.PutFile(t.Context(), bus, "", contextID, "user", strings.NewReader("words"), 10)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	said, made, lost, nowhere := put("c"), put("c"), put("c"), put("unsaid")
	for i, payload := range []transport.Payload{
		&a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{said.Part("a", "")}},
		&a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}, Artifacts: []*a2a.Artifact{{ID: "1", Parts: a2a.ContentParts{made.Part("b", "")}}}},
	} {
		e := &conversation.Entry{Seq: uint64(i + 1), Cause: &transport.Event{ID: "e", From: "user", ContextID: "c", Payload: payload}}
		if _, err := store.Append(t.Context(), "", "c", conversation.Version(i), e); err != nil {
			t.Fatal(err)
		}
	}
	there := func(ref transport.FileRef) bool {
		_, err := bus.Chunk(t.Context(), ref.Object, 0)
		return err == nil
	}
	if n, err := erase.Orphans(t.Context(), store, bus, "", time.Now().Add(-time.Hour)); n != 0 || err != nil || !there(lost) || !there(nowhere) {
		t.Errorf("Orphans = %d, %v of new files, want none", n, err)
	}
	files := struct{ transport.FileKeeper }{bus} // no dead letters
	if n, err := erase.Orphans(t.Context(), store, files, "", time.Now().Add(time.Hour)); n != 2 || err != nil {
		t.Errorf("Orphans = %d, %v, want two", n, err)
	}
	if !there(said) || !there(made) || there(lost) || there(nowhere) {
		t.Errorf("said %v, made %v, lost %v, never said %v: want the first two", there(said), there(made), there(lost), there(nowhere))
	}
}
