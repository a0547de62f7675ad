package transport_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestTurnID checks that the id of a turn is stable, and that no other four values give it.
func TestTurnID(t *testing.T) {
	const want = "0006795d-ec35-5b86-a29f-968d39a1c368"
	if got := transport.TurnID("", "c1", "user:ada", "m1"); got != want {
		t.Errorf("TurnID = %s, want %s: clients of other versions make it too", got, want)
	}
	seen := map[string][4]string{}
	for _, name := range [][4]string{
		{"", "c1", "user:ada", "m1"},
		{"t", "c1", "user:ada", "m1"},
		{"", "c2", "user:ada", "m1"},
		{"", "c1", "user:bob", "m1"},
		{"", "c1", "user:ada", "m2"},
		{"", "c1", `user:ada""m1`, ""},
		{"", "c1", `user:ada"`, `"m1`},
		{"", "c1user:ada", "m1", ""},
		{"", "", "c1", `user:ada""m1`},
		{`"`, "c1", "user:ada", "m1"},
		{`\`, "c1", "user:ada", "m1"},
		{`\"`, "c1", "user:ada", "m1"},
	} {
		id := transport.TurnID(name[0], name[1], name[2], name[3])
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have the same id", name, other)
		}
		seen[id] = name
	}
}
