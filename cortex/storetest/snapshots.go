package storetest

import (
	"bytes"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

func wantSnapshot(t *testing.T, s storage.Snapshots, tenant, contextID string, version conversation.Version, data []byte) {
	t.Helper()
	v, got, err := s.Snapshot(t.Context(), tenant, contextID)
	if err != nil || v != version || !bytes.Equal(got, data) {
		t.Errorf("Snapshot(%q, %q) = %d, %.40q, %v, want %d, %.40q", tenant, contextID, v, got, err, version, data)
	}
}

func put(t *testing.T, s storage.Snapshots, tenant, contextID string, v conversation.Version, data []byte) {
	t.Helper()
	if err := s.PutSnapshot(t.Context(), tenant, contextID, v, data); err != nil {
		t.Fatalf("PutSnapshot(%q, %q, %d) = %v", tenant, contextID, v, err)
	}
}

func testSnapshots(t *testing.T, store storage.Store) {
	s := store.(storage.Snapshots)
	wantSnapshot(t, s, "", "c", 0, nil)
	of := fill(t, store, "", "c", 3) // the log must have the snapshot's entry
	wantSnapshot(t, s, "", "c", 0, nil)

	data := []byte("first\x00\xff")
	put(t, s, "", "c", of[0], data)
	copy(data, "XXXXX")
	wantSnapshot(t, s, "", "c", of[0], []byte("first\x00\xff"))
	_, got, _ := s.Snapshot(t.Context(), "", "c")
	copy(got, "YYYYY")
	wantSnapshot(t, s, "", "c", of[0], []byte("first\x00\xff"))

	put(t, s, "", "c", of[2], []byte("newer"))
	wantSnapshot(t, s, "", "c", of[2], []byte("newer"))
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	put(t, s, "", "c", of[1], big)
	wantSnapshot(t, s, "", "c", of[1], big)

	versions := map[string]conversation.Version{}
	for _, tenant := range []string{"", "t", "a.b"} {
		for _, id := range oddIDs() {
			wantSnapshot(t, s, tenant, id, 0, nil)
			put(t, s, tenant, id, 1<<62, []byte("of nothing: it is not kept"))
			wantSnapshot(t, s, tenant, id, 0, nil)
			versions[tenant+"|"+id] = fill(t, store, tenant, id, 1)[0]
			put(t, s, tenant, id, versions[tenant+"|"+id], []byte(tenant+"|"+id))
		}
	}
	for _, tenant := range []string{"", "t", "a.b"} {
		for _, id := range oddIDs() {
			wantSnapshot(t, s, tenant, id, versions[tenant+"|"+id], []byte(tenant+"|"+id))
		}
	}
	wantSnapshot(t, s, "", "c", of[1], big)
	wantSeqs(t, load(t, store, "", "c", 0), 1, 3)
	if n := len(contexts(t, store, "")); n != 1+len(oddIDs()) {
		t.Errorf("Contexts yields %d conversations, want %d: a snapshot is none", n, 1+len(oddIDs()))
	}
}
