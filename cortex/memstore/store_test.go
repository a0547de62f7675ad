package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/cortex/storetest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(*testing.T) storage.Store { return memstore.New() }})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(*testing.B) storage.Store { return memstore.New() })
}

func ExampleStore() {
	ctx := context.Background()
	store := memstore.New()
	hello := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("What time is it?"))
	entry := &conversation.Entry{
		Seq:   1,
		Time:  time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC),
		Cause: &transport.Event{ID: "m-1", From: "user", To: transport.Cortex, ContextID: "c-1", Payload: hello},
	}
	version, err := store.Append(ctx, "", "c-1", 0, entry)
	fmt.Println(version, err)
	_, err = store.Append(ctx, "", "c-1", 0, entry)
	fmt.Println(err)
	for info, err := range store.Contexts(ctx, "") {
		fmt.Println(info.ContextID, info.Entries, info.Title, err)
	}
	// Output:
	// 1 <nil>
	// append to "c-1" after version 0, the last is 1: it has gone on in the meantime
	// c-1 1 What time is it? <nil>
}
