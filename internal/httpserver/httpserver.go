// Package httpserver is the one HTTP server of Cortex: everything that answers on a port is served by it. Whoever reaches the port,
// with or without a key, can take a bounded number of connections, for a bounded time, with requests of a bounded size.
//
// Of a listener whose connections are all taken, one is closed in favour of each new one: that which waits for a request for longest, and one
// for which a handler is at work last. None is closed before it had the time to ask, or while its request has just begun; rather, the new
// one waits. And while all are taken, each has one answer. So neither those who connect and say nothing, nor those who come again and again,
// keep out those who ask.
//
// A handler has 30 seconds from the first byte of its request to read all of it, and as long to write its answer. One that streams, or
// waits for something, gives itself more, a piece at a time:
//
//	c := http.NewResponseController(w)
//	for … {
//		c.SetWriteDeadline(time.Now().Add(10 * time.Second))
//		w.Write(piece)
//		c.Flush()
//	}
//
// SetReadDeadline does the same for one that reads a long body. Its request's context ends when the client goes, not with these times.
package httpserver

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of a request.
const (
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second // of a request with its body
	writeTime  = 30 * time.Second
	idleTime   = time.Minute // between two requests
	maxHeader  = 16 << 10    // bytes
	maxBody    = 1 << 20     // bytes

	stopTime = 2 * time.Second  // for requests that are being answered when it ends
	toldTime = 10 * time.Second // between two lines of the log that say the same
)

// Options configures Serve.
type Options struct {
	// Connections is how many there are at a time at most. Required.
	Connections int
	// Logger gets what goes wrong, each kind at most every 10 seconds. nil discards it.
	Logger *slog.Logger
}

// Serve answers what comes to l, which it closes, with h until ctx ends; then it returns nil, after two seconds at most for what is
// being answered. Only a listener that somebody else closed ends it with an error: when a connection cannot be accepted, such as
// for want of files, it waits until one can.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o *Options) error {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	guarded := newListener(l, max(opts.Connections, 1), opts.Logger)
	s := &http.Server{
		Handler:           guarded.mark(http.MaxBytesHandler(h, maxBody)),
		ConnContext:       withConn,
		ConnState:         note,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(&errorLog{logger: opts.Logger}, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(guarded) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err := s.Shutdown(stop)
		if errors.Is(err, context.DeadlineExceeded) { // who still reads has had the time
			err = s.Close()
		}
		<-done
		return err
	}
}

// errorLog passes on what net/http says of requests, such as the panic of a handler.
type errorLog struct {
	logger *slog.Logger
	often  rate.Sometimes
}

func (e *errorLog) Write(b []byte) (int, error) {
	e.often.First, e.often.Interval = 1, toldTime
	e.often.Do(func() { e.logger.Warn("http server", "text", strings.TrimSpace(string(b))) })
	return len(b), nil
}
