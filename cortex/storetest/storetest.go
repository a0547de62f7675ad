// Package storetest is the conformance suite of [storage.Store]. The author of a store calls [Run] from a test and
// [Bench] from a benchmark; a store that passes unchanged has the properties that the orchestrator relies on.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Harness makes the stores to test.
type Harness struct {
	// Open returns a new, empty store, which it removes when t ends.
	Open func(t *testing.T) storage.Store
	// Reopen closes s, which Open or Reopen returned, and returns a store with the same data. It is nil for a store that
	// does not outlive its process.
	Reopen func(t *testing.T, s storage.Store) storage.Store
	// Damage changes an entry of the default tenant in the data of s, closes s, and returns a store with the same data. It is nil for a
	// store whose data only the process itself can change.
	Damage func(t *testing.T, s storage.Store, contextID string, place uint64) storage.Store
}

// Run tests the stores that h makes. It runs the parts for [storage.Snapshots], [storage.Ends], [storage.SpendLog], [storage.Notes],
// [storage.Outlines], [storage.Eraser], Reopen and Damage if the store or the harness has them.
func Run(t *testing.T, h Harness) {
	tests := []struct {
		name string
		test func(t *testing.T, s storage.Store)
	}{
		{"empty", testEmpty},
		{"round trip", testRoundTrip},
		{"versions", testVersions},
		{"conflict", testConflict},
		{"unwritable", testUnwritable},
		{"one winner", testOneWinner},
		{"competing writers", testCompetingWriters},
		{"separate", testSeparate},
		{"leaving early", testLeavingEarly},
		{"cancelled", testCancelled},
		{"long", testLong},
		{"big", testBig},
		{"nothing shared", testNothingShared},
		{"contexts", testContexts},
		{"contexts of a tenant", testContextsOfTenant},
		{"many contexts", testManyContexts},
		{"titles", testTitles},
	}
	if _, ok := h.Open(t).(storage.Snapshots); ok {
		tests = append(tests, struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{"snapshots", testSnapshots})
	}
	if _, ok := h.Open(t).(storage.Ends); ok {
		tests = append(tests, struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{"ends", testEnds})
	}
	if _, ok := h.Open(t).(storage.SpendLog); ok {
		tests = append(tests, []struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{{"spend log", testSpendLog}, {"competing spenders", testCompetingSpenders}}...)
	}
	if _, ok := h.Open(t).(storage.Notes); ok {
		tests = append(tests, []struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{{"notes", testNotes}, {"erase notes", testEraseNote}, {"competing notes", testCompetingNotes}}...)
	}
	if _, ok := h.Open(t).(storage.Outlines); ok {
		tests = append(tests, []struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{{"outlines", testOutlines}, {"odd outlines", testOddOutlines}}...)
	}
	if _, ok := h.Open(t).(storage.Eraser); ok {
		tests = append(tests, []struct {
			name string
			test func(t *testing.T, s storage.Store)
		}{{"erase", testErase}, {"erase while others write", testEraseWritten}}...)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, h.Open(t)) })
	}
	if h.Reopen != nil {
		t.Run("reopen", func(t *testing.T) { testReopen(t, h) })
	}
	if h.Damage != nil {
		t.Run("damage", func(t *testing.T) { testDamage(t, h) })
	}
}

var epoch = time.Date(2026, 11, 20, 18, 0, 0, 123456789, time.UTC)

// entry returns a small entry with this place, caused by a user's message.
func entry(seq uint64, text string) *conversation.Entry {
	id := fmt.Sprintf("m-%d", seq)
	return &conversation.Entry{
		Seq: seq, Time: epoch.Add(time.Duration(seq) * time.Second),
		Cause: &transport.Event{
			ID: id, Time: epoch, From: "user", To: transport.Cortex, ContextID: "c",
			Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
		},
	}
}

func text(e *conversation.Entry) string {
	return transport.Text(e.Cause.Payload.(*a2a.Message).Parts)
}

// load returns the entries after a version, and fails the test on an error.
func load(t testing.TB, s storage.Store, tenant, contextID string, after conversation.Version) []*conversation.Entry {
	t.Helper()
	entries, err := tryLoad(t.Context(), s, tenant, contextID, after)
	if err != nil {
		t.Fatalf("Load(%q, %q, %d) = %v after %d entries", tenant, contextID, after, err, len(entries))
	}
	return entries
}

// tryLoad also checks that an error is the last thing yielded.
func tryLoad(ctx context.Context, s storage.Store, tenant, contextID string, after conversation.Version) ([]*conversation.Entry, error) {
	var entries []*conversation.Entry
	var failed error
	for e, err := range s.Load(ctx, tenant, contextID, after) {
		if failed != nil {
			return entries, fmt.Errorf("a load went on after the error %w", failed)
		}
		if failed = err; err == nil {
			entries = append(entries, e)
		}
	}
	return entries, failed
}

// add appends an entry and fails the test on an error.
func add(t testing.TB, s storage.Store, tenant, contextID string, after conversation.Version, e *conversation.Entry) conversation.Version {
	t.Helper()
	v, err := s.Append(t.Context(), tenant, contextID, after, e)
	if err != nil {
		t.Fatalf("Append(%q, %q, %d) = %v", tenant, contextID, after, err)
	}
	if v <= after {
		t.Fatalf("Append(%q, %q, %d) = version %d, want a greater one", tenant, contextID, after, v)
	}
	return v
}

// fill appends n small entries, numbered from 1, to a new conversation and returns their versions.
func fill(t testing.TB, s storage.Store, tenant, contextID string, n int) []conversation.Version {
	t.Helper()
	versions := make([]conversation.Version, n)
	var last conversation.Version
	for i := range n {
		last = add(t, s, tenant, contextID, last, entry(uint64(i+1), fmt.Sprintf("%s %d", contextID, i+1)))
		versions[i] = last
	}
	return versions
}

// wantSeqs checks that entries are numbered first, first+1 … last and have rising versions.
func wantSeqs(t testing.TB, entries []*conversation.Entry, first, last uint64) {
	t.Helper()
	if got, want := len(entries), int(last-first+1); got != want {
		t.Fatalf("loaded %d entries, want %d", got, want)
	}
	for i, e := range entries {
		if want := first + uint64(i); e.Seq != want {
			t.Fatalf("entry %d of the load has Seq %d, want %d", i, e.Seq, want)
		}
		if i > 0 && e.Version <= entries[i-1].Version {
			t.Fatalf("version %d comes after %d", e.Version, entries[i-1].Version)
		}
	}
}

// wantConflict appends an entry and wants ErrConflict.
func wantConflict(t testing.TB, s storage.Store, tenant, contextID string, after conversation.Version) {
	t.Helper()
	if v, err := s.Append(t.Context(), tenant, contextID, after, entry(99, "stale")); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("Append(%q, %q, %d) = %d, %v, want ErrConflict", tenant, contextID, after, v, err)
	}
}

// diff compares what is stored with what was given; times are equal if they are the same instant.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmp.Comparer(time.Time.Equal), cmpopts.IgnoreUnexported(transport.Event{}))
}
