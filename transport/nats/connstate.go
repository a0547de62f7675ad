package nats

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// connState is the server's internal state of a connection. The server's API reports most of it too late or not at all.
type connState struct {
	mu   *sync.RWMutex
	most *int64  // limit of the bytes that wait to be sent to it, guarded by mu
	wait *int64  // bytes that wait, guarded by mu
	msgs *int64  // number of messages that it has sent, atomic
	part *[]byte // buffer of a partly received message, of the goroutine that reads
}

// checkConnState returns an error for a version of the server in which [connStateOf] would not find these fields.
func checkConnState() error {
	c := reflect.TypeOf((*server.Server).GetClient).Out(0).Elem()
	for _, field := range []struct {
		in, name string
		is       reflect.Type
	}{
		{"", "mu", reflect.TypeFor[sync.RWMutex]()},
		{"out", "mp", reflect.TypeFor[int64]()},
		{"out", "pb", reflect.TypeFor[int64]()},
		{"", "inMsgs", reflect.TypeFor[int64]()},
		{"", "msgBuf", reflect.TypeFor[[]byte]()},
	} {
		in := c
		if field.in != "" {
			out, ok := c.FieldByName(field.in)
			if !ok || out.Type.Kind() != reflect.Struct {
				return errors.New("this version of the server does not say what it keeps for a connection")
			}
			in = out.Type
		}
		if f, ok := in.FieldByName(field.name); !ok || f.Type != field.is {
			return errors.New("this version of the server has no " + field.name + " of a connection")
		}
	}
	return nil
}

// connStateOf returns a connection of a server; nil when it is closed.
func connStateOf(ns *server.Server, cid uint64) *connState {
	c := reflect.ValueOf(ns.GetClient(cid))
	if c.IsNil() {
		return nil
	}
	c = c.Elem()
	out := c.FieldByName("out")
	return &connState{
		mu:   (*sync.RWMutex)(c.FieldByName("mu").Addr().UnsafePointer()),
		most: (*int64)(out.FieldByName("mp").Addr().UnsafePointer()),
		wait: (*int64)(out.FieldByName("pb").Addr().UnsafePointer()),
		msgs: (*int64)(c.FieldByName("inMsgs").Addr().UnsafePointer()),
		part: (*[]byte)(c.FieldByName("msgBuf").Addr().UnsafePointer()),
	}
}

// setMaxPending sets how many bytes may wait for the connection before the server closes it. The server's option is the same for all connections, while the
// field is per connection: what an orchestrator needs would be too much for every connection of a stranger.
func (s *connState) setMaxPending(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.most = int64(most)
}

// waiting returns how many bytes wait to be sent to the connection.
func (s *connState) waiting() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return *s.wait
}

// sent returns how many messages the connection has sent.
func (s *connState) sent() int64 { return atomic.LoadInt64(s.msgs) }

// partialBytes returns the bytes reserved for a partly received message. Only the goroutine that reads the connection may call it.
func (s *connState) partialBytes() int { return cap(*s.part) }
