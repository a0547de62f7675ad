package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// apiTimeout bounds every request to the server except publishes.
const apiTimeout = 5 * time.Second

// askTimeout bounds one request to the server about streams and consumers. Such requests are repeated.
const askTimeout = 2 * time.Second

// Options configures Dial. Exactly one of URL and Server is needed.
type Options struct {
	// URL is the server's address, nats://[user:password@]host:port, or several of one cluster separated by commas.
	URL string
	// Locate, if set, returns the server's address. It is called before each attempt to connect, since a restarted server may listen elsewhere than at
	// URL. An error means that the server is not running. Locate must not block.
	Locate func() (Place, error)
	// Server is a server in this process; the connection needs no network.
	Server *Server
	// Name tells connections apart in the server's monitoring; empty is "cortex".
	Name string
	// Replicas is the number of servers of a cluster that store everything. 0 keeps the number that the streams have, and is 1 for new streams.
	Replicas int
	// MaxInbox is how many events, timers included, the inboxes of all tenants may hold before Publish refuses new work (a user's message to the
	// orchestrator) with ErrFull. Above 4 GiB it refuses new work as well. With more than 16 processes that publish at the same time, each further one
	// may exceed the limit by a sixteenth. The inbox of one agent may hold a twentieth of it. 0 is 1,000,000.
	MaxInbox int
	// MaxFile bounds, in bytes, a file that an agent or a person stores through the gateway; 0 is 4 GiB. Only the orchestrator uses it.
	MaxFile int64
	// Creds is a file of credentials, made by package auth or by nsc. Empty means none or, with Server, those of the orchestrator of Tenant from the
	// server's folder. Dial refuses a server that asks for no credentials when some are given, since it is not the server that they are for.
	Creds string
	// Tenant is the tenant whose orchestrator connects to Server; "" is the default tenant.
	Tenant string
	// TLS is for servers with an address such as tls://host:4222; the zero value trusts the system's authorities.
	TLS TLS
	// Logger gets errors that no caller receives; nil discards them.
	Logger *slog.Logger
	// OnConn, if set, is called when the connection is lost, with the reason, and when it is back. While the connection is lost, it is called once
	// more with an error that wraps ErrForbidden when the server refuses the login or is not one that Bus may use. It must not block.
	OnConn func(up bool, err error)
}

// Bus is a connection to a NATS server as a transport. It reconnects for as long as it is open: subscriptions continue by themselves, publishes
// wait for a bounded time. All methods are safe for concurrent use.
type Bus struct {
	nc        *conn
	who       *auth.Identity // nil: unknown, or the server has no permissions
	js        jetstream.JetStream
	log       *slog.Logger
	onConn    func(up bool, err error)
	done      chan struct{} // closed by Close
	gauge     gauge
	maxFile   int64
	backlogs  backlogs
	lives     *lives
	peers     peers
	dialed    atomic.Bool   // Dial has succeeded
	rolled    atomic.Uint64 // see beginNewBlock
	anonymous bool          // connected without credentials

	held     told        // that no work is to be done
	refused  told        // what is refused for want of room
	reached  atomic.Bool // a program has accepted a connection
	refusing atomic.Bool // refuseOldBuilds is running

	server  *Server                                 // in this process; nil: elsewhere
	connect func(what string) (*natsgo.Conn, error) // makes another connection
	opening sync.Mutex                              // serialises connect

	mu       sync.Mutex
	closed   bool
	gateways map[string]*gateway // by tenant
	ordered  []*inbox            // those with a running Serve
	reads    *natsgo.Conn        // nil until Reads
	serving  int                 // calls of Serve; the last one that returns after Close closes the connection
	up       bool
	changed  chan struct{}   // closed and replaced when up changes
	conn     context.Context // of no caller; it ends when the connection is lost
	drop     context.CancelFunc
	askTimer *time.Timer // for askPeers; nil before there is a connection
	checks   sync.WaitGroup
}

