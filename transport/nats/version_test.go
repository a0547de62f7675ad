package nats

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"2.9.25": true, "2.10.29": true, "2.11.9": true, "2.12.1": true, "2.13.0": true, "2.14.0": false, "2.14.0-RC.1": false, "2.15.2": false,
		"2.100.0": false, "3.0.0": false, "1.99.0": true, "v2.12.1": true, "": false, "dev": false, "2": false, "2.x.1": false,
	} {
		if got := older(version, 2, 14); got != want {
			t.Errorf("older(%q, 2, 14) = %v, want %v", version, got, want)
		}
	}
}

// TestDialMixedCluster simulates a cluster whose connected server is new enough and whose leader is not: the error says which version is needed,
// and no stream was made.
func TestDialMixedCluster(t *testing.T) {
	for _, c := range []struct {
		name     string
		level    int
		metadata map[string]string // of every stream, from its leader
		want     string
	}{
		{"2.10 leads the cluster", 0, nil, "API level 0"},
		{"2.11 leads the cluster", 1, nil, "API level 1"},
		{"2.12 leads the cluster", 2, nil, "API level 2"},
		{"2.12 leads a stream", 5, map[string]string{"_nats.ver": "2.12.1", "_nats.level": "2"}, "stream CORTEX_INBOX: the server that leads it is nats-server 2.12.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
			if err != nil {
				t.Fatal(err)
			}
			ns.Start()
			srv := &Server{ns: ns}
			t.Cleanup(srv.Shutdown)
			nc, err := natsgo.Connect("", natsgo.InProcessServer(srv))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			made := make(chan string, 10)
			for subject, answer := range map[string]func(*natsgo.Msg) any{
				"$JS.API.INFO": func(*natsgo.Msg) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: c.level}} },
				"$JS.API.STREAM.INFO.*": func(m *natsgo.Msg) any {
					config := streams(1)[0]
					config.Metadata = c.metadata
					return jetstream.StreamInfo{Config: config}
				},
				"$JS.API.STREAM.CREATE.*": func(m *natsgo.Msg) any { made <- m.Subject; return jetstream.StreamInfo{} },
				"$JS.API.STREAM.UPDATE.*": func(m *natsgo.Msg) any { made <- m.Subject; return jetstream.StreamInfo{} },
			} {
				_, err := nc.Subscribe(subject, func(m *natsgo.Msg) {
					body, err := json.Marshal(answer(m))
					if err != nil {
						t.Error(err)
					}
					_ = m.Respond(body)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			_, err = Dial(t.Context(), &Options{Server: srv})
			if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), needed) {
				t.Errorf("Dial = %v, want ErrIncompatible with %q and %q", err, c.want, needed)
			}
			if len(made) > 0 {
				t.Errorf("%s was asked of a server that is too old", <-made)
			}
		})
	}
}

// TestDialOldVersion simulates a server that reports an old version when a client connects.
func TestDialOldVersion(t *testing.T) {
	for _, version := range []string{"2.9.25", "2.10.29", "2.11.9", "2.12.1"} {
		wantRefusal(t, version, checkVersion("a", "nats://a:4222", version), transport.ErrIncompatible, "server a (nats://a:4222) is nats-server "+version+"; "+needed)
	}
	if err := checkVersion("a", "nats://a:4222", "2.15.2"); err != nil {
		t.Errorf("checkVersion of 2.15.2 = %v", err)
	}
}

// clustered starts a single server that claims to be in a cluster.
func clustered(t *testing.T, o server.Options) *Server {
	t.Helper()
	o.NoSigs, o.NoLog, o.Cluster.Name = true, true, "cluster"
	ns, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	srv := &Server{ns: ns}
	t.Cleanup(srv.Shutdown)
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return srv
}

