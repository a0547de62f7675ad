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
	crowd      = 8 << 20
	crowdPace  = 4 << 20 // bytes a second of each agent or person
	crowdBurst = 4 << 20
	crowdLook  = 2 * time.Millisecond

	fewBytes = 2 << 10 // read at once from senders of small messages, each of which is charged after it was read

	largeParts  = 4                // large messages of one agent or person that are being received
	largePart   = 64 << 10         // a message above this size is large
	partSilence = 10 * time.Second // before a connection that stops within a large message is closed
)

// pace bounds how fast the messages of an agent or a person are read, over all its connections.
type pace struct {
	bytes   *rate.Limiter
	crowded *rate.Limiter // the same, while this process is behind
	message int           // additional bytes that each message counts for
	parts   chan struct{} // holds one for each large message that is being received
	silence time.Duration // a connection that stops for so long within a large message is closed
}

func newEach(message int) *pace {
	return &pace{
		bytes: rate.NewLimiter(eachPace, eachBurst), crowded: rate.NewLimiter(crowdPace, crowdBurst), message: message,
		parts: make(chan struct{}, largeParts), silence: partSilence,
	}
}

// visits are the connections of others to a server with keys. They are read no faster than their users may send: the server passes what it has read
// on at once, and closes the receiving connection, the orchestrator's, when that does not keep up.
type visits struct {
	own atomic.Pointer[map[uint64]*served] // connections of this process

	mu   sync.Mutex
	open map[string]*visit // by remote address
}

// visit is one of these connections. It embeds a TCP connection because the server uses vectored writes only for that type.
type visit struct {
	*net.TCPConn
	all  *visits
	from string
	let  atomic.Pointer[admission]
	part atomic.Pointer[pace] // the pace that counts its large message in parts; nil: none
	met  sync.Once
	know chan struct{} // closed when its user is known
	once sync.Once
	done chan struct{}

	// For the goroutine that reads.
	got   int   // bytes of the last read
	sent  int64 // messages that were charged
	few   bool  // most of its cost is for messages, not bytes
	timed bool  // it has a read deadline
}

// admission is how a visit is read.
type admission struct {
	pace *pace   // nil: unlimited
	is   *served // nil: not known yet
}

func (v *visits) add(c *net.TCPConn) net.Conn {
	is := &visit{TCPConn: c, all: v, from: c.RemoteAddr().String(), know: make(chan struct{}), done: make(chan struct{})}
	is.let.Store(&admission{pace: &pace{bytes: rate.NewLimiter(newPace, newBurst)}})
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[string]*visit{}
	}
	v.open[is.from] = is
	return is
}

// of sets the pace of the connection from an address; nil is unlimited.
func (v *visits) of(ip string, port int, is *served, p *pace) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.open[net.JoinHostPort(ip, strconv.Itoa(port))]; c != nil {
		c.let.Store(&admission{p, is})
		c.met.Do(func() { close(c.know) })
	}
}

// keep records which connections are this process's own.
func (v *visits) keep(ns *server.Server, own []uint64) {
	if v == nil {
		return
	}
	was, is := v.own.Load(), make(map[uint64]*served, len(own))
	for _, cid := range own {
		var c *served
		if was != nil {
			c = (*was)[cid]
		}
		if c == nil {
			c = servedBy(ns, cid)
		}
		if c != nil {
			is[cid] = c
		}
	}
	v.own.Store(&is)
}

// crowded reports whether much waits to be read by this process.
func (v *visits) crowded() bool {
	own := v.own.Load()
	if own == nil {
		return false
	}
	for _, c := range *own {
		if c.waiting() > crowd {
			return true
		}
	}
	return false
}

// Read implements [net.Conn]. It returns data when the pace allows it, so that TCP slows the sender down.
func (c *visit) Read(b []byte) (int, error) {
	c.settle(c.let.Load())
	if c.few {
		b = b[:min(len(b), fewBytes)]
	}
	n, err := c.TCPConn.Read(b)
	c.got = n
	if a := c.let.Load(); a.is == nil && a.pace != nil {
		c.pause(spend(a.pace.bytes, time.Now(), n), c.know)
	}
	p := c.let.Load().pace // the user may be known by now
	if p == nil || n == 0 || p.parts == nil {
		return n, err
	}
	if c.pause(spend(p.bytes, time.Now(), n), nil) && c.begin(p) && c.all.crowded() {
		for end := time.Now().Add(spend(p.crowded, time.Now(), n)); time.Now().Before(end) && c.all.crowded() && c.pause(crowdLook, nil); {
		}
	}
	return n, err
}

// settle charges the messages that the server has found in the last read, all of which it has parsed.
func (c *visit) settle(a *admission) {
	if a.pace == nil || a.is == nil {
		c.end()
		return
	}
	sent := a.is.sent()
	cost := int(sent-c.sent) * a.pace.message
	spend(a.pace.bytes, time.Now(), cost)
	c.sent, c.few = sent, cost > c.got
	large := a.is.begun() > largePart
	if !large {
		c.end()
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

// begin waits until a large message may be received. It returns false when the visit ends.
func (c *visit) begin(p *pace) bool {
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
		c.end()
		return false
	default:
		return true
	}
}

// end lets another large message begin.
func (c *visit) end() {
	if p := c.part.Swap(nil); p != nil {
		<-p.parts
	}
}

// pause waits for d or until over is closed; it returns false when the visit ends.
func (c *visit) pause(d time.Duration, over <-chan struct{}) bool {
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
func (c *visit) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.end()
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