var (
	_ transport.Transport    = (*Bus)(nil)
	_ transport.DeadLetters  = (*Bus)(nil)
	_ transport.Health       = (*Bus)(nil)
	_ transport.InboxDepth   = (*Bus)(nil)
	_ transport.InboxAge     = (*Bus)(nil)
	_ transport.InboxBacklog = (*Bus)(nil)
)

// Dial connects to a server and makes the streams that are missing. Errors wrap ErrUnavailable when no server answers or its certificate cannot be
// verified, ErrForbidden when the server rejects the credentials or asks for none, and ErrIncompatible when the server is too old, has no
// JetStream, or keeps streams with another configuration. When ctx ends, Dial returns ctx's error.
//
// With credentials of an agent or a person, everything but listening goes through a running orchestrator. Dial does not wait for one: calls that
// need it fail with ErrUnavailable while none runs.
func Dial(ctx context.Context, o *Options) (*Bus, error) {
	if o == nil || (o.URL == "") == (o.Server == nil) {
		return nil, errors.New("dial NATS: either a URL or a server is needed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &Bus{server: o.Server, log: o.Logger, onConn: o.OnConn, maxFile: o.MaxFile, done: make(chan struct{}), changed: make(chan struct{}), up: true}
	b.lives = newLives(mostLive, b.warnLost, b.warnUnread)
	b.gateways = map[string]*gateway{}
	b.peers = peers{heard: make(chan struct{}, 1), known: map[string]peer{}, reported: map[string]bool{}}
	b.gauge.max = cmp.Or(max(o.MaxInbox, 0), defaultMaxInbox)
	b.backlogs.most = max(b.gauge.max/agentPart, 1)
	b.conn, b.drop = context.WithCancel(context.Background())
	b.log = cmp.Or(b.log, slog.New(slog.DiscardHandler))
	how, who, err := login(ctx, o)
	if err != nil {
		return nil, err
	}
	b.who, b.nc = who, &conn{}
	b.anonymous = who == nil && !strings.Contains(o.URL, "@")
	if who.Limited() {
		b.nc.prefix = auth.Gateway(who)
	}
	how = append(how, b.expectQuestion)
	dialing, done := context.WithCancel(ctx)
	defer done()
	nc, err := connectFirst(ctx, o, append(b.connOptions(dialing, o), how...))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, dialError(o, err, b.reached.Load())
	}
	b.nc.connected(nc, who.Limited())
	url, name := o.URL, cmp.Or(o.Name, "cortex")
	b.connect = func(what string) (*natsgo.Conn, error) {
		return natsgo.Connect(url, append(b.sideOptions(name+" ("+what+")"), how...)...)
	}
	b.mu.Lock()
	b.askTimer = time.AfterFunc(peersEvery, b.askPeers)
	b.mu.Unlock()
	expecting, expected := b.nc.expect(ctx, func(subject string) bool { return subject != peersSubject })
	defer expected()
	asking, cancel := context.WithCancel(expecting)
	defer cancel()
	defer context.AfterFunc(b.connection(), cancel)() // a lost connection brings no answer
	b.js, err = jetstream.NewWithAPIPrefix(b.nc.Conn, b.API(), jetstream.WithDefaultTimeout(apiTimeout))
	if err == nil && !who.Limited() {
		err = b.checkPeers(asking)
		if err == nil {
			err = ensureStreams(asking, b.js, o.Replicas)
		}
		if err == nil {
			err = b.repartition(asking)
		}
		if err == nil {
			err = b.keep(ctx)
		}
	}
	err = cause(expecting, err)
	if err != nil && asking.Err() != nil && ctx.Err() == nil && !errors.Is(err, transport.ErrForbidden) {
		err = fmt.Errorf("%w: the connection was lost", transport.ErrUnavailable)
	}
	if err != nil {
		_ = b.Close() // and no handler of the connection runs any more
		return nil, fmt.Errorf("NATS server %s: %w", redact(o.URL), err)
	}
	b.dialed.Store(true)
	return b, nil
}

func (b *Bus) connOptions(ctx context.Context, o *Options) []natsgo.Option {
	timeout := 2 * time.Second
	if end, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, min(timeout, time.Until(end)))
	}
	opts := []natsgo.Option{
		natsgo.Name(cmp.Or(o.Name, "cortex")),
		natsgo.Timeout(timeout),
		natsgo.MaxReconnects(-1),
		natsgo.IgnoreAuthErrorAbort(), // while the server's users are being changed, it refuses them
		natsgo.CustomReconnectDelay(reconnectDelay),
		// Messages are not buffered while the connection is down: a publish that was reported as failed must not be sent later, and an old
		// acknowledgement means nothing to a restarted server.
		natsgo.ReconnectBufSize(-1),
		natsgo.PingInterval(20 * time.Second), // a silent server is noticed within a minute
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { b.setUp(false, err) }),
		natsgo.ReconnectHandler(func(nc *natsgo.Conn) {
			b.nc.failed.Store(nil)
			b.setUp(true, nil)
			b.logOldServer(nc.ConnectedServerName(), checkConnected(nc))
			b.askPeersIn(0)
		}),
		natsgo.DiscoveredServersHandler(func(*natsgo.Conn) { b.askPeersIn(peersSoon) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, s *natsgo.Subscription, err error) {
			if isImpostor(err) { // expectQuestion has logged it
				return
			}
			if refusesLogin(err) {
				if b.nc.failed.Swap(&err) == nil && b.dialed.Load() { // log once, not at each attempt; Dial returns its own error
					b.log.Warn("nats server does not let this in", "err", b.loginError(err))
					b.reportRefused()
				}
				return
			}
			if subject, _ := refusal(err); subject == peersSubject {
				b.stopAskingPeers()
			}
			if b.nc.refused(err) {
				b.log.Warn("nats server refuses", "err", oneLine(err.Error(), 300))
				return
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Warn("nats connection", "err", err, "subject", subject)
		}),
	}
	if o.Server != nil {
		opts = append(opts, natsgo.WriteBufferSize(1<<10)) // to write is to copy to memory: several events need not wait for the goroutine that flushes
	} else {
		opts = append(opts, natsgo.SetCustomDialer(b.dialer(ctx, o.Locate, timeout)), natsgo.SkipHostLookup()) // the dialer looks hosts up
	}
	return opts
}

