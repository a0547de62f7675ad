// Package transporttest is the conformance suite of package transport: whoever writes a transport runs it, unchanged,
// and has written a transport when it passes.
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, transporttest.Harness{New: func(t *testing.T) transporttest.Node { … }})
//	}
//
// The promises are those of the documentation of package transport. What a transport may offer beyond them is found by
// asking for the optional interfaces: of the transport [transport.DeadLetters], [transport.Withdrawer],
// [transport.Eraser], [transport.Owners], [transport.InboxDepth], [transport.InboxBacklog], [transport.InboxSearch],
// [transport.InboxWatcher], [transport.Health], [transport.Files] and [transport.FileKeeper], of the Node [Restarter] and [Killer]. Cases for what is not offered are not run.
package transporttest

import (
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Harness is what the suite needs to know about a transport.
type Harness struct {
	// New returns a fresh, empty world; whatever it starts is ended through t.Cleanup. It is called at the beginning of
	// every case, from several goroutines at once.
	New func(t *testing.T) Node

	// Slow is how long a handler may be silent at most before something in the transport could take its event for lost,
	// with a margin. A case handles an event for this long. 0: nothing of that kind exists.
	Slow time.Duration

	// Bounded returns a world as New does, whose inboxes take no new work when they hold about this many events. nil: there is no
	// such bound.
	Bounded func(t *testing.T, events int) Node
}

// Node is one world of inboxes, cards and live topics, seen by any number of clients.
type Node interface {
	// Dial returns another client of this world, like that of another process. The suite may close it; what is still open
	// at the end of the case is closed by the Node, through t.Cleanup.
	Dial(t *testing.T) transport.Transport
}

// Restarter is implemented by a Node whose world outlives its processes.
type Restarter interface {
	// Restart ends the world and all its clients, in whatever way the world must survive, and starts it again with what
	// it had stored. Only clients that are dialed afterwards are used afterwards.
	Restart(t *testing.T)
}

// Killer is implemented by a Node that can end a client without goodbye, as when its process is killed.
type Killer interface {
	// Kill ends tr, which came from Dial, such that nothing tr does afterwards reaches the world.
	Kill(t *testing.T, tr transport.Transport)
}

const (
	// patience bounds every wait for something that must come.
	patience = 30 * time.Second
	// soon bounds what must come at once, without waiting for a timeout of the transport; wide, for slow machines.
	soon = 4 * time.Second
	// quiet is how long the suite looks at what must not come, where nothing else can show it.
	quiet = 150 * time.Millisecond
)

// testCase is one promise. It runs in a world of its own, parallel to others.
type testCase struct {
	name string
	// needs says whether the transport offers what the case is about; nil: every transport does.
	needs func(Node, transport.Transport) bool
	run   func(*env)
}

// Run checks every promise of package transport, each in a subtest with a world of its own.
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

// probe makes a world only to see what it and its clients offer.
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
