package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

func putNote(t *testing.T, s storage.Notes, tenant, kind, key string, after conversation.Version, value string) conversation.Version {
	t.Helper()
	v, err := s.PutNote(t.Context(), tenant, kind, storage.Note{Key: key, Value: []byte(value), Version: after})
	if err != nil || v <= after {
		t.Fatalf("PutNote(%q, %q, %q) at version %d = %d, %v, want a greater version", tenant, kind, key, after, v, err)
	}
	return v
}

func eraseNote(t *testing.T, s storage.Notes, tenant, kind, key string, after conversation.Version, value string) conversation.Version {
	t.Helper()
	v, err := s.EraseNote(t.Context(), tenant, kind, storage.Note{Key: key, Value: []byte(value), Version: after})
	if err != nil || v <= after {
		t.Fatalf("EraseNote(%q, %q, %q) at version %d = %d, %v, want a greater version", tenant, kind, key, after, v, err)
	}
	return v
}

// wantNotes checks the notes of a kind, all together and one by one.
func wantNotes(t *testing.T, s storage.Notes, tenant, kind string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for n, err := range s.Notes(t.Context(), tenant, kind) {
		if err != nil {
			t.Fatalf("Notes(%q, %q) = %v", tenant, kind, err)
		}
		if _, twice := got[n.Key]; twice {
			t.Errorf("Notes(%q, %q) yields %q twice", tenant, kind, n.Key)
		}
		got[n.Key] = string(n.Value)
		one, err := s.Note(t.Context(), tenant, kind, n.Key)
		if err != nil || !bytes.Equal(one.Value, n.Value) || one.Version != n.Version || one.Key != n.Key || n.Version == 0 {
			t.Errorf("Note(%q, %q, %q) = %+v, %v, want %+v as Notes has it", tenant, kind, n.Key, one, err, n)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Notes(%q, %q) differ (-want +got):\n%s", tenant, kind, d)
	}
}

func testNotes(t *testing.T, store storage.Store) {
	s := store.(storage.Notes)
	wantNotes(t, s, "", "kind", map[string]string{})
	if n, err := s.Note(t.Context(), "", "kind", "a"); err != nil || n.Version != 0 || n.Value != nil || n.Key != "a" {
		t.Errorf("Note that is not there = %+v, %v, want version 0 and no value", n, err)
	}
	value := []byte("first")
	v, err := s.PutNote(t.Context(), "", "kind", storage.Note{Key: "a", Value: value})
	if err != nil {
		t.Fatalf("PutNote = %v", err)
	}
	copy(value, "XXXXX") // the store must not retain it
	wantNotes(t, s, "", "kind", map[string]string{"a": "first"})

	for _, after := range []conversation.Version{0, v + 1} {
		if _, err := s.PutNote(t.Context(), "", "kind", storage.Note{Key: "a", Value: []byte("stale"), Version: after}); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("PutNote at version %d of a note of version %d = %v, want ErrConflict", after, v, err)
		}
	}
	if _, err := s.PutNote(t.Context(), "", "kind", storage.Note{Key: "b", Version: v}); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("PutNote at a version of a note that is not there = %v, want ErrConflict", err)
	}
	v = putNote(t, s, "", "kind", "a", v, "second")
	wantNotes(t, s, "", "kind", map[string]string{"a": "second"})
	if err := s.DeleteNote(t.Context(), "", "kind", "a", v-1); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("DeleteNote at an old version = %v, want ErrConflict", err)
	}
	wantNotes(t, s, "", "kind", map[string]string{"a": "second"})
	for _, version := range []conversation.Version{v, v, 0} {
		if err := s.DeleteNote(t.Context(), "", "kind", "a", version); err != nil {
			t.Errorf("DeleteNote at version %d = %v", version, err)
		}
	}
	wantNotes(t, s, "", "kind", map[string]string{})
	if _, err := s.PutNote(t.Context(), "", "kind", storage.Note{Key: "a", Version: v}); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("PutNote at the version of a note that was deleted = %v, want ErrConflict: what is gone does not come back", err)
	}
	putNote(t, s, "", "kind", "a", 0, "")
	wantNotes(t, s, "", "kind", map[string]string{"a": ""})

	for _, tenant := range []string{"", "t", "a.b", "*"} {
		for _, kind := range []string{"kinda", "kindb"} {
			want := map[string]string{}
			for _, key := range oddIDs() {
				want[key] = tenant + "|" + kind + "|" + key
				putNote(t, s, tenant, kind, key, 0, want[key])
			}
			wantNotes(t, s, tenant, kind, want)
		}
	}
	wantNotes(t, s, "", "kind", map[string]string{"a": ""})
	for range s.Notes(t.Context(), "t", "kinda") {
		break // leaving early is harmless
	}

	big := strings.Repeat("x", storage.MaxNote)
	putNote(t, s, "", "big", "a", 0, big)
	wantNotes(t, s, "", "big", map[string]string{"a": big})
	if _, err := s.PutNote(t.Context(), "", "big", storage.Note{Key: "b", Value: []byte(big + "x")}); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("PutNote of more than MaxNote = %v, want ErrTooLarge", err)
	}
	if _, err := s.PutNote(t.Context(), "", "big", storage.Note{}); !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("PutNote without a key = %v, want ErrInvalid", err)
	}
	if n := len(contexts(t, store, "")); n != 0 {
		t.Errorf("Contexts yields %d conversations, want 0: a note is none", n)
	}
	testNewNotes(t, s)
	testNotesCanceled(t, s)
}

