package nats

import (
	"context"
	"errors"
	"net"
	"reflect"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// turnedAway is how many connections a server may have beyond those that it takes, to say to them that it is full.
const turnedAway = 32

// listener accepts no more connections than a number of them are open. A server counts those that it has taken, after it has accepted
// them: in a burst there are a thousand more, and none of the process's files is left for its store.
//
// Whether one is closed is looked up, when there may be too many.
type listener struct {
	net.Listener
	most int
	open []syscall.RawConn // or closed since they were looked at
	came chan<- struct{}   // gets something for a connection, unless it has something
	all  *visits           // nil: the server has no keys
}

// Accept implements [net.Listener]. It is called by one goroutine at a time.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if len(l.open) >= l.most {
			l.forget()
		}
		if len(l.open) < l.most {
			select {
			case l.came <- struct{}{}:
			default:
			}
			tcp, ok := c.(*net.TCPConn)
			if !ok {
				return c, nil
			}
			if raw, err := tcp.SyscallConn(); err == nil {
				l.open = append(l.open, raw)
			}
			if l.all != nil {
				return l.all.add(tcp), nil
			}
			return c, nil
		}
		c.Close() //nolint:errcheck // it is refused
	}
}

// forget forgets the connections that are closed.
func (l *listener) forget() {
	still := l.open[:0]
	for _, c := range l.open {
		if c.Control(func(uintptr) {}) == nil {
			still = append(still, c)
		}
	}
	clear(l.open[len(still):])
	l.open = still
}

// listenBounded lets a server that was started without a listener accept at most most connections. A server takes no listener, and makes
// one when it begins to accept, unless it has one: the field is set before it begins, as its own tests do. A version without such a
// field is an error, so that nobody upgrades to one unawares.
func listenBounded(ctx context.Context, ns *server.Server, addr string, most int, came chan<- struct{}, all *visits) error {
	if err := holdsPending(); err != nil {
		return err
	}
	field := reflect.ValueOf(ns).Elem().FieldByName("listener")
	if !field.IsValid() || field.Type() != reflect.TypeFor[net.Listener]() {
		return errors.New("this version of the server has no place for a listener")
	}
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", addr) // NATS has its own pings
	if err != nil {
		return err
	}
	reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(&listener{Listener: l, most: most, came: came, all: all}))
	ns.AcceptLoop(make(chan struct{})) // returns when it accepts
	return nil
}
