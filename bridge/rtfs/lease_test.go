package rtfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// A lease ends with its time, and is longer after a heartbeat or another registration.
func TestLeaseEnds(t *testing.T) {
	w := newWorld(t)
	w.times.sync = time.Hour
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("a", at), at, 600)
	w.register(pdf("b", at), at, 600)
	w.register(pdf("c", at), at, 600)
	w.Knows("a")
	must(t, w.library("rtfs.registry.heartbeat", map[string]any{"agent_id": "b", "ttl_seconds": 6000}, nil))
	w.register(pdf("c", at), at, 6000)
	w.pass(10 * time.Minute)
	w.Until("a is gone", func() bool { return w.ids(nil) == "b c" && !w.Has("a") })
	if !w.Has("b") || !w.Has("c") {
		t.Error("those that were extended are gone, too")
	}
	n := 0
	for range w.Store.Notes(t.Context(), "", storage.NoteLease) {
		n++
	}
	if n != 2 {
		t.Errorf("%d leases are stored, want 2", n)
	}
	w.register(pdf("d", at), at, 1) // nothing but its time wakes the registry
	w.Until("d is gone", func() bool { return w.b.leases.get("d") == nil && !w.Has("d") })
	before := w.b.now().Truncate(time.Second)
	expires, err := time.Parse(time.RFC3339, w.register(pdf("d", at), at, 10_000_000))
	if left := expires.Sub(before); err != nil || left < maxTTL || expires.After(w.b.now().Add(maxTTL)) {
		t.Errorf("a long lease ends in %v", left)
	}
}

// Leases outlive the process, but for those whose time is over.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("a", at), at, 6000)
	w.register(pdf("b", at), at, 600)
	w.register(pdf("c", at), at, 6000)
	must(t, w.library("rtfs.registry.unregister", map[string]any{"agent_id": "c"}, nil))
	before := w.discover(map[string]any{"agent_id": "a"})
	w.stop()
	w.pass(10 * time.Minute)
	w.serve()
	if got := w.ids(nil); got != "a" {
		t.Errorf("after a restart: %q, want a", got)
	}
	if diff := cmp.Diff(before, w.discover(nil)); diff != "" {
		t.Errorf("the card has changed (-want +got):\n%s", diff)
	}
	w.Knows("a")
}

// Replicas have each other's leases.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	w.times.sync = 50 * time.Millisecond
	w.serve()
	one := w.address
	w.serve()
	two := w.address
	at := "http://127.0.0.1:9"
	w.address = one
	w.register(pdf("a", at), at, 6000)
	w.register(pdf("b", at), at, 600)
	w.register(pdf("c", at), at, 600)
	w.address = two
	w.Until("the other replica has them", func() bool { return w.ids(nil) == "a b c" })
	w.register(pdf("b", at), at, 6000)
	must(t, w.library("rtfs.registry.deregister", map[string]any{"agent_id": "a"}, nil))
	w.address = one
	w.Until("the first replica knows", func() bool { return w.ids(nil) == "b c" })
	w.pass(10 * time.Minute) // the lease that it has given is over
	w.Until("both have seen that", func() bool { return !w.Has("c") })
	if got := w.ids(nil); got != "b" || !w.Has("b") {
		t.Errorf("the first replica has %q, want b", got)
	}
}

// An agent whose name somebody else has is left out with words, and a prefix tells them apart.
func TestNameIsTaken(t *testing.T) {
	w := newWorld(t)
	w.Join(ownCard("echo"), echo)
	w.serve()
	at := "http://127.0.0.1:9"
	err := w.library("rtfs.registry.register", map[string]any{"agent_card": pdf("echo", at), "endpoint_url": at}, nil)
	if err == nil || !strings.Contains(err.Error(), "-32001") || !strings.Contains(err.Error(), "--rtfs-prefix") {
		t.Errorf("register = %v", err)
	}
	w.stop()
	w.o.prefix = "rtfs."
	w.serve()
	w.register(pdf("echo", at), at, 60)
	w.Knows("rtfs.echo")
	if all := w.discover(map[string]any{"agent_id": "echo"}); len(all) != 1 || all[0].Name != "PDF tools" {
		t.Errorf("discover = %v", all)
	}
}

// An agent that comes by a name while it is taken is let in when the name is free.
func TestNameBecomesFree(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("echo", at), at, 60)
	w.stop()
	w.Until("the RTFS agent has left", func() bool { return !w.Has("echo") })
	leave := w.Join(ownCard("echo"), echo)
	w.serve()
	if got := w.ids(map[string]any{"capability_id": "pdf.split"}); got != "" || !strings.Contains(w.Log.String(), "an RTFS agent is left out") {
		t.Errorf("discover = %q; the log: %s", got, w.Log.String())
	}
	leave()
	w.Until("it is let in", func() bool { return w.ids(map[string]any{"capability_id": "pdf.split"}) == "echo" })
}

// An agent that has registered gives way to one that comes later by that name and announces itself, and is let in again when that has left.
func TestNameIsTakenLater(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("echo", at), at, 60)
	w.Knows("echo")
	leave := w.Join(ownCard("echo"), echo)
	split := map[string]any{"capability_id": "pdf.split"}
	w.Until("it gives way", func() bool { return w.ids(split) == "" })
	if !strings.Contains(w.Log.String(), "an RTFS agent is left out") {
		t.Errorf("the log: %s", w.Log.String())
	}
	if err := w.library("rtfs.registry.register", map[string]any{"agent_card": pdf("echo", at), "endpoint_url": at}, nil); err == nil {
		t.Error("it can register again")
	}
	leave()
	w.Until("it is let in", func() bool { return w.ids(split) == "echo" })
}