// sideOptions returns the options of a connection beside the bus's main one. It logs its errors and has no other handlers: the main connection
// alone reports that the server is lost or back.
func (b *Bus) sideOptions(name string) []natsgo.Option {
	return []natsgo.Option{
		natsgo.Name(name), natsgo.Timeout(2 * time.Second), natsgo.MaxReconnects(-1), natsgo.IgnoreAuthErrorAbort(),
		natsgo.CustomReconnectDelay(reconnectDelay), natsgo.ReconnectBufSize(-1), natsgo.PingInterval(20 * time.Second),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			b.log.Warn("nats connection beside the main one", "name", name, "err", oneLine(err.Error(), 300))
		}),
	}
}

// reconnectDelay returns the pause after all servers were tried for the nth time, with jitter.
func reconnectDelay(n int) time.Duration {
	d := min(50*time.Millisecond<<min(n, 7), 4*time.Second)
	return d/2 + rand.N(d/2)
}

// redact returns addr without passwords and tokens.
func redact(addr string) string {
	if addr == "" {
		return "in this process"
	}
	parts := strings.Split(addr, ",")
	for i, p := range parts {
		if u, err := url.Parse(strings.TrimSpace(p)); err != nil {
			parts[i] = "(unreadable address)"
		} else if u.User != nil {
			if _, ok := u.User.Password(); !ok {
				u.User = url.UserPassword("token", "")
			}
			parts[i] = u.Redacted()
		}
	}
	return strings.Join(parts, ",")
}

