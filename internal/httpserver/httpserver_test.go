package httpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// wire is a listener whose connections are in memory, so that a test controls their time.
type wire struct {
	conns  chan net.Conn
	errs   chan error
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire {
	return &wire{conns: make(chan net.Conn), errs: make(chan error, 10), closed: make(chan struct{})}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case err := <-w.errs:
		return nil, err
	default:
	}
	select {
	case err := <-w.errs:
		return nil, err
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

func (w *wire) dial() net.Conn {
	here, there := net.Pipe()
	w.conns <- there
	return here
}

// strangers has forty clients connect again and again, do something, and wait until they are cut off, until w is closed. The caller of gone waits for that.
func (w *wire) strangers(do func(net.Conn)) (gone func()) {
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for ; ; time.Sleep(10 * time.Millisecond) {
				here, there := net.Pipe()
				select {
				case w.conns <- there:
					do(here)
					io.Copy(io.Discard, here) //nolint:errcheck // until it is closed
				case <-w.closed:
					return
				}
			}
		})
	}
	return func() {
		all.Wait()
		time.Sleep(2 * time.Second) // until what they do has noticed it
	}
}

// serve runs h until the test calls the returned function.
func serve(t *testing.T, h http.HandlerFunc, o *httpserver.Options) (w *wire, stop func()) {
	t.Helper()
	w = newWire()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- httpserver.Serve(ctx, w, h, o) }()
	return w, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, c net.Conn, request string) (int, string) {
	t.Helper()
	go io.WriteString(c, request) //nolint:errcheck // the answer tells
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return r.StatusCode, err.Error()
	}
	return r.StatusCode, string(b)
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// ended reads until the server has closed c, and returns how long that took.
func ended(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	io.Copy(io.Discard, c) //nolint:errcheck // the end counts
	return time.Since(began)
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// TestQuietConnectionsMakeRoom checks that silent clients do not keep out others, whether they have sent nothing, half a header or a whole request
// before.
func TestQuietConnectionsMakeRoom(t *testing.T) {
	for name, sends := range map[string]string{"nothing": "", "half a header": "GET / HTTP/1.1\r\nX: y", "one request": get} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w, stop := serve(t, hello, &httpserver.Options{Connections: 8, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				var quiet []net.Conn
				for range 100 {
					c := w.dial()
					if sends == get {
						ask(t, c, get)
					} else if sends != "" {
						io.WriteString(c, sends) //nolint:errcheck // it may be closed by now
					}
					quiet = append(quiet, c)
					if code, body := ask(t, w.dial(), get); code != 200 || body != "hello" {
						t.Fatalf("beside %d quiet connections: %d %s", len(quiet), code, body)
					}
				}
				synctest.Wait()
				open := 0
				for _, c := range quiet {
					c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
						open++
					}
				}
				if open > 8 {
					t.Errorf("%d of 100 quiet connections are open, want at most 8", open)
				}
				// A client with an answer may be closed before the next one connects, since each gets only one answer while all connections are taken. A silent
				// client is not.
				for range 9 {
					quiet = append(quiet, w.dial())
				}
				synctest.Wait()
				if got := strings.Count(log.String(), "all connections are taken"); got != 1 {
					t.Errorf("it is told %d times, want once:\n%s", got, &log)
				}
				for _, c := range quiet {
					c.Close()
				}
				stop()
			})
		})
	}
}

// newCertificate returns the configurations of a server and of a client that trusts it.
func newCertificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: pool, ServerName: "example.com"}
}

// TestHandlersAtWorkGoLast checks that a running request is not ended for a client that only connects, with TLS and without.
func TestHandlersAtWorkGoLast(t *testing.T) {
	server, client := newCertificate(t)
	for name, o := range map[string]*httpserver.Options{"plain": {Connections: 4}, "TLS": {Connections: 4, TLS: server}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				w, stop := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					<-goOn
					fmt.Fprint(w, "done")
				}, o)
				answer := make(chan string, 1)
				go func() {
					c := w.dial()
					if o.TLS != nil {
						c = tls.Client(c, client)
					}
					_, body := ask(t, c, get)
					answer <- body
					ended(t, c)
				}()
				synctest.Wait()
				time.Sleep(2 * time.Second) // until the handler is older than any grace
				var quiet []net.Conn
				for range 20 {
					time.Sleep(time.Millisecond) // so that the connection with the handler is the quietest
					quiet = append(quiet, w.dial())
				}
				close(goOn)
				if got := <-answer; got != "done" {
					t.Errorf("the answer is %q", got)
				}
				for _, c := range quiet {
					c.Close()
				}
				stop()
			})
		})
	}
}

// TestThoseWhoComeAgain checks forty clients that reconnect as soon as they are closed, at a listener for eight connections: another client that
// connects, and sends its request as soon as a network allows, gets its answer in turn.
func TestThoseWhoComeAgain(t *testing.T) {
	for name, do := range map[string]func(net.Conn){
		"with nothing":           func(net.Conn) {},
		"with half a header":     func(c net.Conn) { go trickle(c, "GET / HTTP/1.1\r\nX: ") },
		"with too long a header": func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nX: "+strings.Repeat("y", 40_000)) }, //nolint:errcheck // it is closed
		"with a body":            func(c net.Conn) { go trickle(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n") },
		"and read no answer": func(c net.Conn) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, get) // blocks until the connection is closed
			}
		},
		"with many requests": func(c net.Conn) {
			go func() {
				for err := error(nil); err == nil; {
					_, err = io.WriteString(c, get)
				}
			}()
		},
		"and go": func(c net.Conn) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(300 * time.Millisecond)
					hello(w, r)
				}, &httpserver.Options{Connections: 8})
				gone := w.strangers(do)
				for range 20 {
					began := time.Now()
					c := w.dial()
					time.Sleep(50 * time.Millisecond)
					if code, body := ask(t, c, get); code != 200 || body != "hello" {
						t.Errorf("who asks gets %d %s", code, body)
					}
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("the answer took %v", took)
					}
					c.Close()
				}
				stop()
				gone()
			})
		})
	}
}

