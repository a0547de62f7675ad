package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListAside lists files of repaired conversations, one of which is incomplete after a killed repair, and a file of the store.
func TestListAside(t *testing.T) {
	data := t.TempDir()
	if all, more := ListAside(data); len(all) > 0 || more {
		t.Errorf("listAside without a folder = %v, %v", all, more)
	}
	head := `{"tenant":"acme","context_id":"c1","good":0,"removed":0,"kept":""}` + "\n"
	for file, text := range map[string]string{
		"20260102T030405.000Z/conversation-1.jsonl":           head + `{"version":1,"entry":"` + strings.Repeat("x", 100_000) + "\"}\n{}\n{}\n",
		"20260102T030405.000Z/conversation-2.jsonl":           head + "{}\n{\"version",
		"20260102T030405.000Z/$G/CORTEX_INBOX/msgs/1.blk":     "12345",
		"20260102T030406.000Z/$G/CORTEX_LOG/obs/c/o.dat":      "1",
		"20260102T030406.000Z/conversation-of-nobody-1.jsonl": "",
	} {
		path := filepath.Join(AsideDir(data), file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, more := ListAside(data)
	if more || len(all) != 5 {
		t.Fatalf("listAside = %+v, %v, want five files", all, more)
	}
	got := map[string]Aside{}
	for _, a := range all {
		got[filepath.Base(a.File)] = a
	}
	for file, entries := range map[string]int{"conversation-1.jsonl": 3, "conversation-2.jsonl": 1} {
		if a := got[file]; a.ContextID != "c1" || a.Tenant != "acme" || a.Entries != entries || a.At.Format("15:04:05") != "03:04:05" {
			t.Errorf("%s: %+v, want %d entries of c1", file, a, entries)
		}
	}
	if a := got["1.blk"]; a.What != "CORTEX_INBOX/msgs/1.blk" || a.Bytes != 5 || a.ContextID != "" {
		t.Errorf("a block: %+v", a)
	}
	if left := Unnamed(all, []string{filepath.Join(AsideDir(data), "20260102T030405.000Z")}); len(left) != 2 {
		t.Errorf("unnamed = %+v, want those of the other folder", left)
	}
}

// TestAsideSpeaks sets aside what a consumer has delivered, as a start after a full disk does, and then a block: only the latter keeps files of which
// nothing speaks.
func TestAsideSpeaks(t *testing.T) {
	data := t.TempDir()
	if AsideSpeaks(data) {
		t.Error("a folder that is missing speaks of files")
	}
	for _, tt := range []struct {
		file   string
		speaks bool
	}{
		{"20260102T030406.000Z/$G/CORTEX_LOG/obs/c/o.dat", false},
		{"20260102T030405.000Z/$G/CORTEX_INBOX/msgs/1.blk", true},
	} {
		path := filepath.Join(AsideDir(data), tt.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if speaks := AsideSpeaks(data); speaks != tt.speaks {
			t.Errorf("with %s aside: %v, want %v", tt.file, speaks, tt.speaks)
		}
	}
}
