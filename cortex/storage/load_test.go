package storage_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// watched is a store that counts what is asked of it. Its entries from 1 to bad cannot be read.
type watched struct {
	*memstore.Store
	bad          uint64
	loads, snaps int
}

func (w *watched) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	w.loads++
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range w.Store.Load(ctx, tenant, contextID, after) {
			if err == nil && e.Seq <= w.bad {
				e, err = nil, errBad
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

var errBad = errors.New("it cannot be read")

func (w *watched) Snapshot(ctx context.Context, tenant, contextID string) (conversation.Version, []byte, error) {
	w.snaps++
	return w.Store.Snapshot(ctx, tenant, contextID)
}

// TestLoad checks what is asked of a store for logs of several lengths, with and without a snapshot.
func TestLoad(t *testing.T) {
	ctx := t.Context()
	s := &watched{Store: memstore.New()}
	write := func(id string, n, snapshot int) {
		t.Helper()
		conv := conversation.NewConversation("", id)
		for i := range n {
			m := fmt.Sprint("m", i)
			e := &conversation.Entry{
				Seq: conv.Seq + 1, Time: time.Unix(int64(i), 0).UTC(), Turn: m, Failure: "no",
				Cause: &transport.Event{ID: m, From: "user", To: transport.Cortex, ContextID: id, Payload: &a2a.Message{ID: m, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}},
			}
			v, err := s.Append(ctx, "", id, conv.Version, e)
			if e.Version = v; err == nil {
				err = conv.Apply(e)
			}
			if err == nil && i+1 == snapshot {
				err = storage.PutSnapshot(ctx, s, conv)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write("short", 32, 0)
	write("long", 40, 0)
	write("kept", 40, 35)
	for _, tt := range []struct {
		id           string
		bad          uint64
		entries      uint64
		loads, snaps int
	}{
		{"none", 0, 0, 1, 0},
		{"short", 0, 32, 1, 0},
		{"long", 0, 40, 2, 1},
		{"kept", 0, 40, 2, 1},
		{"kept", 3, 40, 2, 1},
		{"long", 3, 0, 1, 1},
	} {
		s.bad, s.loads, s.snaps = tt.bad, 0, 0
		conv, err := storage.Load(ctx, s, "", tt.id)
		if tt.bad > 0 && tt.entries == 0 {
			if !errors.Is(err, errBad) {
				t.Errorf("Load of %s without its first entries = %v", tt.id, err)
			}
		} else if err != nil || conv.Seq != tt.entries {
			t.Errorf("Load of %s = %+v, %v; want %d entries", tt.id, conv, err, tt.entries)
		}
		if s.loads != tt.loads || s.snaps != tt.snaps {
			t.Errorf("Load of %s took %d loads and %d looks for a snapshot, want %d and %d", tt.id, s.loads, s.snaps, tt.loads, tt.snaps)
		}
	}
}
