package nats

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/puback"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxStoring is how many messages may wait at a time for their stream to store them.
const maxStoring = 256

// conn is the connection to the server. It adds the gateway's prefix to what it publishes when its credentials need one (see package auth), and
// hands a refusal of the server to the call that waits for an answer.
type conn struct {
	*natsgo.Conn
	prefix string // of each subject; may be empty

	failed atomic.Pointer[error] // why the server refused to reconnect

	mu      sync.Mutex
	stores  *puback.Publisher // nil before the connection is there, and for a guest
	waiting map[*waiter]struct{}
	put     []placed // the events that were stored last in inboxes, by sequence; nil until hasPut asks
}

const maxPut = 4096 // places of put

// placed is where an event was stored.
type placed struct {
	seq     uint64
	subject string
}

// waiter is a call that ends when the server refuses one of its subjects, or when the connection is lost, since no answer comes then.
type waiter struct {
	concerns func(subject string) bool
	end      context.CancelCauseFunc
}

// Publish adds the prefix and hides the client's method; so do the other methods here.
func (c *conn) Publish(subject string, data []byte) error {
	return c.Conn.Publish(c.prefix+subject, data)
}

// PublishRequest publishes a message whose answer goes to reply.
func (c *conn) PublishRequest(subject, reply string, data []byte) error {
	return c.Conn.PublishRequest(c.prefix+subject, reply, data)
}

// PublishMsg publishes m without changing it.
func (c *conn) PublishMsg(m *natsgo.Msg) error { return c.Conn.PublishMsg(c.through(m)) }

// connected sets the connection. That of a guest, behind a gateway, may have few subscriptions, which a Publisher needs.
func (c *conn) connected(nc *natsgo.Conn, guest bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Conn = nc
	if !guest {
		c.stores = puback.New(nc, maxStoring)
	}
}

// store publishes m to its stream and waits until the server has stored it. It tries once, for as long as wait, and may set the Reply of m.
func (c *conn) store(ctx context.Context, m *natsgo.Msg, wait time.Duration) error {
	m = c.through(m)
	if c.stores != nil {
		seq, err := c.stores.Publish(ctx, m, wait)
		if err == nil && strings.HasPrefix(m.Subject, inboxPrefix) {
			c.mu.Lock()
			if c.put != nil {
				c.put[seq%maxPut] = placed{seq, m.Subject}
			}
			c.mu.Unlock()
		}
		return err
	}
	expecting, done := c.expect(ctx, func(subject string) bool { return subject == m.Subject })
	defer done()
	attempt, cancel := context.WithTimeout(expecting, wait)
	defer cancel()
	_, err := puback.Request(attempt, c.Conn, m)
	err = cause(expecting, err)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = natsgo.ErrDisconnected
	}
	return err
}

// hasPut reports whether this connection has stored the event with a sequence in the inbox whose subjects begin with prefix, as far as it remembers.
func (c *conn) hasPut(seq uint64, prefix string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.put == nil {
		c.put = make([]placed, maxPut)
	}
	at := c.put[seq%maxPut]
	return at.seq == seq && strings.HasPrefix(at.subject, prefix)
}

// RequestWithContext returns the answer to a request. The error wraps ErrForbidden when the server refuses the subject.
func (c *conn) RequestWithContext(ctx context.Context, subject string, data []byte) (*natsgo.Msg, error) {
	subject = c.prefix + subject
	asking, done := c.expect(ctx, func(s string) bool { return s == subject })
	defer done()
	m, err := c.Conn.RequestWithContext(asking, subject, data)
	return m, cause(asking, err)
}

// through returns m with the gateway's prefix.
func (c *conn) through(m *natsgo.Msg) *natsgo.Msg {
	if c.prefix == "" {
		return m
	}
	through := *m
	through.Subject = c.prefix + m.Subject
	return &through
}

// expect returns a context that ends when the connection is lost, or when the server refuses to publish or subscribe to a subject for which
// concerns returns true; the refusal is then the context's cause, see cause. A server reports refusals outside the request, which never gets an
// answer.
func (c *conn) expect(ctx context.Context, concerns func(subject string) bool) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	w := &waiter{concerns, end}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[*waiter]struct{}{}
	}
	c.waiting[w] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.waiting, w)
		c.mu.Unlock()
		end(nil)
	}
}

// cause returns the refusal that ended ctx, if there is one; otherwise err.
func cause(ctx context.Context, err error) error {
	if refusal := context.Cause(ctx); err != nil && errors.Is(refusal, transport.ErrForbidden) {
		return refusal
	}
	return err
}

var violation = regexp.MustCompile(`(?i)violation for (publish to|subscription to) "([^"]+)"`)

// refusal parses the server's report of a missing permission. The error is nil when err is something else.
func refusal(err error) (subject string, _ error) {
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		return "", nil
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return "", fmt.Errorf("%w: %w", transport.ErrForbidden, err)
	}
	return m[2], fmt.Errorf("%w: the server refuses the %s %s: these credentials (--creds) are for something else",
		transport.ErrForbidden, m[1], oneLine(m[2], 200))
}

// lost ends all waiting calls. Another server may have other sequences.
func (c *conn) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.put)
	for w := range c.waiting {
		w.end(natsgo.ErrDisconnected)
	}
	if c.stores != nil {
		c.stores.Fail(func(string) bool { return true }, natsgo.ErrDisconnected)
	}
}

// refused ends the calls that the refusal err concerns. It returns false when err is no refusal.
func (c *conn) refused(err error) bool {
	subject, why := refusal(err)
	if why == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.waiting {
		if w.concerns(subject) {
			w.end(why)
		}
	}
	if c.stores != nil {
		c.stores.Fail(func(s string) bool { return s == subject }, why)
	}
	return true
}

// flush waits until the server has processed a subscription. It returns the server's refusal if there is one.
func (c *conn) flush(ctx context.Context, s *natsgo.Subscription) error {
	err := c.FlushWithContext(ctx)
	if errors.Is(err, natsgo.ErrConnectionClosed) && !c.IsClosed() {
		return natsgo.ErrDisconnected // the client returns ErrConnectionClosed also shortly before it reconnects
	}
	if err != nil {
		return err
	}
	if subject, why := refusal(c.LastError()); why != nil && subject == s.Subject {
		return why
	}
	return nil
}
