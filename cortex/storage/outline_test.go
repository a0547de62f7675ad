package storage_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The outline of an older version, which did not count the turns, is made anew.
func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		`{"version":4,"entries":4,"title":"hello","owner":"user","turns":2}`: true,
		`{"version":4,"entries":4,"title":"hello","owner":"user"}`:           false,
		`{"version":4,"entries":4,"title":"hello","turns":2}`:                false,
	} {
		o := new(storage.Outline)
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		if got := o.Whole(); got != want {
			t.Errorf("Whole of %s = %t, want %t", text, got, want)
		}
	}
}

// TestOutlineIsSmall checks that an outline stays small, and not whole, when a conversation is shared with as many as may be.
func TestOutlineIsSmall(t *testing.T) {
	for _, test := range []struct {
		sharers, length int
		whole           bool
	}{
		{0, 0, true},
		{64, 20, true},
		{conversation.MaxShared, transport.MaxID, false},
	} {
		c := conversation.NewConversation("", "c1")
		c.Version, c.Seq, c.Owner, c.Begun = 7, 3, "user:ann", 2
		for i := range test.sharers {
			c.Shared = append(c.Shared, fmt.Sprintf("user:%03d", i)+strings.Repeat("x", test.length-len("user:000")))
		}
		o := storage.OutlineOf(c, "hello", time.Now())
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 4<<10 || o.Whole() != test.whole || !o.Idle || o.Version != 7 || o.Entries != 3 || o.Title != "hello" {
			t.Errorf("shared with %d: %d bytes, %+v, want at most 4 KiB, and whole %t", test.sharers, len(b), o, test.whole)
		}
	}
}
