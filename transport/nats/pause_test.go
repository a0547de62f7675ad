//go:build unix

package nats

import (
	"syscall"
	"testing"
)

// TestReplicaPaused stops a process for longer than its leases last: another one takes over and gets every event, also those that the server would
// still send to the stopped process. When that continues, it gives up its partitions and gets a share again.
func TestReplicaPaused(t *testing.T) {
	r := newReplicas(t)
	stop := publishers(t, r.node.srv.URL())
	paused := r.start("paused")
	r.own("paused")
	r.start("other")
	r.own("paused", "other")
	r.goesOn("paused")
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.owned["paused"] = 0
	r.mu.Unlock()
	r.own("other")
	sent := stop()
	eventually(t, "every event was handled", func() bool { return r.y.total() == sent })
	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.own("paused", "other")
	stop = publishers(t, r.node.srv.URL())
	r.goesOn("paused")
	stop()
}