// testNewNotes checks that each note that is put is new once.
func testNewNotes(t *testing.T, s storage.Notes) {
	news, ok := s.(storage.NewNotes)
	if !ok {
		return
	}
	var since conversation.Version
	want := func(keys ...string) {
		t.Helper()
		got, now, err := news.NewNotes(t.Context(), "", "news", since)
		slices.Sort(got)
		if d := cmp.Diff(keys, slices.Compact(got), cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("NewNotes since %d differ, %v (-want +got):\n%s", since, err, d)
		}
		since = now
	}
	want()
	v := putNote(t, s, "", "news", "a.b", 0, "first")
	putNote(t, s, "", "news", "*", 0, "")
	putNote(t, s, "", "olds", "c", 0, "of another kind")
	putNote(t, s, "t", "news", "d", 0, "of another tenant")
	want("*", "a.b")
	want()
	putNote(t, s, "", "news", "a.b", v, "second")
	want("a.b")
	if err := s.DeleteNote(t.Context(), "", "news", "*", 0); err != nil {
		t.Fatal(err)
	}
	want()
	since = 0
	want("a.b")
}

func testNotesCanceled(t *testing.T, s storage.Notes) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, put := s.PutNote(ctx, "", "kind", storage.Note{Key: "z"})
	_, erase := s.EraseNote(ctx, "", "kind", storage.Note{Key: "z"})
	_, get := s.Note(ctx, "", "kind", "z")
	var all error
	for _, err := range s.Notes(ctx, "", "kind") {
		all = err
	}
	for what, err := range map[string]error{"PutNote": put, "EraseNote": erase, "Note": get, "Notes": all, "DeleteNote": s.DeleteNote(ctx, "", "kind", "a", 0)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s when ctx has ended = %v, want context.Canceled", what, err)
		}
	}
}

