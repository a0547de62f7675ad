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

// apiTimeout bounds every request to the server but a publish.
const apiTimeout = 5 * time.Second

// askTimeout bounds one question to the server about streams and consumers, which is asked again.
const askTimeout = 2 * time.Second

// Options configures Dial. Exactly one of URL and Server is needed.
type Options struct {
	// URL is the server's address, nats://[user:password@]host:port, or several of one cluster separated by commas.
	URL string
	// Locate, if set, is asked before each attempt to connect where the server is: it may have come back elsewhere than at URL. An
	// error says that it is not there. It must not block.
	Locate func() (Place, error)
	// Server is a server in this process; the connection needs no network.
	Server *Server
	// Name tells connections apart in the server's monitoring; empty is "cortex".
	Name string
	// Replicas is on how many servers of a cluster everything is stored. 0 is what the streams have, 1 when they are new.
	Replicas int
	// MaxInbox is how many events the inboxes of all tenants may hold, timers included, before Publish refuses new work with
	// ErrFull: a user's words to the orchestrator. It does so as well above 4 GiB. When more than 16 processes publish at the same
	// time, each of the others may go over it by a sixteenth. The inbox of one agent takes a twentieth part of it. 0 is 1,000,000.
	MaxInbox int
	// MaxFile bounds a file, in bytes, that an agent or person stores who has to show who it is; 0 is 4 GiB. It is for the orchestrator.
	MaxFile int64
	// Creds is a file of credentials, made by package auth or by nsc; empty: none, or with Server those of the orchestrator of
	// Tenant, from the server's folder. A server that does not ask for any is not the one that they are for, and is refused.
	Creds string
	// Tenant is whose orchestrator connects to Server; "" is the default tenant.
	Tenant string
	// TLS is for servers that speak it, with an address such as tls://host:4222; the zero value trusts the system's authorities.
	TLS TLS
	// Logger gets what goes wrong without a caller to tell; nil discards it.
	Logger *slog.Logger
	// OnConn, if set, is called when the connection is lost, with the reason, and when it is back; and once more while it is lost, with an
	// error that wraps ErrForbidden, when the server that is there does not let this in, or is not gone on with. It must not block.
	OnConn func(up bool, err error)
}

// Bus is a connection to a NATS server as a transport. When the connection is lost it is made again, for ever:
// subscriptions go on by themselves, publishes wait for a while. All methods are safe for concurrent use.
type Bus struct {
	nc        *conn
	who       *auth.Identity // nil: not known, or everybody may do everything
	js        jetstream.JetStream
	log       *slog.Logger
	onConn    func(up bool, err error)
	done      chan struct{} // closed by Close
	gauge     gauge
	maxFile   int64
	backlogs  backlogs
	peers     peers
	dialed    atomic.Bool // Dial has not failed, and will not
	anonymous bool        // it has shown no credentials

	reached  atomic.Bool // something has taken a connection
	refusing atomic.Bool // what older builds send

	server  *Server                                 // in this process; nil: it is elsewhere
	connect func(what string) (*natsgo.Conn, error) // makes another connection
	opening sync.Mutex                              // one of them is made after the other

	mu       sync.Mutex
	closed   bool
	gateways map[string]*gateway // of tenants
	ordered  []*inbox            // that are served
	reads    *natsgo.Conn        // nil until Reads
	serving  int                 // calls of Serve; the last one that returns after Close closes the connection
	up       bool
	changed  chan struct{}   // closed and replaced when up changes
	conn     context.Context // no caller's: it ends when the connection is lost
	drop     context.CancelFunc
	look     *time.Timer // for lookAround; nil before there is a connection
	looking  sync.WaitGroup
}

var (
	_ transport.Transport    = (*Bus)(nil)
	_ transport.DeadLetters  = (*Bus)(nil)
	_ transport.Health       = (*Bus)(nil)
	_ transport.InboxDepth   = (*Bus)(nil)
	_ transport.InboxBacklog = (*Bus)(nil)
)

