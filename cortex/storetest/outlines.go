package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// outline returns one of a conversation with so many entries.
func outline(versions []conversation.Version) storage.Outline {
	n := len(versions)
	return storage.Outline{
		Version: versions[n-1], Entries: n, Updated: entry(uint64(n), "").Time, Life: "life", Owner: "user:ann", Shared: []string{"agent", "user:bob"},
		Usage: llm.Usage{Input: 100 * n, Cost: 0.25},
	}
}

func putOutline(t *testing.T, s storage.Store, tenant, contextID string, o storage.Outline) {
	t.Helper()
	if err := s.(storage.Outlines).PutOutline(t.Context(), tenant, contextID, o); err != nil {
		t.Fatalf("PutOutline(%q, %q) = %v", tenant, contextID, err)
	}
}

// testOutlines holds that a list has the outline that was put, while it stands for the whole log, and that everything is listed all the same.
func testOutlines(t *testing.T, s storage.Store) {
	a, b := fill(t, s, "", "a", 3), fill(t, s, "", "b", 2)
	fill(t, s, "", "c", 1)
	infoOf := func(id string, n int, o *storage.Outline) storage.ContextInfo {
		return storage.ContextInfo{ContextID: id, Title: id + " 1", Entries: n, Updated: entry(uint64(n), "").Time, Outline: o}
	}
	want := func(when string, tenant string, want ...storage.ContextInfo) {
		t.Helper()
		if d := diff(want, contexts(t, s, tenant)); d != "" {
			t.Errorf("%s: conversations of tenant %q differ (-want +got):\n%s", when, tenant, d)
		}
	}
	ofA, ofB := outline(a), outline(b)
	putOutline(t, s, "", "a", ofA)
	putOutline(t, s, "", "b", ofB)
	for range 2 {
		want("put", "", infoOf("c", 1, nil), infoOf("b", 2, &ofB), infoOf("a", 3, &ofA))
		putOutline(t, s, "", "a", ofA)
	}
	a = append(a, add(t, s, "", "a", a[2], entry(4, "again")))
	want("gone on", "", infoOf("a", 4, nil), infoOf("c", 1, nil), infoOf("b", 2, &ofB))
	newer := outline(a)
	putOutline(t, s, "", "a", newer)
	want("put again", "", infoOf("a", 4, &newer), infoOf("c", 1, nil), infoOf("b", 2, &ofB))
	putOutline(t, s, "", "a", ofA)
	want("an old one put late", "", infoOf("a", 4, nil), infoOf("c", 1, nil), infoOf("b", 2, &ofB))

	for _, id := range oddIDs() {
		versions := []conversation.Version{add(t, s, "a.b", id, 0, entry(1, "x"))}
		putOutline(t, s, "a.b", id, outline(versions))
	}
	for _, info := range contexts(t, s, "a.b") {
		if info.Outline == nil {
			t.Errorf("%q has no outline", info.ContextID)
		}
	}
	putOutline(t, s, "", "nobody", outline(a))
	want("of others", "", infoOf("a", 4, nil), infoOf("c", 1, nil), infoOf("b", 2, &ofB))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.(storage.Outlines).PutOutline(ctx, "", "c", ofA); !errors.Is(err, context.Canceled) {
		t.Errorf("PutOutline when ctx has ended = %v, want context.Canceled", err)
	}
	if _, ok := s.(storage.Eraser); !ok {
		return
	}
	erase(t, s, "", "b")
	want("erased", "", infoOf("a", 4, nil), infoOf("c", 1, nil))
	putOutline(t, s, "", "b", ofB)
	want("put after that", "", infoOf("a", 4, nil), infoOf("c", 1, nil))
	v := add(t, s, "", "b", 0, entry(1, "another title"))
	add(t, s, "", "b", v, entry(2, "x"))
	anew := infoOf("b", 2, nil)
	anew.Title = "another title"
	want("begun anew", "", anew, infoOf("a", 4, nil), infoOf("c", 1, nil))
}