// Conn returns the connection, for other packages that use the same server. Close closes it.
func (b *Bus) Conn() *natsgo.Conn { return b.nc.Conn }

// Reads returns a second connection to the same server, for long reads: until the server has served one, it handles nothing else on that
// connection. Close closes it.
func (b *Bus) Reads() (*natsgo.Conn, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	reads := b.reads
	b.mu.Unlock()
	if reads != nil {
		return reads, nil
	}
	reads, err := b.connect("reads")
	if err != nil {
		return nil, translate(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		reads.Close()
		return nil, transport.ErrClosed
	}
	b.reads = reads
	return reads, nil
}

// API returns the prefix of requests to JetStream's API, with its final dot. Behind a gateway it includes the gateway's prefix.
func (b *Bus) API() string { return b.nc.prefix + jsAPI }

// Identity returns the identity of the credentials; nil when it is unknown or the server needs none.
func (b *Bus) Identity() *auth.Identity { return b.who }

// Sender implements transport.Sender.
func (b *Bus) Sender() (tenant, from string) {
	if b.who == nil {
		return "", ""
	}
	return b.who.Tenant, b.who.ID
}

// Close implements transport.Transport. The connection itself is closed when the last Serve has returned its events.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.done)
	b.drop()
	b.nc.lost()
	if b.askTimer != nil {
		b.askTimer.Stop()
	}
	if b.serving == 0 {
		b.hangUp()
	}
	gateways := slices.Collect(maps.Values(b.gateways))
	b.mu.Unlock()
	for _, g := range gateways {
		g.close()
	}
	b.checks.Wait()
	return nil
}

// enter counts a call of Serve; it returns false when the bus is closed.
func (b *Bus) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.serving++
	return true
}

// leave ends what enter began. The last call after Close closes the connections.
func (b *Bus) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving--; b.closed && b.serving == 0 {
		b.hangUp()
	}
}

// hangUp closes the bus's connections except those of gateways. The caller holds mu.
func (b *Bus) hangUp() {
	b.nc.Close()
	if b.reads != nil {
		b.reads.Close()
	}
}

func (b *Bus) isClosed() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

func (b *Bus) setUp(up bool, err error) {
	b.mu.Lock()
	if b.closed || b.up == up {
		b.mu.Unlock()
		return
	}
	b.up = up
	close(b.changed)
	b.changed = make(chan struct{})
	b.drop()
	if up {
		b.conn, b.drop = context.WithCancel(context.Background())
	} else {
		b.nc.lost()
	}
	b.mu.Unlock()
	if !b.dialed.Load() { // Dial returns the error
		return
	}
	if up {
		b.log.Info("nats server is back")
	} else {
		b.log.Warn("nats server lost", "err", err)
	}
	if b.onConn != nil {
		b.onConn(up, err)
	}
}

// reportRefused reports through OnConn that the server is running but refuses the connection.
func (b *Bus) reportRefused() {
	if b.onConn != nil && !b.isClosed() {
		b.onConn(false, b.refusedError(*b.nc.failed.Load()))
	}
}

// connection returns a context that ends when the connection is lost.
func (b *Bus) connection() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn
}

// asking returns a context for a request to the server. It ends when the answer is overdue, and when the connection is lost, since no answer comes
// then.
func (b *Bus) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // the server that was asked may have been killed, and another one elected since
	stop := context.AfterFunc(b.connection(), cancel)
	return ctx, func() { stop(); cancel() }
}

// online waits until the connection is up and returns a channel that is closed when it is lost.
func (b *Bus) online(ctx context.Context) (lost <-chan struct{}, err error) {
	for {
		b.mu.Lock()
		up, changed := b.up, b.changed
		b.mu.Unlock()
		if up {
			return changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-b.done:
			return nil, transport.ErrClosed
		}
	}
}
