package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport"
)

// referenceConfig is the configuration that users get.
const referenceConfig = "../../deploy/nats/nats.conf"

// cluster is three servers by name, each in its own process.
type cluster struct {
	members  map[string]*process
	monitors map[string]string // their addresses
	urls     string
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	names := []string{"nats-a", "nats-b", "nats-c"}
	addresses := freeAddresses(t, 3*len(names))
	clients, peers, monitors := addresses[:3], addresses[3:6], addresses[6:]
	c := &cluster{members: map[string]*process{}, monitors: map[string]string{}, urls: "nats://" + strings.Join(clients, ",nats://")}
	for i, name := range names {
		dir := t.TempDir()
		c.monitors[name] = monitors[i]
		c.members[name] = &process{dir: dir, env: []string{
			envConfig + "=" + referenceConfig, "NATS_NAME=" + name, "NATS_LISTEN=" + clients[i], "NATS_CLUSTER_LISTEN=" + peers[i],
			"NATS_ROUTES=[nats://" + strings.Join(peers, ", nats://") + "]", "NATS_MONITOR=" + monitors[i], "NATS_STORE=" + dir,
		}}
	}
	for _, p := range c.members {
		p.start(t)
	}
	return c
}

// freeAddresses returns n local addresses on which nothing listens. On Linux they are of a host of this process: while a server is away, a server of another
// test could get its port, and take what is meant for it.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	host := "127.0.0.1"
	if pid := os.Getpid(); runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+pid>>14&0x7f, pid>>7&0x7f, 1+pid&0x7f)
	}
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// caughtUp makes the check that an operator makes before stopping the next server: whether this one has all data of the others.
func (c *cluster) caughtUp(t *testing.T, name string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.monitors[name]+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (c *cluster) dial(t *testing.T) *Bus {
	t.Helper()
	b, err := Dial(t.Context(), &Options{URL: c.urls, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (c *cluster) store(t *testing.T, b *Bus) *jetstore.Store {
	t.Helper()
	s, err := jetstore.Open(t.Context(), b.Conn(), &jetstore.Options{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// placement returns the servers that store a stream.
func placement(ctx context.Context, b *Bus, stream string) (leader string, followers []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return "", nil, err
	}
	info := s.CachedInfo()
	if info.Cluster == nil {
		return "", nil, errors.New("it is in no cluster")
	}
	for _, p := range info.Cluster.Replicas {
		if p.Current && !p.Offline {
			followers = append(followers, p.Name)
		}
	}
	return info.Cluster.Leader, followers, nil
}

// leaderOf returns the server that leads all of these streams. It asks the other leaders to step down for the first stream's leader.
func leaderOf(ctx context.Context, b *Bus, streams ...string) (first string, err error) {
	for _, stream := range streams {
		leader, followers, err := placement(ctx, b, stream)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = leader
		}
		if len(followers) != 2 {
			return "", errors.New("a server is behind")
		}
		if leader != first {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = b.nc.RequestWithContext(ctx, jsAPI+"STREAM.LEADER.STEPDOWN."+stream, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, first))
			cancel()
			return "", errors.Join(err, errors.New("another one leads"))
		}
	}
	return first, nil
}

const (
	conversations = 8   // busy ones, in all partitions of the inbox
	ahead         = 256 // events that users may publish ahead of the scribe
)

// scribe appends each event once to the log of its conversation, as the orchestrator does.
type scribe struct {
	store *jetstore.Store
	room  chan struct{} // gets one value for each event

	mu      sync.Mutex
	known   map[string]*page
	written map[string]int // by conversation
}

// page is what a scribe knows of a log.
type page struct {
	seen map[string]bool
	last conversation.Version
}

func (s *scribe) handle(ctx context.Context, e *transport.Event) error {
	s.mu.Lock()
	p := s.known[e.ContextID]
	delete(s.known, e.ContextID) // until it is loaded again
	s.mu.Unlock()
	if p == nil {
		p = &page{seen: map[string]bool{}}
		for entry, err := range s.store.Load(ctx, "", e.ContextID, 0) {
			if err != nil {
				return err
			}
			p.seen[entry.Cause.ID], p.last = true, entry.Version
		}
	}
	known := p.seen[e.ID]
	if !known {
		v, err := s.store.Append(ctx, "", e.ContextID, p.last, &conversation.Entry{Seq: uint64(len(p.seen) + 1), Cause: e})
		if err != nil {
			return err
		}
		p.seen[e.ID], p.last = true, v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[e.ContextID] = p
	if known {
		return nil
	}
	select {
	case s.room <- struct{}{}:
	default:
	}
	s.written[e.ContextID]++
	return nil
}

// counts returns how many events of each conversation were written.
func (s *scribe) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.written)
}

// consumerLeader returns the leader of one of the orchestrator's consumers, once that is not the server that b is connected to.
func consumerLeader(t *testing.T, ask, b *Bus) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := ask.js.Consumer(ctx, inboxStream, partitionID{orchestratorInbox, 0}.consumer())
	if err != nil {
		return "", err
	}
	cluster := c.CachedInfo().Cluster
	if cluster == nil {
		return "", errors.New("there is none now")
	}
	for _, p := range cluster.Replicas {
		if !p.Current || p.Offline {
			return "", errors.New("a server is behind")
		}
	}
	if cluster.Leader != b.nc.ConnectedServerName() {
		return cluster.Leader, nil
	}
	_, err = ask.nc.RequestWithContext(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+inboxStream+"."+partitionID{orchestratorInbox, 0}.consumer(), nil)
	return "", errors.Join(err, errors.New("it has the connection"))
}

// TestCluster stores everything on three servers and kills them under load: one, then another after the first is back, then all. Every conversation
// continues, and each accepted event is in its log once and in order.
func TestCluster(t *testing.T) {
	c := startCluster(t)
	engine := c.dial(t)
	sc := &scribe{store: c.store(t, engine), known: map[string]*page{}, written: map[string]int{}, room: make(chan struct{}, ahead)}
	for range ahead {
		sc.room <- struct{}{}
	}
	check := c.dial(t)

	all := []string{inboxStream, agentsStream, deadStream, leaseStream, jetstore.Stream, "KV_" + jetstore.Bucket, "KV_" + jetstore.SpendLog, "KV_" + jetstore.Notes, jetstore.Keys}
	whole := func() bool {
		for _, stream := range all {
			if leader, followers, err := placement(t.Context(), check, stream); err != nil || leader == "" || len(followers) != 2 {
				return false
			}
		}
		return true
	}
	eventually(t, "every stream is on three servers", whole)

	sub, err := engine.Subscribe(t.Context(), orchestratorInbox, nil)
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = sub.Serve(serving, sc.handle)
	}()
	defer func() { end(); <-served }()
	stop := users(t, c.dial(t), sc.room)

	goesOn := func(what string) {
		t.Helper()
		begin, before := time.Now(), sc.counts()
		eventually(t, "after "+what+" every conversation goes on", func() bool {
			now := sc.counts()
			for c := range conversations {
				if now[strconv.Itoa(c)] < before[strconv.Itoa(c)]+20 {
					return false
				}
			}
			return true
		})
		t.Logf("%s: every conversation went on after %v", what, time.Since(begin).Round(time.Millisecond))
	}
	goesOn("the start")
	for _, victim := range []struct {
		what string
		find func() (name string, err error)
	}{
		{"the leader of events, logs and leases", func() (string, error) { return leaderOf(t.Context(), check, inboxStream, jetstore.Stream, leaseStream) }},
		{"the leader of the consumer, with the connection left", func() (string, error) { return consumerLeader(t, check, engine) }},
	} {
		var name string
		eventually(t, victim.what+" is found", func() (ok bool) {
			var err error
			name, err = victim.find()
			return err == nil && name != ""
		})
		c.members[name].kill()
		goesOn("the end of " + victim.what)
		c.members[name].start(t)
		// An operator waits like this before stopping the next server.
		eventually(t, name+" has caught up", func() bool { return c.caughtUp(t, name) })
	}
	// Nothing works without two of the servers; everything works when one of them is back.
	c.members["nats-b"].kill()
	c.members["nats-c"].kill()
	c.members["nats-b"].start(t)
	goesOn("the end of two, with one of them back")
	c.members["nats-a"].kill()
	c.members["nats-b"].kill()
	for _, p := range c.members {
		p.start(t)
	}
	goesOn("the end of all")

	sent := stop()
	eventually(t, "everything is handled", func() bool {
		waiting, err := check.Waiting(t.Context(), orchestratorInbox)
		return err == nil && waiting == 0
	})
	eventually(t, "every stream is on three servers again", whole)
	logged := 0
	for i := range conversations {
		n := 0
		var wrong []string // from the first event that is out of order
		for e, err := range sc.store.Load(t.Context(), "", strconv.Itoa(i), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if text(e.Cause) != strconv.Itoa(n) || len(wrong) > 0 {
				wrong = append(wrong, text(e.Cause))
			}
			n++
		}
		if len(wrong) > 0 {
			t.Errorf("conversation %d: behind %d events come %v", i, n-len(wrong), wrong[:min(len(wrong), 20)])
		}
		logged += n
	}
	if logged != sent {
		t.Errorf("%d events are in the logs, %d were accepted", logged, sent)
	}
}

// users publish in all conversations at once, a little ahead of the scribe, until the returned function is called, which returns how many events
// were accepted.
func users(t *testing.T, b *Bus, room <-chan struct{}) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var accepted, unavailable atomic.Int64
	var longest atomic.Int64
	for c := range conversations {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-room:
				case <-ctx.Done():
					return
				}
				begin := time.Now()
				e := message(orchestratorInbox, strconv.Itoa(c), strconv.Itoa(i))
				err := b.Publish(t.Context(), orchestratorInbox, e)
				for errors.Is(err, transport.ErrUnavailable) {
					unavailable.Add(1)
					err = b.Publish(t.Context(), orchestratorInbox, e)
				}
				if err != nil {
					t.Errorf("Publish = %v", err)
					return
				}
				accepted.Add(1)
				for d := int64(time.Since(begin)); ; {
					if old := longest.Load(); d <= old || longest.CompareAndSwap(old, d) {
						break
					}
				}
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		t.Logf("%d events were accepted, %d times the server was said to be away, the longest publish took %v",
			accepted.Load(), unavailable.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
		return int(accepted.Load())
	}
}