// testEraseNote checks that EraseNote has the conditions of PutNote, and that the note goes on from there; for both sorts of notes.
func testEraseNote(t *testing.T, store storage.Store) {
	s := store.(storage.Notes)
	for _, kind := range []string{"kind", storage.NoteAgent, storage.NoteRefusal} {
		other := putNote(t, s, "", kind, "b", 0, "other")
		if _, err := s.EraseNote(t.Context(), "", kind, storage.Note{Key: "a", Version: other}); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("EraseNote at a version of a note that is not there = %v, want ErrConflict", err)
		}
		first := eraseNote(t, s, "", kind, "a", 0, "first")
		second := putNote(t, s, "", kind, "a", first, "second")
		third := eraseNote(t, s, "", kind, "a", second, "third")
		wantNotes(t, s, "", kind, map[string]string{"a": "third", "b": "other"})
		for _, after := range []conversation.Version{0, first, second, third + 1} {
			n := storage.Note{Key: "a", Value: []byte("stale"), Version: after}
			if _, err := s.EraseNote(t.Context(), "", kind, n); !errors.Is(err, storage.ErrConflict) {
				t.Errorf("EraseNote at version %d of a note of version %d = %v, want ErrConflict", after, third, err)
			}
			if _, err := s.PutNote(t.Context(), "", kind, n); !errors.Is(err, storage.ErrConflict) {
				t.Errorf("PutNote at version %d of a note of version %d = %v, want ErrConflict", after, third, err)
			}
		}
		wantNotes(t, s, "", kind, map[string]string{"a": "third", "b": "other"})
		value := []byte("fourth")
		fourth, err := s.EraseNote(t.Context(), "", kind, storage.Note{Key: "a", Value: value, Version: third})
		if err != nil {
			t.Fatalf("EraseNote = %v", err)
		}
		copy(value, "XXXXXX") // the store must not retain it
		fifth := putNote(t, s, "", kind, "a", fourth, "fifth")
		putNote(t, s, "", kind, "b", other, "more")
		wantNotes(t, s, "", kind, map[string]string{"a": "fifth", "b": "more"})
		if err := s.DeleteNote(t.Context(), "", kind, "a", fourth); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("DeleteNote at an old version = %v, want ErrConflict", err)
		}
		wantNotes(t, s, "", kind, map[string]string{"a": "fifth", "b": "more"})
		if err := s.DeleteNote(t.Context(), "", kind, "a", fifth); err != nil {
			t.Errorf("DeleteNote = %v", err)
		}
		if _, err := s.EraseNote(t.Context(), "", kind, storage.Note{Key: "a", Version: fifth}); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("EraseNote at the version of a note that was deleted = %v, want ErrConflict", err)
		}
		eraseNote(t, s, "", kind, "a", 0, "anew")
		wantNotes(t, s, "", kind, map[string]string{"a": "anew", "b": "more"})

		big := strings.Repeat("x", storage.MaxNote)
		eraseNote(t, s, "", kind, "big", 0, big)
		if _, err := s.EraseNote(t.Context(), "", kind, storage.Note{Key: "bigger", Value: []byte(big + "x")}); !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("EraseNote of more than MaxNote = %v, want ErrTooLarge", err)
		}
		if _, err := s.EraseNote(t.Context(), "", kind, storage.Note{}); !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("EraseNote without a key = %v, want ErrInvalid", err)
		}
		wantNotes(t, s, "", kind, map[string]string{"a": "anew", "b": "more", "big": big})
	}
}

// testCompetingNotes changes one note concurrently, partly with EraseNote: no change is lost.
func testCompetingNotes(t *testing.T, store storage.Store) {
	s := store.(storage.Notes)
	const writers, times = 8, 8
	var wg sync.WaitGroup
	for i := range writers {
		change := s.PutNote
		if i%2 == 1 {
			change = s.EraseNote
		}
		wg.Go(func() {
			for done := 0; done < times; {
				n, err := s.Note(t.Context(), "", "kind", "n")
				if err != nil {
					t.Errorf("Note = %v", err)
					return
				}
				n.Value = append(n.Value, '.')
				switch _, err := change(t.Context(), "", "kind", n); {
				case err == nil:
					done++
				case !errors.Is(err, storage.ErrConflict):
					t.Errorf("a change = %v, want nil or ErrConflict", err)
					return
				}
			}
		})
	}
	wg.Wait()
	n, err := s.Note(t.Context(), "", "kind", "n")
	if got := fmt.Sprint(len(n.Value)); err != nil || got != fmt.Sprint(writers*times) {
		t.Errorf("after %d changes the note has %s, %v", writers*times, got, err)
	}
}