// TestOnePersonsCalls checks that somebody whose calls take all connections, and who makes them again and again, ends none of anybody else's, and keeps
// nobody waiting for long.
func TestOnePersonsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
			httpserver.By(r.Context(), r.URL.Path)
			if r.URL.Path == "/other" {
				if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
					t.Error(err)
				}
				<-goOn
			}
			io.Copy(io.Discard, r.Body) //nolint:errcheck // it may be cut off
			hello(w, r)
		}, &httpserver.Options{Connections: 8})
		answer := make(chan string, 1)
		other := w.dial()
		go func() {
			_, body := ask(t, other, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
			answer <- body
		}()
		synctest.Wait()
		gone := w.strangers(func(c net.Conn) { go trickle(c, "POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n") })
		for range 20 {
			began := time.Now()
			c := w.dial()
			if code, body := ask(t, c, get); code != 200 || body != "hello" {
				t.Errorf("who asks gets %d %s", code, body)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the answer took %v", took)
			}
			c.Close()
		}
		close(goOn)
		if got := <-answer; got != "hello" {
			t.Errorf("who has waited gets %q", got)
		}
		other.Close()
		stop()
		gone()
	})
}

// TestTimes checks that no client has a connection for longer than a request takes.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // it comes too slowly
			io.Copy(w, &zeros{1 << 30}) //nolint:errcheck // nobody reads it
		}, &httpserver.Options{Connections: 10})
		if got := ended(t, w.dial()); got > 6*time.Second {
			t.Errorf("silence ends after %v", got)
		}
		header := w.dial()
		go trickle(header, "GET / HTTP/1.1\r\nX: ")
		if got := ended(t, header); got > 6*time.Second {
			t.Errorf("half a header ends after %v", got)
		}
		body := w.dial()
		go trickle(body, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
		if got := ended(t, body); got > 70*time.Second {
			t.Errorf("half a body ends after %v", got)
		}
		deaf := w.dial()
		io.WriteString(deaf, get) //nolint:errcheck // see below
		time.Sleep(40 * time.Second)
		deaf.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.Copy(io.Discard, deaf); err != nil {
			t.Errorf("an answer that nobody reads: %v, want its end", err)
		}
		stop()
	})
}

type zeros struct{ n int }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n -= len(b); z.n < 0 {
		return 0, io.EOF
	}
	return len(b), nil
}

// trickle sends the beginning, and then a byte a second.
func trickle(c net.Conn, beginning string) {
	_, err := io.WriteString(c, beginning)
	for ; err == nil; _, err = c.Write([]byte("x")) {
		time.Sleep(time.Second)
	}
}

// TestStream runs the handler of the package documentation for ten minutes.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			for range 600 {
				if err := c.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Error(err)
				}
				fmt.Fprint(w, "x")
				if err := c.Flush(); err != nil || r.Context().Err() != nil {
					t.Errorf("the stream ends: %v, %v", err, r.Context().Err())
					return
				}
				time.Sleep(time.Second)
			}
		}, &httpserver.Options{Connections: 4})
		c := w.dial()
		if _, body := ask(t, c, get); len(body) != 600 {
			t.Errorf("%d pieces came, want 600", len(body))
		}
		c.Close()
		stop()
	})
}

// TestNoFilesLeft checks that a listener that cannot accept connections continues when it can, and logs its advice once.
func TestNoFilesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w, stop := serve(t, hello, &httpserver.Options{Connections: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := w.dial()
		for range 10 {
			w.errs <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		}
		if code, body := ask(t, c, get); code != 200 {
			t.Errorf("%d %s", code, body)
		}
		c.Close()
		next := w.dial() // accepted when no error is left
		if code, body := ask(t, next, get); code != 200 {
			t.Errorf("after the errors: %d %s", code, body)
		}
		next.Close()
		if text := log.String(); strings.Count(text, "no connection can be accepted") != 1 || !strings.Contains(text, "ulimit -n") {
			t.Errorf("it is told as:\n%s", text)
		}
		stop()
	})
}

// TestSizes sends requests that are too large, and makes a handler panic.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("a handler's")
			}
			var tooLarge *http.MaxBytesError
			if _, err := io.Copy(io.Discard, r.Body); errors.As(err, &tooLarge) {
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			}
		}, &httpserver.Options{Connections: 4})
		for request, want := range map[string]int{
			"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 40_000) + "\r\n\r\n":                    http.StatusRequestHeaderFieldsTooLarge,
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1100000\r\n\r\n" + strings.Repeat("y", 1_100_000): http.StatusRequestEntityTooLarge,
			"GET /panic HTTP/1.1\r\nHost: x\r\n\r\n":                                                         0,
			get:                                                                                              http.StatusOK,
		} {
			c := w.dial()
			if code, body := ask(t, c, request); code != want {
				t.Errorf("%.40q = %d %s, want %d", request, code, body, want)
			}
			c.Close()
		}
		stop()
	})
}
