package jetstore_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// filesWith returns the files under dir that contain text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func said(seq uint64, text string) *conversation.Entry {
	e := entry(seq)
	e.Cause.Payload.(*a2a.Message).Parts = a2a.ContentParts{a2a.NewTextPart(text)}
	return e
}

// TestEraseFromFiles checks that an erased conversation cannot be read from the server's files: neither its entries, nor its snapshots and
// outlines, of which the files contain all versions.
func TestEraseFromFiles(t *testing.T) {
	const secret = "xyzzy-plugh"
	n := open(t, t.TempDir())
	ctx := t.Context()
	versions := map[string]conversation.Version{}
	for i := range 100 {
		for _, c := range []string{"gone", "kept"} {
			text := map[string]string{"gone": secret, "kept": "nothing special"}[c]
			v, err := n.Append(ctx, "", c, versions[c], said(uint64(i+1), fmt.Sprint(text, " ", i)))
			if err != nil {
				t.Fatal(err)
			}
			if versions[c] = v; i%10 == 9 {
				if err := n.PutSnapshot(ctx, "", c, v, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if err := n.PutOutline(ctx, "", c, storage.Outline{Version: v, Entries: i + 1, Owner: text}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, fold, err := n.Snapshot(ctx, "", "gone"); string(fold) != secret || err != nil {
		t.Fatalf("Snapshot = %q, %v, want what was put", fold, err)
	}
	key := keyOfOutline(t, n)
	if len(filesWith(t, n.dir, secret)) == 0 || len(filesWith(t, n.dir, key)) == 0 {
		t.Fatal("the text is in no file before it is erased")
	}
	if err := n.Erase(ctx, "", "gone"); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, n.dir, secret); len(found) > 0 {
		t.Errorf("the text is in %v after it was erased", found)
	}
	n.stop()
	if found := filesWith(t, n.dir, secret); len(found) > 0 {
		t.Errorf("the text is in %v after the server has stopped", found)
	}
	if found := filesWith(t, n.dir, key); len(found) > 0 {
		t.Errorf("what the outline was sealed with is in %v", found)
	}

	n = open(t, n.dir)
	entries := 0
	for e, err := range n.Load(ctx, "", "kept", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if entries++; e.Seq != uint64(entries) {
			t.Fatalf("entry %d has Seq %d", entries, e.Seq)
		}
	}
	if v, fold, err := n.Snapshot(ctx, "", "kept"); entries != 100 || v != versions["kept"] || string(fold) != "nothing special" || err != nil {
		t.Errorf("the other conversation has %d entries and the snapshot %d, %q, %v", entries, v, fold, err)
	}
}

// keyOfOutline returns the key that seals the outline of the erased conversation.
func keyOfOutline(t *testing.T, n node) string {
	t.Helper()
	js, err := n.nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	m, err := js.GetLastMsg(jetstore.Keys, "cortex.v1.key._.outline.gone")
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Data)
}

// TestEraseOlder checks that conversations and snapshots of older versions can be read and erased.
func TestEraseOlder(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: jetstore.Stream, Subjects: []string{"cortex.v1.log.>"}, Discard: jetstream.DiscardNew, AllowDirect: true, DenyDelete: true,
	}); err != nil {
		t.Fatal(err)
	}
	s, err := jetstore.Open(ctx, nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "cortex.v1.log._.c", []byte(`{"seq":1}`)); err != nil { // without a key
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, jetstore.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(ctx, "_.c", append([]byte{7: 1}, "fold"...)); err != nil {
		t.Fatal(err)
	}
	if v, fold, err := s.Snapshot(ctx, "", "c"); v != 1 || string(fold) != "fold" || err != nil {
		t.Errorf("Snapshot = %d, %q, %v, want the older one", v, fold, err)
	}
	if err := s.PutSnapshot(ctx, "", "c", 1, []byte("newer")); err != nil {
		t.Fatal(err)
	}
	if v, fold, err := s.Snapshot(ctx, "", "c"); v != 1 || string(fold) != "newer" || err != nil {
		t.Errorf("Snapshot = %d, %q, %v, want the newer one", v, fold, err)
	}
	if err := s.Erase(ctx, "", "c"); err != nil {
		t.Fatal(err)
	}
	if n, err := count(ctx, t, s); n != 0 || err != nil {
		t.Errorf("Load ends after %d entries with %v, want none", n, err)
	}
	if _, fold, err := s.Snapshot(ctx, "", "c"); fold != nil || err != nil {
		t.Errorf("Snapshot = %q, %v, want none", fold, err)
	}
}

// BenchmarkErase erases a conversation of 1,000 entries between as many others.
func BenchmarkErase(b *testing.B) {
	n := open(b, b.TempDir())
	round := 0
	for b.Loop() {
		b.StopTimer()
		round++
		var last conversation.Version
		for i := range 1000 {
			var err error
			if last, err = n.Append(b.Context(), "", "c", last, entry(uint64(i+1))); err != nil {
				b.Fatal(err)
			}
			if _, err = n.Append(b.Context(), "", fmt.Sprint("other-", round, "-", i), 0, entry(1)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := n.Erase(b.Context(), "", "c"); err != nil {
			b.Fatal(err)
		}
	}
}
