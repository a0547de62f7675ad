package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// apiTimeout bounds every request to the server but a publish.
const apiTimeout = 5 * time.Second

// Options configures Dial. Exactly one of URL and Server is needed.
type Options struct {
	// URL is the server's address, nats://[user:password@]host:port, or several of one cluster separated by commas.
	URL string
	// Server is a server in this process; the connection needs no network.
	Server *Server
	// Name tells connections apart in the server's monitoring; empty is "cortex".
	Name string
	// Replicas is on how many servers of a cluster everything is stored. 0 is what the streams have, 1 when they are new.
	Replicas int
	// Logger gets what goes wrong without a caller to tell; nil discards it.
	Logger *slog.Logger
	// OnConn, if set, is called when the connection is lost, with the reason, and when it is back. It must not block.
	OnConn func(up bool, err error)
}

// Bus is a connection to a NATS server as a transport. When the connection is lost it is made again, for ever:
// subscriptions go on by themselves, publishes wait for a while. All methods are safe for concurrent use.
type Bus struct {
	nc     *natsgo.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	onConn func(up bool, err error)
	done   chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	serving int // calls of Serve; the last one that returns after Close closes the connection
	up      bool
	changed chan struct{}   // closed and replaced when up changes
	conn    context.Context // no caller's: it ends when the connection is lost
	drop    context.CancelFunc
}

var (
	_ transport.Transport   = (*Bus)(nil)
	_ transport.DeadLetters = (*Bus)(nil)
	_ transport.Health      = (*Bus)(nil)
	_ transport.InboxDepth  = (*Bus)(nil)
)

// Dial connects to a server and makes the streams that are missing. Errors wrap ErrUnavailable when no server answers, and
// ErrIncompatible when it is too old, has no JetStream, or keeps the streams differently than they are needed.
func Dial(ctx context.Context, o *Options) (*Bus, error) {
	if o == nil || (o.URL == "") == (o.Server == nil) {
		return nil, errors.New("dial NATS: either a URL or a server is needed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &Bus{log: o.Logger, onConn: o.OnConn, done: make(chan struct{}), changed: make(chan struct{}), up: true}
	b.conn, b.drop = context.WithCancel(context.Background())
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if b.nc, err = natsgo.Connect(o.URL, b.connOptions(ctx, o)...); err != nil {
		return nil, dialError(o.URL, err)
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.connection(), cancel)() // no answer comes from a connection that is lost
	if b.js, err = jetstream.New(b.nc, jetstream.WithDefaultTimeout(apiTimeout)); err == nil {
		err = ensureStreams(asking, b.js, o.Replicas)
	}
	if err == nil {
		err = b.keep(ctx)
	}
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: the connection was lost", transport.ErrUnavailable)
	}
	if err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("NATS server %s: %w", redact(o.URL), err)
	}
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
		natsgo.ReconnectHandler(func(*natsgo.Conn) { b.setUp(true, nil) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, s *natsgo.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Warn("nats connection", "err", err, "subject", subject)
		}),
	}
	if o.Server != nil {
		opts = append(opts, natsgo.InProcessServer(o.Server))
	}
	return opts
}

// reconnectDelay is the pause after every server was tried n times in vain.
func reconnectDelay(n int) time.Duration {
	d := min(50*time.Millisecond<<min(n, 7), 4*time.Second)
	return d/2 + rand.N(d/2)
}

func dialError(addr string, err error) error {
	if addr == "" {
		return fmt.Errorf("%w: the NATS server in this process: %w", transport.ErrUnavailable, err)
	}
	addr = redact(addr)
	if errors.Is(err, natsgo.ErrAuthorization) || errors.Is(err, natsgo.ErrAuthExpired) {
		return fmt.Errorf("NATS server %s refuses the login: %w", addr, err)
	}
	return fmt.Errorf("%w: no NATS server answers at %s: start one with `cortex serve`, or check --nats: %w", transport.ErrUnavailable, addr, err)
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
func (b *Bus) Conn() *natsgo.Conn { return b.nc }

// Close implements transport.Transport. The connection itself is closed when the last Serve has given its events back.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.done)
	b.drop()
	if b.serving == 0 {
		b.nc.Close()
	}
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
		b.nc.Close()
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
	}
	b.mu.Unlock()
	if up {
		b.log.Info("nats server is back")
	} else {
		b.log.Warn("nats server lost", "err", err)
	}
	if b.onConn != nil {
		b.onConn(up, err)
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
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
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
