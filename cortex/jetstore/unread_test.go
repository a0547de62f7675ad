package jetstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	embedded "github.com/cortex-orchestrator/cortex/transport/nats"
)

// flipText flips a bit of a text in the files of a stream.
func flipText(t *testing.T, dir, stream, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(b, []byte(text))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in no file of %s", text, stream)
}

// openUnread returns a running store with four conversations of three entries, after a bit of some texts "words of c1: 3" was flipped in its files.
func openUnread(t *testing.T, outlined bool, flipped ...string) node {
	t.Helper()
	n := open(t, t.TempDir())
	for c := range 4 {
		id, v := talk(c), conversation.Version(0)
		for i := range 3 {
			e := said(uint64(i+1), fmt.Sprintf("words of %s: %d", id, i+1))
			e.Time = time.Now()
			var err error
			if v, err = n.Append(t.Context(), "", id, v, e); err != nil {
				t.Fatal(err)
			}
		}
		if outlined && id != "c1" {
			if err := n.PutOutline(t.Context(), "", id, storage.Outline{Version: v, Entries: 3, Title: id, Updated: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.stop()
	n = open(t, n.dir) // which has nothing in its caches
	for _, text := range flipped {
		flipText(t, n.dir, jetstore.Stream, text)
	}
	return n
}

// TestListUnread checks that a conversation whose last entry the running server cannot read is in the list with all others, and known to be damaged.
func TestListUnread(t *testing.T) {
	for _, outlined := range []bool{false, true} {
		t.Run(fmt.Sprintf("outlined=%t", outlined), func(t *testing.T) {
			n := openUnread(t, outlined, "words of c1: 3")
			got := map[string]int{}
			for c, err := range n.Contexts(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if got[c.ContextID] = c.Entries; c.Updated.IsZero() != (c.ContextID == "c1") {
					t.Errorf("%s was changed at %v", c.ContextID, c.Updated)
				}
			}
			if want := map[string]int{"c0": 3, "c1": 3, "c2": 3, "c3": 3}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the list has %v, want %v", got, want)
			}
			if d := n.Damaged(); len(d) != 1 || d[0].ContextID != "c1" {
				t.Errorf("Damaged = %+v, want c1", d)
			}
		})
	}
}

// TestEraseUnread checks that a conversation is not said to be erased while the server has entries of it that it cannot read.
func TestEraseUnread(t *testing.T) {
	for name, flipped := range map[string][]string{
		"last":  {"words of c1: 3"},
		"first": {"words of c1: 1"},
		"all":   {"words of c1: 1", "words of c1: 2", "words of c1: 3"},
	} {
		t.Run(name, func(t *testing.T) {
			n := openUnread(t, false, flipped...)
			for range 2 {
				err := n.Erase(t.Context(), "", "c1")
				if want := fmt.Sprintf(": %d entries cannot be read and are not erased", len(flipped)); err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("Erase = %v, want ...%s...", err, want)
				}
			}
			if err := n.Erase(t.Context(), "", "c2"); err != nil {
				t.Error(err)
			}
			n.stop()
			if _, err := embedded.CheckStore(t.Context(), n.dir, t.TempDir(), nil); err != nil { // as the embedded server does
				t.Fatal(err)
			}
			again := open(t, n.dir)
			if err := again.Erase(t.Context(), "", "c1"); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}

// TestSpentUnread checks that a sum that the running server cannot read is said, and that those of other days count.
func TestSpentUnread(t *testing.T) {
	const day = "2026-01-02"
	n := open(t, t.TempDir())
	for i, d := range []string{day, "2026-01-03"} {
		if _, err := n.Spend(t.Context(), "", d, llm.Usage{Input: 4711 + i}); err != nil {
			t.Fatal(err)
		}
	}
	n.stop()
	n = open(t, n.dir)
	if sum, err := n.Spent(t.Context(), "", "2026-01-01"); err != nil || sum != (llm.Usage{}) || n.SpendTrouble() != "" {
		t.Errorf("Spent on a day without a sum = %+v, %v, and it says %q", sum, err, n.SpendTrouble())
	}
	flipText(t, n.dir, "KV_"+jetstore.SpendLog, "4711")
	if _, err := n.Spent(t.Context(), "", day); err != nil || !strings.Contains(n.SpendTrouble(), day) {
		t.Errorf("Spent of a damaged sum: %v, and it says %q", err, n.SpendTrouble())
	}
	if sum, err := n.Spent(t.Context(), "", "2026-01-03"); err != nil || sum.Input != 4712 {
		t.Errorf("Spent on another day = %+v, %v", sum, err)
	}
}