// The registry has room for so many agents, and an agent that is there can always register again.
func TestFull(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("a", at), at, 60)
	w.b.leases.most = 1
	if err := w.library("rtfs.registry.register", map[string]any{"agent_card": pdf("b", at), "endpoint_url": at}, nil); err == nil || !strings.HasPrefix(err.Error(), "-32003: ") {
		t.Errorf("register = %v", err)
	}
	w.register(pdf("a", at), at, 60)
}

// One machine that registers all agents that it can leaves room for those of others, also after a restart.
func TestMachineRegistersMany(t *testing.T) {
	w := newWorld(t)
	w.serve()
	register := func(id, from string) error {
		params, err := json.Marshal(map[string]any{"agent_card": pdf(id, "http://127.0.0.1:9"), "endpoint_url": "http://127.0.0.1:9", "ttl_seconds": 60})
		must(t, err)
		_, err = w.b.register(t.Context(), params, from)
		return err
	}
	w.b.leases.most = 4
	for n := range 4 {
		if err := register(fmt.Sprint("many-", n), fmt.Sprint("192.0.2.7:", n)); (err == nil) != (n < 3) {
			t.Errorf("agent %d of a machine: %v", n+1, err)
		}
	}
	w.stop()
	w.serve()
	w.b.leases.most = 4
	w.Until("the leases are read", func() bool { return len(w.b.leases.live()) == 3 })
	if err := register("more", "192.0.2.7:9"); err == nil || !strings.Contains(err.Error(), "192.0.2.7 has registered 3 of all 4") {
		t.Errorf("one more after a restart: %v", err)
	}
	for id, from := range map[string]string{"other": "192.0.2.8:1", "many-0": "192.0.2.7:1"} {
		if err := register(id, from); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Leases that cannot be read are told once, and not at each look.
func TestDamagedLeases(t *testing.T) {
	w := newWorld(t)
	k := newKeeper(w.Site(), "")
	for n := range 3 {
		_, err := w.Store.PutNote(t.Context(), "", storage.NoteLease, storage.Note{Key: key(fmt.Sprint(n)), Value: []byte(`{"card":{"agent_id":`)})
		must(t, err)
		for range 2 {
			if all, err := k.read(t.Context(), nil); err != nil || len(all) != 0 {
				t.Errorf("read = %v, %v", all, err)
			}
		}
	}
	if n := strings.Count(w.Log.String(), "cannot be read"); n != 3 {
		t.Errorf("%d lines say so of 3 leases at 6 looks:\n%s", n, w.Log.String())
	}
}

// slowNotes are notes that are deleted when the gate lets one through.
type slowNotes struct {
	*memstore.Store
	gate chan struct{}
}

func (n *slowNotes) DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error {
	<-n.gate
	return n.Store.DeleteNote(ctx, tenant, kind, key, version)
}

// Leases that end together, by their time or since another replica has ended them, are removed one by one: a heartbeat meanwhile waits for one of them.
func TestHeartbeatBetweenRemovals(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, gate := memstore.New(), make(chan struct{})
			now := time.Now()
			ls := newLeases(&bridge{at: &role.Site{Client: &client.Client{Now: func() time.Time { return now }}, Store: store, Logger: slog.New(slog.DiscardHandler)}})
			ls.b.names = kit.NewNames(hostName, nil, nil)
			for _, id := range []string{"a", "b", "c", "d"} {
				l := &lease{Card: &card{AgentID: id, Name: id}, Expires: now.Add(time.Hour), TTL: time.Hour, id: id, known: &a2a.AgentCard{}}
				if id != "d" && !elsewhere {
					l.Expires = now
				}
				must(t, ls.keep.put(t.Context(), l, nil))
				if id != "d" && elsewhere {
					must(t, store.DeleteNote(t.Context(), "", storage.NoteLease, key(id), 0))
				}
				ls.set(l)
				if id == "d" {
					ls.served[id] = l.known
				}
			}
			ls.keep.notes = &slowNotes{store, gate}
			end := ls.settle
			if elsewhere {
				end = ls.read
			}
			ended, extended := make(chan error, 1), make(chan error, 1)
			go func() { ended <- end(t.Context()) }()
			synctest.Wait()
			go func() {
				l, err := ls.extend(t.Context(), "d", func(is time.Duration) time.Duration { return is })
				if l == nil {
					err = errors.Join(err, errors.New("there is no lease"))
				}
				extended <- err
			}()
			synctest.Wait()
			gate <- struct{}{}
			synctest.Wait()
			select {
			case err := <-extended:
				must(t, err)
			default:
				t.Errorf("ended elsewhere %v: a heartbeat waits for a second removal", elsewhere)
			}
			close(gate)
			must(t, <-ended)
			if len(ls.all()) != 1 || ls.get("d") == nil {
				t.Errorf("ended elsewhere %v: %d leases are left", elsewhere, len(ls.all()))
			}
		})
	}
}
