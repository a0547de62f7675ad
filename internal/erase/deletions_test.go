package erase_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// killed is a store whose process is killed in the middle of Erase: what it has left of each log is the first entry.
type killed struct {
	*memstore.Store
	left map[string]conversation.Version // where the log ended at that time, by conversation
}

func (s *killed) Erase(ctx context.Context, _, contextID string) error {
	all, err := s.all(ctx, contextID)
	s.left[contextID] = all[len(all)-1]
	if err != nil {
		return err
	}
	return errBrittle
}

// all returns the versions of a conversation's entries.
func (s *killed) all(ctx context.Context, contextID string) (all []conversation.Version, err error) {
	for e, err := range s.Store.Load(ctx, "", contextID, 0) {
		if err != nil {
			return nil, err
		}
		all = append(all, e.Version)
	}
	return all, nil
}

// later is the store of a process that comes after that.
type later struct{ *killed }

func (s later) Erase(ctx context.Context, tenant, contextID string) error {
	return s.Store.Erase(ctx, tenant, contextID)
}

func (s later) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		first := true
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			if (first || e.Version > s.left[contextID]) && !yield(e, err) {
				return
			}
			first = false
		}
	}
}

// TestDeletions checks that a deletion whose process is killed is finished by another one, which waits for a while, but not if somebody has written to
// the conversation since.
func TestDeletions(t *testing.T) {
	ctx := t.Context()
	dead, bus := &killed{Store: memstore.New(), left: map[string]conversation.Version{}}, memory.New(nil)
	defer bus.Close()
	write := func(contextID string, seq uint64) {
		t.Helper()
		all, err := dead.all(ctx, contextID)
		if err != nil {
			t.Fatal(err)
		}
		at := conversation.Version(0)
		if len(all) > 0 {
			at = all[len(all)-1]
		}
		_, err = dead.Append(ctx, "", contextID, at, &conversation.Entry{Seq: seq, Cause: &transport.Event{
			ID: contextID + "-m", From: "user", ContextID: contextID, Payload: &a2a.Message{ID: contextID + "-m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("x")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"alone", "kept", "on"} {
		for seq := range uint64(3) {
			write(id, seq+1)
		}
	}
	// Of this one only the notes are left.
	if _, err := dead.PutNote(ctx, "", storage.NoteDeletion, storage.Note{Key: "bare", Value: []byte(`{"last":3}`)}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bare.a", "alone.a", "alone.b", "alone.a.b", "kept.a", "on.a"} {
		for _, kind := range []string{storage.NotePush, storage.NoteReply, storage.NoteSent} {
			if _, err := dead.PutNote(ctx, "", kind, storage.Note{Key: key, Value: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{"alone", "on"} {
		if _, err := erase.Conversation(ctx, dead, bus, "", id); err == nil {
			t.Fatal("the process is not killed")
		}
	}
	write("on", 4)
	d := erase.Deletions{Store: later{dead}, Bus: bus}
	for _, want := range []struct{ deleted, wentOn []string }{{}, {[]string{"alone", "bare"}, []string{"on"}}, {}} {
		deleted, wentOn, err := d.Finish(ctx)
		slices.Sort(deleted)
		if err != nil || !slices.Equal(deleted, want.deleted) || !slices.Equal(wentOn, want.wentOn) {
			t.Errorf("Finish = %q, %q, %v, want %q", deleted, wentOn, err, want)
		}
	}
	left := []string{}
	for c, err := range dead.Contexts(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, c.ContextID)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"kept", "on"}, left); diff != "" {
		t.Errorf("the conversations that are left differ (-want +got):\n%s", diff)
	}
	for _, kind := range []string{storage.NotePush, storage.NoteReply, storage.NoteSent} {
		left = nil
		for n, err := range dead.Notes(ctx, "", kind) {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, n.Key)
		}
		slices.Sort(left)
		if diff := cmp.Diff([]string{"alone.a.b", "kept.a", "on.a"}, left); diff != "" {
			t.Errorf("the notes of kind %s differ (-want +got):\n%s", kind, diff)
		}
	}
	for n, err := range dead.Notes(ctx, "", storage.NoteDeletion) {
		t.Errorf("a note is left: %s, %v", n.Key, err)
	}
}
