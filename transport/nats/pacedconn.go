package nats

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

const (
	// The pace of a connection until its user is known, a moment later: enough for TLS and the login.
	newPace  = 64 << 10 // bytes a second
	newBurst = 16 << 10

	// While this many bytes wait for one of this process's own connections, others are read more slowly.
	maxOwnWaiting = 8 << 20
	behindPace    = 4 << 20 // bytes a second of each agent or person
	behindBurst   = 4 << 20
	behindPoll    = 2 * time.Millisecond

	fewBytes = 2 << 10 // read at once from senders of small messages, each of which is charged after it was read

	largeParts  = 4                // large messages of one agent or person that are being received
	largePart   = 64 << 10         // a message above this size is large
	partSilence = 10 * time.Second // before a connection that stops within a large message is closed
)

// pace bounds how fast the messages of an agent or a person are read, over all its connections.
type pace struct {
	bytes   *rate.Limiter
	behind  *rate.Limiter // the same, while this process is behind
	message int           // additional bytes that each message counts for
	parts   chan struct{} // holds one for each large message that is being received
	silence time.Duration // a connection that stops for so long within a large message is closed
}

func newEach(message int) *pace {
	return &pace{
		bytes: rate.NewLimiter(eachPace, eachBurst), behind: rate.NewLimiter(behindPace, behindBurst), message: message,
		parts: make(chan struct{}, largeParts), silence: partSilence,
	}
}

// pacedConns are the connections of others to a server with keys. They are read no faster than their users may send: the server passes what it has read
// on at once, and closes the receiving connection, the orchestrator's, when that does not keep up.
type pacedConns struct {
	own atomic.Pointer[map[uint64]*connState] // connections of this process

	mu   sync.Mutex
	open map[string]*pacedConn // by remote address
}

// pacedConn is one of these connections. It embeds a TCP connection because the server uses vectored writes only for that type.
type pacedConn struct {
	*net.TCPConn
	all      *pacedConns
	from     string
	limit    atomic.Pointer[readLimit]
	part     atomic.Pointer[pace] // the pace that counts its large message in parts; nil: none
	knowOnce sync.Once
	known    chan struct{} // closed when its user is known
	once     sync.Once
	done     chan struct{}

	// For the goroutine that reads.
	got   int   // bytes of the last read
	sent  int64 // messages that were charged
	few   bool  // most of its cost is for messages, not bytes
	timed bool  // it has a read deadline
}

// readLimit is how a pacedConn is read.
type readLimit struct {
	pace *pace      // nil: unlimited
	is   *connState // nil: not known yet
}

func (v *pacedConns) add(c *net.TCPConn) net.Conn {
	is := &pacedConn{TCPConn: c, all: v, from: c.RemoteAddr().String(), known: make(chan struct{}), done: make(chan struct{})}
	is.limit.Store(&readLimit{pace: &pace{bytes: rate.NewLimiter(newPace, newBurst)}})
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[string]*pacedConn{}
	}
	v.open[is.from] = is
	return is
}

// setPace sets the pace of the connection from an address; nil is unlimited.
func (v *pacedConns) setPace(ip string, port int, is *connState, p *pace) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.open[net.JoinHostPort(ip, strconv.Itoa(port))]; c != nil {
		c.limit.Store(&readLimit{p, is})
		c.knowOnce.Do(func() { close(c.known) })
	}
}

// setOwn records which connections are this process's own.
func (v *pacedConns) setOwn(ns *server.Server, own []uint64) {
	if v == nil {
		return
	}
	was, is := v.own.Load(), make(map[uint64]*connState, len(own))
	for _, cid := range own {
		var c *connState
		if was != nil {
			c = (*was)[cid]
		}
		if c == nil {
			c = connStateOf(ns, cid)
		}
		if c != nil {
			is[cid] = c
		}
	}
	v.own.Store(&is)
}

// isBehind reports whether much waits to be read by this process.
func (v *pacedConns) isBehind() bool {
	own := v.own.Load()
	if own == nil {
		return false
	}
	for _, c := range *own {
		if c.waiting() > maxOwnWaiting {
			return true
		}
	}
	return false
}

// Read implements [net.Conn]. It returns data when the pace allows it, so that TCP slows the sender down.
func (c *pacedConn) Read(b []byte) (int, error) {
	c.charge(c.limit.Load())
	if c.few {
		b = b[:min(len(b), fewBytes)]
	}
	n, err := c.TCPConn.Read(b)
	c.got = n
	if a := c.limit.Load(); a.is == nil && a.pace != nil {
		c.pause(spend(a.pace.bytes, time.Now(), n), c.known)
	}
	p := c.limit.Load().pace // the user may be known by now
	if p == nil || n == 0 || p.parts == nil {
		return n, err
	}
	if c.pause(spend(p.bytes, time.Now(), n), nil) && c.beginPart(p) && c.all.isBehind() {
		for end := time.Now().Add(spend(p.behind, time.Now(), n)); time.Now().Before(end) && c.all.isBehind() && c.pause(behindPoll, nil); {
		}
	}
	return n, err
}

// charge charges the messages that the server has found in the last read, all of which it has parsed.
func (c *pacedConn) charge(a *readLimit) {
	if a.pace == nil || a.is == nil {
		c.endPart()
		return
	}
	sent := a.is.sent()
	cost := int(sent-c.sent) * a.pace.message
	spend(a.pace.bytes, time.Now(), cost)
	c.sent, c.few = sent, cost > c.got
	large := a.is.partialBytes() > largePart
	if !large {
		c.endPart()
	}
	if large || c.timed {
		var by time.Time
		if large {
			by = time.Now().Add(a.pace.silence)
		}
		c.SetReadDeadline(by) //nolint:errcheck // it has gone
		c.timed = large
	}
}

// beginPart waits until a large message may be received. It returns false when the connection ends.
func (c *pacedConn) beginPart(p *pace) bool {
	if c.part.Load() != nil {
		return true
	}
	select {
	case p.parts <- struct{}{}:
	case <-c.done:
		return false
	}
	c.part.Store(p)
	select {
	case <-c.done: // Close may have missed the part
		c.endPart()
		return false
	default:
		return true
	}
}

// endPart lets another large message begin.
func (c *pacedConn) endPart() {
	if p := c.part.Swap(nil); p != nil {
		<-p.parts
	}
}

// pause waits for d or until over is closed; it returns false when the connection ends.
func (c *pacedConn) pause(d time.Duration, over <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return true
	case <-c.done:
		return false
	}
}

// Close implements [net.Conn].
func (c *pacedConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.endPart()
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		if c.all.open[c.from] == c {
			delete(c.all.open, c.from)
		}
	})
	return c.TCPConn.Close()
}

// spend reserves n bytes of a pace, even above its burst, and returns the time until they are available.
func spend(pace *rate.Limiter, now time.Time, n int) (wait time.Duration) {
	for n > 0 {
		some := min(n, pace.Burst())
		wait = pace.ReserveN(now, some).DelayFrom(now)
		n -= some
	}
	return wait
}
