package storetest

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// testEnds checks that the end of a log is the last entry that a load yields.
func testEnds(t *testing.T, s storage.Store) {
	ends := s.(storage.Ends)
	want := func(tenant, contextID string) {
		t.Helper()
		var last *conversation.Entry
		for _, e := range load(t, s, tenant, contextID, 0) {
			last = e
		}
		got, err := ends.End(t.Context(), tenant, contextID)
		if err != nil {
			t.Fatalf("End(%q, %q) = %v", tenant, contextID, err)
		}
		if (got == nil) != (last == nil) || got != nil && (got.Version != last.Version || got.Seq != last.Seq || text(got) != text(last)) {
			t.Errorf("End(%q, %q) = %+v, want %+v", tenant, contextID, got, last)
		}
	}
	for _, tenant := range []string{"", "t", "a.b"} {
		for i, id := range oddIDs() {
			want(tenant, id)
			fill(t, s, tenant, id, 1+i%3)
			want(tenant, id)
		}
	}
	for _, tenant := range []string{"", "t", "a.b"} {
		for _, id := range oddIDs() {
			want(tenant, id)
		}
	}
	if eraser, ok := s.(storage.Eraser); ok {
		if err := eraser.Erase(t.Context(), "", oddIDs()[0]); err != nil {
			t.Fatal(err)
		}
		want("", oddIDs()[0])
		want("t", oddIDs()[0])
	}
}