// Dial connects to a server and makes the streams that are missing. Errors wrap ErrUnavailable when no server answers, or none that
// its certificate proves to be the one, ErrForbidden when it does not accept the credentials or asks for none, and ErrIncompatible when
// it is too old, has no JetStream, or keeps the streams differently than they are needed. When ctx ends, so does Dial, with ctx's error.
//
// With credentials of an agent or a person, everything but listening goes through a running orchestrator, and Dial does not wait for
// one: what needs it fails with ErrUnavailable while there is none.
func Dial(ctx context.Context, o *Options) (*Bus, error) {
	if o == nil || (o.URL == "") == (o.Server == nil) {
		return nil, errors.New("dial NATS: either a URL or a server is needed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &Bus{server: o.Server, log: o.Logger, onConn: o.OnConn, maxFile: o.MaxFile, done: make(chan struct{}), changed: make(chan struct{}), up: true}
	b.gateways = map[string]*gateway{}
	b.peers = peers{heard: make(chan struct{}, 1), known: map[string]peer{}, told: map[string]bool{}}
	b.gauge.max = cmp.Or(max(o.MaxInbox, 0), defaultMaxInbox)
	b.backlogs.most = max(b.gauge.max/agentPart, 1)
	b.conn, b.drop = context.WithCancel(context.Background())
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
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
	if b.nc.Conn, err = connectFirst(ctx, o, append(b.connOptions(dialing, o), how...)); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, dialError(o, err, b.reached.Load())
	}
	url, name := o.URL, cmp.Or(o.Name, "cortex")
	b.connect = func(what string) (*natsgo.Conn, error) {
		return natsgo.Connect(url, append(b.sideOptions(name+" ("+what+")"), how...)...)
	}
	b.mu.Lock()
	b.look = time.AfterFunc(peersEvery, b.lookAround)
	b.mu.Unlock()
	expecting, expected := b.nc.expect(ctx, func(subject string) bool { return subject != peersSubject })
	defer expected()
	asking, cancel := context.WithCancel(expecting)
	defer cancel()
	defer context.AfterFunc(b.connection(), cancel)() // no answer comes from a connection that is lost
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
			err = b.sayNoRoom(asking)
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
		_ = b.Close() // after which nobody is told that the connection has ended
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
		natsgo.IgnoreAuthErrorAbort(), // a server whose users are being changed comes back as well
		natsgo.CustomReconnectDelay(reconnectDelay),
		// Nothing is kept for later while the connection is down: what a publish reported as failed must not be sent
		// afterwards, and an old acknowledgement means nothing to a server that has started again.
		natsgo.ReconnectBufSize(-1),
		natsgo.PingInterval(20 * time.Second), // a silent peer is noticed within a minute
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { b.setUp(false, err) }),
		natsgo.ReconnectHandler(func(nc *natsgo.Conn) {
			b.nc.failed.Store(nil)
			b.setUp(true, nil)
			b.tellOld(nc.ConnectedServerName(), checkConnected(nc))
			b.lookIn(0)
		}),
		natsgo.DiscoveredServersHandler(func(*natsgo.Conn) { b.lookIn(peersSoon) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, s *natsgo.Subscription, err error) {
			if errors.Is(err, errUnasked) { // which is told once
				return
			}
			if refusesLogin(err) {
				if b.nc.failed.Swap(&err) == nil && b.dialed.Load() { // once, and not at each attempt; Dial says it itself
					b.log.Warn("nats server does not let this in", "err", b.notLetIn(err))
					b.barred()
				}
				return
			}
			if subject, _ := refusal(err); subject == peersSubject {
				b.muted()
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
	if o.Server == nil {
		opts = append(opts, natsgo.SetCustomDialer(b.dialer(ctx, o.Locate, timeout)), natsgo.SkipHostLookup()) // the dialer looks them up
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

// reconnectDelay is the pause after every server was tried n times in vain.
func reconnectDelay(n int) time.Duration {
	d := min(50*time.Millisecond<<min(n, 7), 4*time.Second)
	return d/2 + rand.N(d/2)
}

// redact returns addr without passwords.
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

// Conn returns the connection, for others who use the same server. It is closed by Close.
func (b *Bus) Conn() *natsgo.Conn { return b.nc.Conn }

// Reads returns a connection of its own to the same server, for others who have it read what takes long: before that is done the
// server hears nothing else on it. It is closed by Close.
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

// API returns what requests to JetStream's API have before them, with its final dot: the server's own prefix, or, for
// who is let in through a gateway only, that behind it.
func (b *Bus) API() string { return b.nc.prefix + jsAPI }

// Identity returns whom the credentials are for; nil when that is not known, or none were needed.
func (b *Bus) Identity() *auth.Identity { return b.who }

// Sender implements transport.Sender.
func (b *Bus) Sender() (tenant, from string) {
	if b.who == nil {
		return "", ""
	}
	return b.who.Tenant, b.who.ID
}

// Close implements transport.Transport. The connection itself is closed when the last Serve has given its events back.
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
	if b.look != nil {
		b.look.Stop()
	}
	if b.serving == 0 {
		b.hangUp()
	}
	gateways := slices.Collect(maps.Values(b.gateways))
	b.mu.Unlock()
	for _, g := range gateways {
		g.close()
	}
	b.looking.Wait()
	return nil
}

// enter counts a Serve in; it reports false when the bus is closed.
func (b *Bus) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.serving++
	return true
}

// leave counts a Serve out.
func (b *Bus) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving--; b.closed && b.serving == 0 {
		b.hangUp()
	}
}

// hangUp closes the connections that no gateway has. The caller holds mu.
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
	if !b.dialed.Load() { // Dial says what is wrong
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

// barred tells that the server is there, and the connection will not be made.
func (b *Bus) barred() {
	if b.onConn != nil && !b.isClosed() {
		b.onConn(false, b.whyBarred(*b.nc.failed.Load()))
	}
}

// connection returns a context that ends when the connection is lost.
func (b *Bus) connection() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn
}

// asking returns a context for a question to the server: it ends when the answer is overdue, and when the connection is
// lost, since no answer comes then.
func (b *Bus) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // who was asked may have been killed, and the next one elected since
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
