package nats

import (
	"context"
	"errors"
	"net"
	"reflect"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// turnedAway is how many connections a server may have beyond its limit, to tell clients that it is full.
const turnedAway = 32

// listener bounds the open connections. The server itself counts connections only after it has accepted them: a burst could open a thousand more
// and leave the process no files for its store.
//
// The listener looks for closed connections only when the bound is reached.
type listener struct {
	net.Listener
	most int
	open []syscall.RawConn // may include closed ones
	came chan<- struct{}   // receives a value for a new connection, without blocking
	all  *pacedConns       // nil: the server has no keys
}

// Accept implements [net.Listener]. One goroutine at a time may call it.
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

// forget removes the closed connections.
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

// listenBounded makes a server that was started without a listener accept at most most connections. The server has no option for a listener: it
// makes one when it begins to accept, unless its field is set, as its own tests do. listenBounded returns an error for a version without such a
// field, so that an upgrade cannot lose the bound unnoticed.
func listenBounded(ctx context.Context, ns *server.Server, addr string, most int, came chan<- struct{}, all *pacedConns) error {
	if err := checkConnState(); err != nil {
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
	ns.AcceptLoop(make(chan struct{})) // returns when the server accepts connections
	return nil
}
