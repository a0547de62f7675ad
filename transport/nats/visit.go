package nats

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Until it is known who has connected: enough to say who one is, and a little more.
const (
	newPace  = 4 << 20 // bytes a second
	newBurst = 256 << 10
)

// visits are the connections from outside to a server with keys. What they send is read no faster than who has them may send: the server hands
// on what it has read at once, and ends the connection to which that goes, the orchestrator's, when that does not keep up.
type visits struct {
	mu   sync.Mutex
	open map[string]*visit // by the address that it comes from
}

// visit is one of them. It is a TCP connection in all else: the server writes several buffers at once to no other kind.
type visit struct {
	*net.TCPConn
	all  *visits
	from string
	pace atomic.Pointer[rate.Limiter] // nil: there is none
	once sync.Once
	done chan struct{}
}

func (v *visits) add(c *net.TCPConn) net.Conn {
	is := &visit{TCPConn: c, all: v, from: c.RemoteAddr().String(), done: make(chan struct{})}
	is.pace.Store(rate.NewLimiter(newPace, newBurst))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[string]*visit{}
	}
	v.open[is.from] = is
	return is
}

// of sets the pace of the connection from an address; nil is none.
func (v *visits) of(ip string, port int, pace *rate.Limiter) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if is := v.open[net.JoinHostPort(ip, strconv.Itoa(port))]; is != nil {
		is.pace.Store(pace)
	}
}

// Read implements [net.Conn]. It returns what has come when its time has, so that more waits where it comes from.
func (c *visit) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	pace := c.pace.Load()
	if pace == nil || n == 0 {
		return n, err
	}
	wait := spend(pace, time.Now(), n)
	if wait <= 0 {
		return n, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.done:
	}
	return n, err
}

// Close implements [net.Conn].
func (c *visit) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		if c.all.open[c.from] == c {
			delete(c.all.open, c.from)
		}
	})
	return c.TCPConn.Close()
}

// spend takes n of what a pace lets through, however much that is, and returns when there will be as much again.
func spend(pace *rate.Limiter, now time.Time, n int) (wait time.Duration) {
	for n > 0 {
		some := min(n, pace.Burst())
		wait = pace.ReserveN(now, some).DelayFrom(now)
		n -= some
	}
	return wait
}
