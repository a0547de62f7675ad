package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// outline returns the outline of a conversation made by fill with these versions.
func outline(contextID string, versions []conversation.Version) storage.Outline {
	n := len(versions)
	return storage.Outline{
		Version: versions[n-1], Entries: n, Updated: entry(uint64(n), "").Time, Title: contextID + " 1", Life: "life", Owner: "user:ann", Turns: n,
		Shared: []string{"agent", "user:bob"}, Usage: llm.Usage{Input: 100 * n, Cost: 0.25},
	}
}

func putOutline(t *testing.T, s storage.Store, contextID string, o storage.Outline) {
	t.Helper()
	if err := s.(storage.Outlines).PutOutline(t.Context(), "", contextID, o); err != nil {
		t.Fatalf("PutOutline(%q) = %v", contextID, err)
	}
}

// wantContexts checks that these conversations, made by fill, are listed in this order.
func wantContexts(t *testing.T, s storage.Store, when string, want ...storage.ContextInfo) {
	t.Helper()
	if d := diff(want, contexts(t, s, "")); d != "" {
		t.Errorf("%s: conversations differ (-want +got):\n%s", when, d)
	}
}

// testOutlines checks that a list includes an outline while it covers the whole log, and lists every conversation in any case.
func testOutlines(t *testing.T, s storage.Store) {
	versions := map[string][]conversation.Version{}
	infoOf := func(id string, o *storage.Outline) storage.ContextInfo {
		n := len(versions[id])
		return storage.ContextInfo{ContextID: id, Title: id + " 1", Entries: n, Updated: entry(uint64(n), "").Time, Version: versions[id][n-1], Outline: o}
	}
	for i, id := range []string{"a", "b", "c"} {
		versions[id] = fill(t, s, "", id, 3-i)
	}
	ofA, ofB, ofC := outline("a", versions["a"]), outline("b", versions["b"]), outline("c", versions["c"])
	untitled := ofA
	untitled.Title = ""
	ofC.Owner, ofC.Life, ofC.Shared, ofC.Usage = "", "", nil, llm.Usage{}
	for range 2 {
		putOutline(t, s, "a", untitled)
		putOutline(t, s, "b", ofB)
		putOutline(t, s, "c", ofC)
		wantContexts(t, s, "put", infoOf("c", &ofC), infoOf("b", &ofB), infoOf("a", &ofA))
	}
	whole := outline("c", versions["c"])
	for _, o := range []storage.Outline{whole, ofC} {
		putOutline(t, s, "c", o)
		wantContexts(t, s, "put whole", infoOf("c", &whole), infoOf("b", &ofB), infoOf("a", &ofA))
	}

	versions["a"] = append(versions["a"], add(t, s, "", "a", versions["a"][2], entry(4, "again")))
	wantContexts(t, s, "gone on", infoOf("a", nil), infoOf("c", &whole), infoOf("b", &ofB))
	newer := outline("a", versions["a"])
	untitled = newer
	untitled.Title = ""
	putOutline(t, s, "a", untitled)
	wantContexts(t, s, "put again", infoOf("a", &newer), infoOf("c", &whole), infoOf("b", &ofB))
	putOutline(t, s, "a", ofA)
	wantContexts(t, s, "an old one put late", infoOf("a", nil), infoOf("c", &whole), infoOf("b", &ofB))
	putOutline(t, s, "nobody", ofA)
	wantContexts(t, s, "of nobody", infoOf("a", nil), infoOf("c", &whole), infoOf("b", &ofB))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.(storage.Outlines).PutOutline(ctx, "", "c", ofC); !errors.Is(err, context.Canceled) {
		t.Errorf("PutOutline when ctx has ended = %v, want context.Canceled", err)
	}
	if _, ok := s.(storage.Eraser); !ok {
		return
	}
	erase(t, s, "", "b")
	wantContexts(t, s, "erased", infoOf("a", nil), infoOf("c", &whole))
	// An outline put after the erasure stays away too, before any listing, even if the new log gets as long as the old one.
	putOutline(t, s, "b", ofB)
	v := add(t, s, "", "b", 0, entry(1, "another title"))
	versions["b"] = []conversation.Version{v, add(t, s, "", "b", v, entry(2, "x"))}
	anew := infoOf("b", nil)
	anew.Title = "another title"
	wantContexts(t, s, "begun anew", anew, infoOf("a", nil), infoOf("c", &whole))
}

// testOddOutlines tests conversations of several tenants, with unusual names.
func testOddOutlines(t *testing.T, s storage.Store) {
	for _, tenant := range []string{"", "t", "a.b", "*"} {
		for _, id := range oddIDs() {
			v := add(t, s, tenant, id, 0, entry(1, "x"))
			o := storage.Outline{Version: v, Entries: 1, Owner: tenant + "|" + id}
			if err := s.(storage.Outlines).PutOutline(t.Context(), tenant, id, o); err != nil {
				t.Fatalf("PutOutline(%q, %q) = %v", tenant, id, err)
			}
		}
	}
	for _, tenant := range []string{"", "t", "a.b", "*"} {
		for _, info := range contexts(t, s, tenant) {
			if info.Outline == nil || info.Outline.Owner != tenant+"|"+info.ContextID || info.Title != "x" {
				t.Errorf("%q of tenant %q is listed as %+v with the outline %+v", info.ContextID, tenant, info, info.Outline)
			}
		}
	}
}
