package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// dated is a store with a clock of its own.
type dated struct {
	*memstore.Store
	now time.Time
	err error
}

func (d *dated) Clock(context.Context) (now, last time.Time, err error) { return d.now, d.now, d.err }

func (d *dated) Stored(context.Context, string, string) (time.Time, error) { return time.Time{}, nil }

func TestErased(t *testing.T) {
	ctx := t.Context()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &dated{Store: memstore.New(), now: start}
	keep := func(id string) {
		t.Helper()
		if err := storage.KeepErased(ctx, s, "", id); err != nil {
			t.Fatal(err)
		}
	}
	at := func(tenant, id string) time.Time {
		t.Helper()
		at, err := storage.ErasedAt(ctx, s, tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	keep("a")
	if got := at("", "a"); !got.Equal(start) {
		t.Errorf("a was deleted at %s, want %s by the store's clock", got, start)
	}
	if got, other := at("", "b"), at("else", "a"); !got.IsZero() || !other.IsZero() {
		t.Errorf("what was not deleted was deleted at %s and %s", got, other)
	}
	s.now = start.Add(time.Minute)
	keep("a")
	if got := at("", "a"); !got.Equal(s.now) {
		t.Errorf("a was deleted again at %s, want %s", got, s.now)
	}
	s.err = errors.New("no")
	if err := storage.KeepErased(ctx, s, "", "a"); !errors.Is(err, s.err) {
		t.Errorf("KeepErased without a clock = %v, want %v", err, s.err)
	}
}

// TestErasedIsBounded deletes many conversations: the marks take at most a few notes of bounded size, the latest stay, and none says what a conversation
// was called.
func TestErasedIsBounded(t *testing.T) {
	ctx := t.Context()
	s := &dated{Store: memstore.New(), now: time.Now()}
	const many = 4_000
	first := ""
	for i := range many {
		id := fmt.Sprintf("conversation-%d", i)
		s.now = s.now.Add(time.Millisecond)
		if err := storage.KeepErased(ctx, s, "", id); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = id
		}
	}
	if at, err := storage.ErasedAt(ctx, s, "", fmt.Sprintf("conversation-%d", many-1)); err != nil || !at.Equal(s.now) {
		t.Errorf("the latest was deleted at %s, %v, want %s", at, err, s.now)
	}
	notes := 0
	for n, err := range s.Notes(ctx, "", storage.NoteErased) {
		if err != nil {
			t.Fatal(err)
		}
		notes++
		if len(n.Value) > 32<<10 {
			t.Errorf("a note has %d bytes", len(n.Value))
		}
	}
	if notes > 1024 {
		t.Errorf("there are %d notes", notes)
	}
	s.now = s.now.Add(25 * time.Hour)
	for i := range many {
		if err := storage.KeepErased(ctx, s, "", fmt.Sprintf("later-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := storage.ErasedAt(ctx, s, "", first); err != nil || !at.IsZero() {
		t.Errorf("after a day, the first is still marked at %s, %v", at, err)
	}
}

// TestErasedIsUnreadable checks that a damaged note costs what it says, and stops nothing.
func TestErasedIsUnreadable(t *testing.T) {
	ctx := t.Context()
	s := memstore.New()
	if err := storage.KeepErased(ctx, s, "", "a"); err != nil {
		t.Fatal(err)
	}
	for n, err := range s.Notes(ctx, "", storage.NoteErased) {
		if err != nil {
			t.Fatal(err)
		}
		n.Value = []byte("{")
		if _, err := s.PutNote(ctx, "", storage.NoteErased, n); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := storage.ErasedAt(ctx, s, "", "a"); err != nil || !at.IsZero() {
		t.Errorf("ErasedAt = %s, %v", at, err)
	}
	if err := storage.KeepErased(ctx, s, "", "a"); err != nil {
		t.Fatal(err)
	}
	if at, err := storage.ErasedAt(ctx, s, "", "a"); err != nil || at.IsZero() {
		t.Errorf("ErasedAt = %s, %v, want a time", at, err)
	}
}
