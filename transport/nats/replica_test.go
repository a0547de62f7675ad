package nats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// With envReplica in its environment, the test binary is an orchestrator at that server, with the label envLabel, that ends at the end of its
// standard input. It reports to its parent what it owns and handles, and waits for the answer.
const (
	envReplica = "CORTEX_TEST_REPLICA_URL"
	envLabel   = "CORTEX_TEST_REPLICA_LABEL"

	replicaOwns    = "test.replica.owns"
	replicaHandles = "test.replica.handles"
)

func runReplica() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	b, err := Dial(ctx, &Options{URL: os.Getenv(envReplica)})
	if err != nil {
		return err
	}
	label := os.Getenv(envLabel)
	sub, err := b.Subscribe(ctx, orchestratorInbox, &transport.SubscribeOptions{Label: label, OnOwned: func(parts []int) {
		_ = b.nc.Publish(replicaOwns, fmt.Appendf(nil, "%s %d", label, len(parts)))
	}})
	if err != nil {
		return err
	}
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		// Not with ctx: the event is handled.
		_, err := b.nc.RequestWithContext(context.Background(), replicaHandles, fmt.Appendf(nil, "%s %s %s", label, e.ContextID, text(e)))
		return err
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, b.Close())
}

// replicas are processes that share the orchestrator's inbox of a server in this process.
type replicas struct {
	*testing.T
	node *node
	bus  *Bus
	y    *tally

	mu    sync.Mutex
	owned map[string]int // partitions, by label
	by    map[string]int // events, by label
}

func newReplicas(t *testing.T) *replicas {
	n := newNode(t, ServerOptions{Listen: "127.0.0.1:0"})
	r := &replicas{T: t, node: n, bus: n.dial(t, nil), y: &tally{t: t, next: map[string]int{}}, owned: map[string]int{}, by: map[string]int{}}
	for subject, take := range map[string]func(string){
		replicaOwns: func(said string) {
			label, count, _ := strings.Cut(said, " ")
			r.mu.Lock()
			defer r.mu.Unlock()
			r.owned[label], _ = strconv.Atoi(count)
		},
		replicaHandles: func(said string) {
			f := strings.Fields(said)
			r.mu.Lock()
			r.by[f[0]]++
			r.mu.Unlock()
			r.y.handled(f[1], f[2])
		},
	} {
		if _, err := r.bus.nc.Subscribe(subject, func(m *natsgo.Msg) {
			take(string(m.Data))
			if m.Reply != "" {
				_ = m.Respond(nil)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// replica is one of the processes.
type replica struct {
	cmd  *exec.Cmd
	end  func() // gracefully
	kill func() // with SIGKILL
}

func (r *replicas) start(label string) *replica {
	r.Helper()
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envReplica+"="+r.node.srv.URL(), envLabel+"="+label)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	var once sync.Once
	p := &replica{cmd: cmd}
	p.end = func() {
		once.Do(func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				r.Errorf("replica %s: %v", label, err)
			}
		})
	}
	p.kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = in.Close()
		})
	}
	r.Cleanup(p.kill)
	return p
}

// own waits until these replicas have reported that together they own all partitions, each at least one.
func (r *replicas) own(labels ...string) {
	r.Helper()
	eventually(r.T, fmt.Sprintf("%v own everything", labels), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := 0
		for _, label := range labels {
			if r.owned[label] == 0 {
				return false
			}
			n += r.owned[label]
		}
		return n == transport.Partitions
	})
}

// goesOn waits until this replica has handled further events.
func (r *replicas) goesOn(label string) {
	r.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.by[label]
	}
	mark := count() + 50
	eventually(r.T, label+" handles events", func() bool { return count() > mark })
}

// TestReplicas starts, ends and kills processes while events are published and handled: no event is lost, and every conversation keeps its order.
func TestReplicas(t *testing.T) {
	r := newReplicas(t)
	stop := publishers(t, r.node.srv.URL())
	older := r.start("r0")
	r.own("r0")
	for i := 1; i <= 4; i++ {
		label, last := "r"+strconv.Itoa(i), "r"+strconv.Itoa(i-1)
		newer := r.start(label)
		r.own(last, label)
		r.goesOn(label)
		if i%2 == 0 {
			older.end()
		} else {
			older.kill()
		}
		r.own(label)
		older = newer
	}
	r.goesOn("r4")
	sent := stop()
	eventually(t, "every event was handled", func() bool { return r.y.total() == sent })
	older.end()
	eventually(t, "nobody owns anything", func() bool {
		list, err := r.bus.Owners(t.Context(), orchestratorInbox)
		return err == nil && len(list) == 0
	})
}

