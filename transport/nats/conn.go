package nats

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/puback"
	"github.com/cortex-orchestrator/cortex/transport"
)

// How many messages may wait for the server to have stored them: each has a subscription, of which those who are let in through a gateway
// may have few.
const (
	maxStoring      = 256
	maxStoringGuest = 16
)

// conn is the connection to the server. What it publishes goes through the gateway where its credentials have one (see package
// auth), and what the server refuses is told to who waits for its answer.
type conn struct {
	*natsgo.Conn
	prefix string // what stands before each subject, or nothing

	failed atomic.Pointer[error] // why the server did not let it be made again

	mu      sync.Mutex
	stores  *puback.Publisher // nil before the connection is there
	waiting map[*waiter]struct{}
}

// waiter is a call that a refusal of one of its subjects ends, and the loss of the connection: no answer comes from one that is lost.
type waiter struct {
	concerns func(subject string) bool
	end      context.CancelCauseFunc
}

// Publish hides that of the client, as the others here do.
func (c *conn) Publish(subject string, data []byte) error {
	return c.Conn.Publish(c.prefix+subject, data)
}

// PublishRequest publishes what is answered to reply.
func (c *conn) PublishRequest(subject, reply string, data []byte) error {
	return c.Conn.PublishRequest(c.prefix+subject, reply, data)
}

// PublishMsg publishes m, which it does not change.
func (c *conn) PublishMsg(m *natsgo.Msg) error { return c.Conn.PublishMsg(c.through(m)) }

// connected takes the connection into use.
func (c *conn) connected(nc *natsgo.Conn, storing int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Conn, c.stores = nc, puback.New(nc, storing)
}

// store publishes m to its stream, once, and waits until the server has it. It sets the Reply of m.
func (c *conn) store(ctx context.Context, m *natsgo.Msg) error {
	_, err := c.stores.Publish(ctx, c.through(m), attemptTimeout)
	return err
}

// RequestWithContext returns the answer to a request, or an error that wraps ErrForbidden when the server refuses it.
func (c *conn) RequestWithContext(ctx context.Context, subject string, data []byte) (*natsgo.Msg, error) {
	subject = c.prefix + subject
	asking, done := c.expect(ctx, func(s string) bool { return s == subject })
	defer done()
	m, err := c.Conn.RequestWithContext(asking, subject, data)
	return m, cause(asking, err)
}

// through returns m as it is to be published.
func (c *conn) through(m *natsgo.Msg) *natsgo.Msg {
	if c.prefix == "" {
		return m
	}
	through := *m
	through.Subject = c.prefix + m.Subject
	return &through
}

// expect returns a context that ends when the connection is lost, and when the server refuses to publish or subscribe a subject that
// concerns the caller, with the refusal as its cause; see cause. A server sends refusals by themselves, and the answer that is waited for
// never comes.
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

// cause returns the refusal for which ctx has ended, if there is one, in place of err.
func cause(ctx context.Context, err error) error {
	if refusal := context.Cause(ctx); err != nil && errors.Is(refusal, transport.ErrForbidden) {
		return refusal
	}
	return err
}

var violation = regexp.MustCompile(`(?i)violation for (publish to|subscription to) "([^"]+)"`)

// refusal reads what a server says of a missing permission; the error is nil when it says something else.
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

// lost ends all calls.
func (c *conn) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.waiting {
		w.end(natsgo.ErrDisconnected)
	}
	if c.stores != nil {
		c.stores.Fail(func(string) bool { return true }, natsgo.ErrDisconnected)
	}
}

// refused ends the calls that err is the answer to; it reports false when err is no refusal.
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

// flush waits until the server has taken notice of a subscription, and returns its refusal if it has refused it.
func (c *conn) flush(ctx context.Context, s *natsgo.Subscription) error {
	err := c.FlushWithContext(ctx)
	if errors.Is(err, natsgo.ErrConnectionClosed) && !c.IsClosed() {
		return natsgo.ErrDisconnected // the client says so also when it is about to connect again
	}
	if err != nil {
		return err
	}
	if subject, why := refusal(c.LastError()); why != nil && subject == s.Subject {
		return why
	}
	return nil
}
