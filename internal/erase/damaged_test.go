package erase_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// holed is a store in which some conversations have a gap behind so many entries.
type holed struct {
	*memstore.Store
	good map[string]int
	dead bool // Erase does not come to its end
}

func (s *holed) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	good, damaged := s.good[contextID]
	return func(yield func(*conversation.Entry, error) bool) {
		n := 0
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if damaged && n == good {
				yield(nil, conversation.ErrDamaged)
				return
			}
			n++
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *holed) Erase(ctx context.Context, tenant, contextID string) error {
	if s.dead {
		return errBrittle
	}
	return s.Store.Erase(ctx, tenant, contextID)
}

// TestDamagedDeletions checks that the deletion of a damaged conversation is finished, too, wherever its gap is, and that what was said since is kept.
func TestDamagedDeletions(t *testing.T) {
	ctx := t.Context()
	s, bus := &holed{Store: memstore.New(), good: map[string]int{"first": 0, "second": 1}, dead: true}, memory.New(nil)
	defer bus.Close()
	ids := []string{"first", "later", "second"}
	write := func(contextID string, seq uint64) {
		t.Helper()
		end, err := s.End(ctx, "", contextID)
		if err != nil {
			t.Fatal(err)
		}
		var at conversation.Version
		if end != nil {
			at = end.Version
		}
		_, err = s.Append(ctx, "", contextID, at, &conversation.Entry{Seq: seq, Cause: &transport.Event{
			ID: contextID + "-m", From: "user", ContextID: contextID, Payload: &a2a.Message{ID: contextID + "-m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("x")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		for seq := range uint64(3) {
			write(id, seq+1)
		}
		if _, err := erase.Conversation(ctx, s, bus, "", id); err == nil {
			t.Fatal("the process is not killed")
		}
	}
	write("later", 4)
	s.good["later"] = 1
	s.dead = false
	d := erase.Deletions{Store: s, Bus: bus}
	for _, want := range []struct{ deleted, wentOn []string }{{}, {[]string{"first", "second"}, []string{"later"}}, {}} {
		deleted, wentOn, err := d.Finish(ctx)
		slices.Sort(deleted)
		if err != nil || !slices.Equal(deleted, want.deleted) || !slices.Equal(wentOn, want.wentOn) {
			t.Errorf("Finish = %q, %q, %v, want %q", deleted, wentOn, err, want)
		}
	}
	for _, id := range ids {
		end, err := s.End(ctx, "", id)
		if err != nil || (end != nil) != (id == "later") {
			t.Errorf("%s ends with %v, %v", id, end, err)
		}
	}
	for n, err := range s.Notes(ctx, "", storage.NoteDeletion) {
		t.Errorf("a note is left: %s, %v", n.Key, err)
	}
}
