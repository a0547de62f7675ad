package agenthub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
)

// kind is a kind of stream.
type kind int

// The kinds of streams.
const (
	messages kind = iota
	tasks
	events
	kinds
)

// Bounds of streams.
const (
	maxStreams    = 1024      // of all peers
	maxOwnStreams = 64        // of one kind and peer
	maxQueue      = 256       // events that wait in a stream
	maxQueueBytes = 4 << 20   // likewise, unless it is only one
	maxUnsent     = 128 << 20 // bytes of all events and answers that were put and are not written yet
)

// errBehind ends the connection for which most waits, and its streams, when too much waits for all.
var errBehind = errors.New("too much waits for this program, which reads too slowly: subscribe again")

// stream is a subscription. Its events are sent in the order in which they were put.
type stream struct {
	of    string // the peer's id
	conn  string // the address of its connection
	since time.Time
	ended <-chan struct{}
	end   func(error)
	in    *exchange // nil before it is open

	unsent int  // bytes; in.mu guards it
	gone   bool // likewise: it is in no exchange any more

	more chan struct{} // holds one while the queue is not empty

	mu    sync.Mutex
	queue []waiting
	bytes int
	room  chan struct{} // closed when something was taken
}

// waiting is an event that waits to be sent.
type waiting struct {
	*hubpb.AgentEvent
	weight int // what it takes in memory, in bytes, as far as that can be estimated
}

// weighed returns an event as streams keep it.
func weighed(e *hubpb.AgentEvent) waiting { return waiting{e, protoweight.OfMessage(e)} }