// connect returns a connection for simulating another server.
func connect(t *testing.T, srv *Server, opts ...natsgo.Option) *natsgo.Conn {
	t.Helper()
	nc, err := natsgo.Connect("", append(opts, natsgo.InProcessServer(srv))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// respond makes nc answer requests on subject; no answer when body returns nil.
func respond(t *testing.T, nc *natsgo.Conn, subject string, body func(m *natsgo.Msg) any) {
	t.Helper()
	_, err := nc.Subscribe(subject, func(m *natsgo.Msg) {
		v := body(m)
		if v == nil {
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		_ = m.Respond(b)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// playPeer simulates another server of the cluster. The test can change its version; it does not answer while that is empty.
func playPeer(t *testing.T, nc *natsgo.Conn, name, cluster, version string) *atomic.Value {
	t.Helper()
	var now atomic.Value
	now.Store(version)
	respond(t, nc, peersSubject, func(*natsgo.Msg) any {
		if now.Load() == "" {
			return nil
		}
		return map[string]any{"server": peer{Name: name, Host: "10.0.0.2", Cluster: cluster, Version: now.Load().(string)}}
	})
	return &now
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestDialClusterWithOldPeer dials a cluster whose connected server, the leader of everything, is new enough, and another server is not. Dial
// refuses it before it makes anything, with an error of one line, and logs nothing.
func TestDialClusterWithOldPeer(t *testing.T) {
	for _, c := range []struct {
		name, cluster, version string
		refused                bool
	}{
		{"2.9", "cluster", "2.9.25", true},
		{"2.10", "cluster", "2.10.29", true},
		{"2.12", "cluster", "2.12.3", true},
		{"2.14", "cluster", "2.14.0", false},
		{"another cluster", "other", "2.12.3", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := clustered(t, server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()})
			nc := connect(t, srv)
			playPeer(t, nc, "b", c.cluster, c.version)
			var log lines
			b, err := Dial(t.Context(), &Options{Server: srv, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if !c.refused {
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Healthy(t.Context()); err != nil {
					t.Errorf("Healthy = %v", err)
				}
				_ = b.Close()
				return
			}
			if err == nil {
				_ = b.Close()
			}
			wantRefusal(t, "Dial", err, transport.ErrIncompatible, "server b (10.0.0.2) is nats-server "+c.version+"; "+needed)
			eventually(t, "the connection is closed", func() bool { return srv.ns.NumClients() == 1 })
			if got := log.String(); got != "" {
				t.Errorf("the log says as well:\n%s", got)
			}
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			for name := range js.StreamNames(t.Context()).Name() {
				t.Errorf("stream %s was made", name)
			}
		})
	}
}

// TestOldPeerComesLater adds an old server to the cluster, twice, and removes it again. Meanwhile Healthy returns an error, the log mentions it
// once, and everything else works.
func TestOldPeerComesLater(t *testing.T) {
	srv := clustered(t, server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()})
	version := playPeer(t, connect(t, srv), "b", "cluster", "2.15.2")
	var log lines
	b, err := Dial(t.Context(), &Options{Server: srv, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	const told = "nats server too old"
	for i, way := range []struct {
		name string
		look func() // asks the servers
	}{
		{"discovered", func() { b.nc.DiscoveredServersHandler()(b.nc.Conn) }},
		{"connected again", func() {
			if err := b.nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
		}},
		{"asked now and then", b.askPeers},
	} {
		b.askPeersIn(time.Hour) // by itself
		version.Store("2.12.3")
		way.look()
		eventually(t, "the log tells when "+way.name, func() bool { return strings.Count(log.String(), told) == i+1 })
		wantRefusal(t, "Healthy", b.Healthy(t.Context()), transport.ErrIncompatible, "server b (10.0.0.2) is nats-server 2.12.3; "+needed)
		b.askPeers()
		topic := transport.Inbox("", "worker")
		publish(t, b, topic, "c1", "hello")
		if got := strings.Count(log.String(), told); got != i+1 {
			t.Errorf("the log says %d times that the server is too old, want %d:\n%s", got, i+1, log.String())
		}
		version.Store("2.15.2")
		b.askPeers()
		eventually(t, "healthy after the upgrade", func() bool { return b.Healthy(t.Context()) == nil })
	}
	b.askTimer.Stop()
	b.askPeers()
	if !b.askTimer.Stop() {
		t.Error("the servers are not asked again by themselves")
	}
	version.Store("2.12.3")
	b.askPeers()
	eventually(t, "not healthy", func() bool { return errors.Is(b.Healthy(t.Context()), transport.ErrIncompatible) })
	version.Store("") // it is gone
	for range peersGone + 1 {
		b.askPeers()
	}
	eventually(t, "healthy without it", func() bool { return b.Healthy(t.Context()) == nil })
}

// TestPeersAreAskedSeldom checks that a server without a cluster is not asked for others, and that frequent health checks do not ask each time.
func TestPeersAreAskedSeldom(t *testing.T) {
	for _, c := range []struct {
		name string
		srv  *Server
		want int64
	}{
		{"alone", newNode(t, ServerOptions{}).srv, 0},
		{"in a cluster", clustered(t, server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()}), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc := connect(t, c.srv)
			var asked atomic.Int64
			respond(t, nc, peersSubject, func(*natsgo.Msg) any { asked.Add(1); return nil })
			b, err := Dial(t.Context(), &Options{Server: c.srv})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			for range 20 {
				if err := b.Healthy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil { // earlier messages are delivered
				t.Fatal(err)
			}
			if got := asked.Load(); got != c.want {
				t.Errorf("%d questions, want %d", got, c.want)
			}
		})
	}
}

// TestPeersMayNotBeAsked uses minimal credentials: the servers are not asked again and again.
func TestPeersMayNotBeAsked(t *testing.T) {
	may := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$SYS.>"}}}
	srv := clustered(t, server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{Username: "u", Password: "p", Permissions: may}},
	})
	var log lines
	b, err := Dial(t.Context(), &Options{URL: strings.Replace(srv.ns.ClientURL(), "://", "://u:p@", 1), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	const refused = "nats server refuses"
	eventually(t, "the refusal is in the log", func() bool { return strings.Contains(log.String(), refused) })
	b.askPeers()
	if err := b.Healthy(t.Context()); err != nil { // a second refusal would have come by then
		t.Errorf("Healthy = %v", err)
	}
	if got := strings.Count(log.String(), refused); got != 1 {
		t.Errorf("%d refusals, want one:\n%s", got, log.String())
	}
}

// TestLostConnectionIsTold checks when OnConn reports a lost connection: not while Dial returns the error itself, nor after Close.
func TestLostConnectionIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		dialed bool
		want   int
	}{{"while Dial goes on", false, 0}, {"later", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			var log lines
			told := 0
			b := &Bus{
				nc:  &conn{},
				log: slog.New(slog.NewTextHandler(&log, nil)), onConn: func(bool, error) { told++ }, up: true, changed: make(chan struct{}), drop: func() {},
			}
			b.dialed.Store(c.dialed)
			b.setUp(false, natsgo.ErrStaleConnection)
			if got := strings.Count(log.String(), "nats server lost"); got != c.want || told != c.want {
				t.Errorf("%d lines and %d calls, want %d", got, told, c.want)
			}
		})
	}
}
