// Package httpserver is the HTTP server for every port of Cortex. Any client, with or without a key, can use only a bounded number of connections,
// for a bounded time, with requests of a bounded size.
//
// When all connections of a listener are taken, the server closes one for each new one: first the one that has waited longest for a request, last
// one with a running handler, of whoever has most of these where handlers say for whom they work, see [By]. It closes none before its client had time to
// send a request, or while a request has just begun; the new connection waits instead. While all connections are taken, each gets only one answer. So
// neither silent clients nor clients that reconnect again and again keep others out.
//
// A handler has 30 seconds from the first byte of its request to read all of it, and as long to write its answer. A handler that streams or waits
// extends that time, one piece at a time:
//
//	c := http.NewResponseController(w)
//	for … {
//		c.SetWriteDeadline(time.Now().Add(10 * time.Second))
//		w.Write(piece)
//		c.Flush()
//	}
//
// SetReadDeadline does the same for a handler that reads a long body. The request's context ends when the client disconnects, not with these
// deadlines.
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Limits of a request.
const (
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second // of a request including its body
	writeTime  = 30 * time.Second
	idleTime   = time.Minute // between two requests
	maxHeader  = 16 << 10    // bytes
	maxBody    = 1 << 20     // bytes

	stopTime = 2 * time.Second  // for running requests when Serve ends
	toldTime = 10 * time.Second // between two equal lines of the log
)

// Options configures Serve.
type Options struct {
	// Connections bounds the open connections. Required.
	Connections int
	// Body bounds a request's body, in bytes; 0 means 1 MiB.
	Body int64
	// TLS has the server speak TLS, without HTTP/2, whose requests share a connection; nil: it does not.
	TLS *tls.Config
	// Logger gets errors, each kind at most every 10 seconds. nil discards them.
	Logger *slog.Logger
}

// Serve serves h on l, which it closes, until ctx ends; then it returns nil, after at most two seconds for running requests. It returns an error
// only when another goroutine closes l: when it cannot accept a connection, for example because no file is left, it tries again.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o *Options) error {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Body = cmp.Or(max(opts.Body, 0), maxBody)
	guarded := newListener(l, max(opts.Connections, 1), opts.Logger)
	s := &http.Server{
		Handler:           guarded.mark(http.MaxBytesHandler(h, opts.Body)),
		ConnContext:       withConn,
		ConnState:         note,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(&errorLog{logger: opts.Logger}, "", 0),
	}
	serve := s.Serve
	if opts.TLS != nil {
		s.TLSConfig, s.Protocols = opts.TLS.Clone(), new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	done := make(chan error, 1)
	go func() { done <- serve(guarded) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err := s.Shutdown(stop)
		if errors.Is(err, context.DeadlineExceeded) { // running requests have had their time
			err = s.Close()
		}
		<-done
		return err
	}
}

// errorLog logs what net/http reports of requests, such as the panic of a handler.
type errorLog struct {
	logger *slog.Logger
	often  rate.Sometimes
}

func (e *errorLog) Write(b []byte) (int, error) {
	e.often.First, e.often.Interval = 1, toldTime
	e.often.Do(func() { e.logger.Warn("http server", "text", strings.TrimSpace(string(b))) })
	return len(b), nil
}