// TestOwnersAfterServerRestart restarts the server, which loses the leases: the same two subscribers own all partitions again.
func TestOwnersAfterServerRestart(t *testing.T) {
	n := newNode(t, ServerOptions{})
	ask := n.dial(t, nil)
	for _, label := range []string{"a", "b"} {
		serveTopic(t, n.dial(t, nil), orchestratorInbox, &transport.SubscribeOptions{Label: label}, func(*transport.Event) error { return nil })
	}
	shared := func() bool {
		list, err := ask.Owners(t.Context(), orchestratorInbox)
		return err == nil && len(list) == 2 && len(list[0].Partitions) == transport.Partitions/2 && len(list[1].Partitions) == transport.Partitions/2
	}
	eventually(t, "two own everything", shared)
	n.down()
	n.up(t, nil)
	eventually(t, "two own everything again", shared)
}

// TestOlderConsumer serves the inbox first like an older version, with one consumer for all of it: the events that it has left are delivered in
// order, and none is left behind.
func TestOlderConsumer(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	for _, name := range []string{"cortex-0", "elsewhere"} {
		old, err := b.js.CreateOrUpdateConsumer(t.Context(), inboxStream, jetstream.ConsumerConfig{
			Durable: name, FilterSubject: inboxFilter(orchestratorInbox), AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		contexts := []string{"c1", "c2", "c3", "c4"}
		for i := range 3 {
			for _, c := range contexts {
				publish(t, b, orchestratorInbox, c, strconv.Itoa(i))
			}
		}
		if _, err := old.Next(jetstream.FetchMaxWait(5 * time.Second)); err != nil { // never acknowledged
			t.Fatal(err)
		}
		got := make(chan *transport.Event, 100)
		end := serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
			got <- e
			return nil
		})
		next := map[string]int{}
		for range 3 * len(contexts) {
			e := receive(t, got)
			if want := strconv.Itoa(next[e.ContextID]); text(e) != want {
				t.Errorf("%s: %s came, want %s", e.ContextID, text(e), want)
			}
			next[e.ContextID]++
		}
		eventually(t, "nothing waits", func() bool {
			left, err := b.Waiting(t.Context(), orchestratorInbox)
			return err == nil && left == 0
		})
		end()
		s, err := b.js.Stream(t.Context(), inboxStream)
		if err != nil {
			t.Fatal(err)
		}
		var names, want []string
		for name := range s.ConsumerNames(t.Context()).Name() {
			names = append(names, name)
		}
		for g := range transport.Partitions {
			want = append(want, partitionID{orchestratorInbox, g}.consumer())
			if err := b.js.DeleteConsumer(t.Context(), inboxStream, want[g]); err != nil {
				t.Fatal(err)
			}
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("consumers %q, want %q", names, want)
		}
	}
}

func TestFairShare(t *testing.T) {
	for name, c := range map[string]struct {
		held map[string]int
		want map[string]int
	}{
		"alone":                {map[string]int{"a": 0}, map[string]int{"a": 4}},
		"two":                  {map[string]int{"a": 4, "b": 0}, map[string]int{"a": 2, "b": 2}},
		"three, from two":      {map[string]int{"a": 2, "b": 2, "c": 0}, map[string]int{"a": 2, "b": 1, "c": 1}},
		"who has more keeps":   {map[string]int{"a": 1, "b": 1, "c": 2}, map[string]int{"a": 1, "b": 1, "c": 2}},
		"more than partitions": {map[string]int{"a": 0, "b": 1, "c": 1, "d": 1, "e": 1}, map[string]int{"a": 0, "b": 1, "c": 1, "d": 1, "e": 1}},
		"one of them has two":  {map[string]int{"a": 0, "b": 1, "c": 1, "d": 2}, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}},
	} {
		sum := 0
		for id, want := range c.want {
			got := fairShare(c.held, id)
			if got != want {
				t.Errorf("%s: share of %s = %d, want %d", name, id, got, want)
			}
			sum += got
		}
		if sum != transport.Partitions {
			t.Errorf("%s: shares are %d partitions together, want %d", name, sum, transport.Partitions)
		}
	}
}
