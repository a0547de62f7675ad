package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestOwnership checks when a service is not ready because of partitions without owners: at the start until all have one, and later when one is
// without for longer than a change of owner takes.
func TestOwnership(t *testing.T) {
	none := errors.New("none")
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	o := newOwnership()
	check := func(what string, after time.Duration, want bool) {
		t.Helper()
		if got := o.lost(at(after)); (got != nil) != want {
			t.Errorf("%s: lost = %v, want an error: %v", what, got, want)
		}
	}
	check("nobody has looked", 0, true)
	o.see(at(0), none)
	check("it starts", time.Second, true)
	o.see(at(2*time.Second), nil)
	check("all have an owner", 2*time.Second, false)
	o.see(at(3*time.Second), none)
	check("the owner changes", 2*time.Second+ownerless, false)
	o.see(at(8*time.Second), none)
	check("nobody takes over", 2*time.Second+ownerless+1, true)
	o.see(at(9*time.Second), nil)
	check("somebody did", 9*time.Second, false)
}

// TestUnownedUnknown checks that a service is ready on a transport that does not report owners.
func TestUnownedUnknown(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	orchestrator, err := cortex.New(cortex.Config{
		Transport: bus, Store: memstore.New(), Decider: nobody{}, Agents: func(string) []prompt.Agent { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bus  transport.Transport
		want bool
	}{{bus, true}, {struct{ transport.Transport }{bus}, false}} {
		n := &node{link: &link{bus: c.bus}, orchestrator: orchestrator}
		if err := n.unowned(t.Context()); (err != nil) != c.want {
			t.Errorf("over %T, where nobody takes work, unowned = %v, want an error: %v", c.bus, err, c.want)
		}
	}
}

// TestUnclaimed checks that any owners together may cover all partitions, and that an owner without partitions is no problem.
func TestUnclaimed(t *testing.T) {
	var low, high []int
	for p := range transport.Partitions {
		if p < 1 {
			low = append(low, p)
		} else {
			high = append(high, p)
		}
	}
	for _, c := range []struct {
		name   string
		owners []transport.Owner
		want   string
	}{
		{"nobody", nil, "4 of 4 partitions: 0-3"},
		{"only one that waits", []transport.Owner{{ID: "a"}}, "4 of 4 partitions: 0-3"},
		{"one of two", []transport.Owner{{ID: "a", Partitions: high}}, "1 of 4 partitions: 0"},
		{"two and one that waits", []transport.Owner{{ID: "a", Partitions: high}, {ID: "b"}, {ID: "c", Partitions: low}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := unclaimed(c.owners)
			if (err != nil) != (c.want != "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("unclaimed = %v, want %q", err, c.want)
			}
		})
	}
}
