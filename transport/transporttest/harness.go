// Package transporttest is the conformance suite of package transport. A transport is correct when it passes the unchanged suite.
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, transporttest.Harness{New: func(t *testing.T) transporttest.Node { … }})
//	}
//
// The promises are those in the documentation of package transport. The suite finds optional features by their interfaces: of the transport
// [transport.DeadLetters], [transport.Withdrawer], [transport.Eraser], [transport.Owners], [transport.InboxDepth], [transport.InboxBacklog],
// [transport.InboxSearch], [transport.InboxWatcher], [transport.Health], [transport.Files] and [transport.FileKeeper], of the Node [Restarter] and
// [Killer]. Cases for missing features are not run.
package transporttest

import (
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Harness tells the suite about a transport.
type Harness struct {
	// New returns a new, empty world, and ends what it starts through t.Cleanup. The suite calls it at the beginning of every case, from several
	// goroutines at once.
	New func(t *testing.T) Node

	// Slow exceeds the longest time that a handler may run before the transport could take its event for lost. One case handles an event for this
	// long. 0: the transport has no such limit.
	Slow time.Duration

	// Bounded is like New, for a world whose inboxes refuse new work when they hold about this many events. nil: the transport has no such bound.
	Bounded func(t *testing.T, events int) Node
}

// Node is one world of inboxes, cards and live topics, seen by any number of clients.
type Node interface {
	// Dial returns another client of this world, like one in another process. The suite may close it; the Node closes the others at the end of the
	// case, through t.Cleanup.
	Dial(t *testing.T) transport.Transport
}

// Restarter is implemented by a Node whose world survives its processes.
type Restarter interface {
	// Restart ends the world and all its clients, as abruptly as the world has to survive it, and starts it again with its stored data. The suite uses
	// only clients that it dials afterwards.
	Restart(t *testing.T)
}

// Killer is implemented by a Node that can end a client abruptly, as if its process were killed.
type Killer interface {
	// Kill ends tr, which came from Dial, so that nothing that tr does afterwards reaches the world.
	Kill(t *testing.T, tr transport.Transport)
}

const (
	// patience bounds every wait for an event that must come.
	patience = 2 * time.Minute
	// soon bounds the wait for an event that must come without a timeout of the transport; generous, for slow machines.
	soon = 4 * time.Second
	// quiet is how long the suite waits for an event that must not come, where nothing else can show it.
	quiet = 150 * time.Millisecond
)

// testCase is one promise. It runs in its own world, parallel to others.
type testCase struct {
	name string
	// needs reports whether the transport offers the feature of the case; nil: every transport does.
	needs func(Node, transport.Transport) bool
	run   func(*env)
}

// Run checks every promise of package transport, each in a subtest with its own world.
func Run(t *testing.T, h Harness) {
	cases := [][]testCase{
		inboxCases, orderCases, retryCases, delayCases, closeCases, handoverCases, ownershipCases, cardCases, liveCases, dataCases, invalidCases, idCases,
		optionalCases, restartCases, hammerCases, deadCases, giveUpCases, withdrawCases, eraseCases, fullCases, fileCases,
	}
	features, client := probe(t, h)
	for _, group := range cases {
		for _, c := range group {
			if c.needs != nil && !c.needs(features, client) {
				continue
			}
			t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				c.run(newEnv(t, h))
			})
		}
	}
}

// probe makes a world only to find out what it and its clients offer.
func probe(t *testing.T, h Harness) (n Node, tr transport.Transport) {
	t.Run("features", func(t *testing.T) {
		n = h.New(t)
		tr = n.Dial(t)
	})
	if tr == nil {
		t.FailNow()
	}
	return n, tr
}