// TestCardsOnACluster reads the cards repeatedly, each time over a new connection. The server that gets the request is often not the one that has
// the consumer, and has just learned of it. No reader may have to begin again.
func TestCardsOnACluster(t *testing.T) {
	c := startCluster(t)
	card := &transport.Card{AgentID: "a", Instance: "1", TTL: time.Hour, Card: &a2a.AgentCard{Name: "a"}}
	if err := c.dial(t).Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "id", From: "a", Payload: card}); err != nil {
		t.Fatal(err)
	}
	var again atomic.Int64
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		if strings.Contains(string(p), "cards are read again") {
			again.Add(1)
		}
		return len(p), nil
	}), nil))
	for range 200 {
		b, err := Dial(t.Context(), &Options{URL: c.urls, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := b.Subscribe(t.Context(), transport.Cards(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		seen := 0
		_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			if _, ok := e.Payload.(*transport.Synced); ok {
				end()
			} else {
				seen++
			}
			return nil
		})
		end()
		if seen != 1 {
			t.Fatalf("%d cards came, want one", seen)
		}
		_ = b.Close()
	}
	if n := again.Load(); n > 0 {
		t.Errorf("%d readers had to begin anew", n)
	}
}

// TestReplicasGrow stores on one server of a cluster first, then on three.
func TestReplicasGrow(t *testing.T) {
	c := startCluster(t)
	one, err := Dial(t.Context(), &Options{URL: c.urls})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	if _, err := jetstore.Open(t.Context(), one.Conn(), nil); err != nil {
		t.Fatal(err)
	}
	publish(t, one, orchestratorInbox, "c", "kept")
	three := c.dial(t)
	c.store(t, three)
	var names []string
	for s := range three.js.ListStreams(t.Context()).Info() {
		names = append(names, s.Config.Name)
		eventually(t, s.Config.Name+" is on three servers", func() bool {
			leader, followers, err := placement(t.Context(), three, s.Config.Name)
			return err == nil && leader != "" && len(followers) == 2
		})
	}
	if len(names) < 8 {
		t.Errorf("streams are %v, want those of the bus and the store", names)
	}
	got := make(chan *transport.Event, 1)
	serveTopic(t, three, orchestratorInbox, nil, func(e *transport.Event) error { got <- e; return nil })
	if e := receive(t, got); text(e) != "kept" {
		t.Errorf("%q came, want what was stored on one server", text(e))
	}
	// Without a number of replicas, Dial keeps the present one.
	again, err := Dial(t.Context(), &Options{URL: c.urls})
	if err != nil {
		t.Fatalf("Dial without replicas = %v", err)
	}
	defer func() { _ = again.Close() }()
	if err := ensureStreamsOnce(t.Context(), three.js, 5); !errors.Is(err, transport.ErrUnavailable) || !strings.Contains(err.Error(), "--replicas 5") {
		t.Errorf("ensureStreamsOnce for five = %v, want ErrUnavailable that names --replicas 5", err)
	}
}

// TestReplicasOnOneServer asks a single server for three replicas.
func TestReplicasOnOneServer(t *testing.T) {
	n := newNode(t, ServerOptions{})
	_, err := Dial(t.Context(), &Options{Server: n.srv, Replicas: 3})
	if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "--replicas 3") {
		t.Errorf("Dial = %v, want ErrIncompatible that names --replicas 3", err)
	}
	n.dial(t, nil) // the existing streams keep one replica, and growing them is refused as well
	_, err = Dial(t.Context(), &Options{Server: n.srv, Replicas: 3})
	if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "--replicas 3") {
		t.Errorf("Dial = %v, want ErrIncompatible that names --replicas 3", err)
	}
}