func newStream(ctx context.Context, of, conn string, now time.Time) *stream {
	return &stream{
		of: of, conn: conn, since: now, ended: ctx.Done(), end: func(err error) { kit.End(ctx, err) }, more: make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// put adds an event, and waits for room for it. It returns false when the stream or ctx has ended before.
func (s *stream) put(ctx context.Context, e waiting) bool {
	for !s.over() {
		s.mu.Lock()
		room := s.room
		if n := len(s.queue); n == 0 || n < maxQueue && s.bytes+e.weight <= maxQueueBytes {
			s.queue = append(s.queue, e)
			s.bytes += e.weight
			s.in.put(s, e.weight) // before it can be taken, and sent
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			return true
		}
		s.mu.Unlock()
		select {
		case <-room:
		case <-s.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// over reports whether the stream has ended.
func (s *stream) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// take removes and returns what waits.
func (s *stream) take() []waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.queue
	s.queue, s.bytes = nil, 0
	close(s.room)
	s.room = make(chan struct{})
	return all
}

// exchange has the streams of all peers. It is safe for concurrent use.
type exchange struct {
	mu      sync.Mutex
	streams [kinds]map[string][]*stream // by the peer's id
	count   int
	shares  map[string]int // how many streams a program has, by connection and by host
	unsent  map[string]int // bytes, by connection
	answers map[*stream]struct{}
	waits   int               // bytes of all connections
	most    int               // of these
	next    map[string]int    // whose turn it is to get a task
	opened  chan struct{}     // closed when a stream opens
	cut     func(conn string) // closes a connection: what was given to it is kept until it has read it, whatever has ended
}

func newExchange() *exchange {
	x := &exchange{shares: map[string]int{}, next: map[string]int{}, unsent: map[string]int{}, answers: map[*stream]struct{}{}, most: maxUnsent, opened: make(chan struct{}), cut: func(string) {}}
	for k := range x.streams {
		x.streams[k] = map[string][]*stream{}
	}
	return x
}

// programs returns what tells programs apart, since they have no keys: the connection and, unless that is this machine, the host.
func (s *stream) programs() []string {
	if host := kit.Other(s.conn); host != "" {
		return []string{s.conn, host}
	}
	return []string{s.conn}
}

// hostOf returns the host of a connection; the connection itself if that is this machine.
func hostOf(conn string) string { return cmp.Or(kit.Other(conn), conn) }

// open adds a stream. A program has at most three times as many as are free, so that one alone has three quarters of all, and there is room for others.
func (x *exchange) open(k kind, s *stream) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count >= maxStreams {
		return fmt.Errorf("there are %d subscriptions: no more are allowed", x.count)
	}
	if n := len(x.streams[k][s.of]); n >= maxOwnStreams {
		return fmt.Errorf("%s has %d subscriptions: no more are allowed", s.of, n)
	}
	for _, p := range s.programs() {
		if n := x.shares[p]; kit.Sated(n, x.count, maxStreams) {
			return fmt.Errorf("%s has %d of all %d subscriptions: no more are allowed", p, n, maxStreams)
		}
	}
	for _, p := range s.programs() {
		x.shares[p]++
	}
	s.in = x
	x.count++
	x.streams[k][s.of] = append(x.streams[k][s.of], s)
	close(x.opened)
	x.opened = make(chan struct{})
	return nil
}

// close removes a stream.
func (x *exchange) close(k kind, s *stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var rest []*stream
	for _, one := range x.streams[k][s.of] {
		if one != s {
			rest = append(rest, one)
		}
	}
	x.less(s, s.unsent)
	s.gone = true
	x.count--
	for _, p := range s.programs() {
		if x.shares[p]--; x.shares[p] == 0 {
			delete(x.shares, p)
		}
	}
	if x.streams[k][s.of] = rest; len(rest) == 0 {
		delete(x.streams[k], s.of)
	}
	if len(x.streams[tasks][s.of]) == 0 {
		delete(x.next, s.of)
	}
}

// put takes note of bytes that wait for a stream. When too many wait for all, it ends the connection for which most do.
func (x *exchange) put(s *stream, n int) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.gone {
		return
	}
	s.unsent += n
	x.unsent[s.conn] += n
	x.waits += n
	if x.waits > x.most {
		x.end(x.slowest())
	}
}

// slowest returns the connection for which most waits, of the host for which most does. x.mu is held.
func (x *exchange) slowest() (conn string) {
	hosts := map[string]int{}
	for of, n := range x.unsent {
		hosts[hostOf(of)] += n
	}
	for of, n := range x.unsent {
		if is := hosts[hostOf(of)] - hosts[hostOf(conn)]; conn == "" || is > 0 || is == 0 && n > x.unsent[conn] {
			conn = of
		}
	}
	return conn
}

// end ends a connection. x.mu is held.
func (x *exchange) end(conn string) {
	for k := range x.streams {
		for _, all := range x.streams[k] {
			for _, one := range all {
				if one.conn == conn {
					x.less(one, one.unsent)
					one.end(errBehind)
				}
			}
		}
	}
	for one := range x.answers {
		if one.conn == conn {
			x.less(one, one.unsent)
		}
	}
	x.cut(conn)
}

// answer returns the answer to a call as the codec takes it: it counts until it is written, or its connection ends.
func (x *exchange) answer(ctx context.Context, m proto.Message) *kit.Told {
	s, n := &stream{conn: connOf(ctx)}, proto.Size(m)
	x.mu.Lock()
	x.answers[s] = struct{}{}
	x.mu.Unlock()
	x.put(s, n)
	over := context.AfterFunc(kit.Connection(ctx), func() { x.answered(s) })
	return &kit.Told{Message: m, Written: func() {
		over()
		x.answered(s)
	}}
}

// answered forgets an answer.
func (x *exchange) answered(s *stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.less(s, s.unsent)
	s.gone = true
	delete(x.answers, s)
}

// sent takes note of bytes that were written to a stream.
func (x *exchange) sent(s *stream, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.less(s, min(n, s.unsent)) // a stream that was ended has nothing
}

// less forgets bytes that wait for a stream. x.mu is held.
func (x *exchange) less(s *stream, n int) {
	s.unsent -= n
	x.waits -= n
	if x.unsent[s.conn] -= n; x.unsent[s.conn] == 0 {
		delete(x.unsent, s.conn)
	}
}

// to returns the streams of a kind that an event goes to: those of one peer or, if to is "", those of all but its sender.
func (x *exchange) to(k kind, to, from string) []*stream {
	x.mu.Lock()
	defer x.mu.Unlock()
	if to != "" {
		return x.of(k, to)
	}
	var all []*stream
	for of, some := range x.streams[k] {
		if of != from {
			all = append(all, some...)
		}
	}
	return all
}

// one returns the stream that gets the next task of a peer, and its kind; nil if there is none. wait is closed when a stream opens.
func (x *exchange) one(of string) (s *stream, k kind, wait <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range []kind{tasks, messages} {
		if all := x.of(k, of); len(all) > 0 {
			x.next[of]++
			return all[x.next[of]%len(all)], k, x.opened
		}
	}
	return nil, 0, x.opened
}

// has reports whether a peer has a stream of a kind, and returns a channel that is closed when a stream opens.
func (x *exchange) has(k kind, of string) (bool, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.of(k, of)) > 0, x.opened
}

// of returns a peer's streams of a kind that have not ended. x.mu is held.
func (x *exchange) of(k kind, peer string) (all []*stream) {
	for _, s := range x.streams[k][peer] {
		if !s.over() {
			all = append(all, s)
		}
	}
	return all
}

// knows reports whether a peer has a stream.
func (x *exchange) knows(of string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k := range x.streams {
		if len(x.streams[k][of]) > 0 {
			return true
		}
	}
	return false
}
