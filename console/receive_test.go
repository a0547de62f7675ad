package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// slowBody is a body that stops before its end, and fails when goOn is closed.
type slowBody struct {
	text  io.Reader
	stuck chan struct{} // closed when all but the end was read
	goOn  chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if n, err := b.text.Read(p); err == nil {
		return n, nil
	}
	close(b.stuck)
	<-b.goOn
	return 0, errors.New("gone")
}

func (b *slowBody) Close() error { return nil }

// TestManyForms has a person send many large forms at the same time, none to its end: only a part of them is read into memory, while large forms of
// somebody else are, and small ones of the same person.
func TestManyForms(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	cookie := "cortex_" + must1(url.Parse(w.url))(t).Port()
	multipart := "multipart/form-data; boundary=b"
	field := "--b\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n"
	file := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 100<<10) + "\r\n"
	for name, form := range map[string]struct{ kind, body string }{
		"a text":  {"application/x-www-form-urlencoded", "text=" + strings.Repeat("x", 3<<20)},
		"a field": {multipart, field + strings.Repeat("x", 1<<20-100)},
		"files":   {multipart, strings.Repeat(file, 40) + "--b\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			goOn := make(chan struct{})
			send := func(ctx context.Context, who string) (body *slowBody, ended chan struct{}) {
				body = &slowBody{strings.NewReader(form.body), make(chan struct{}), goOn}
				r := httptest.NewRequestWithContext(ctx, "POST", w.url+"c/x/say", body)
				r.ContentLength = int64(len(form.body)) + 1
				r.Header.Set("Content-Type", form.kind)
				r.AddCookie(&http.Cookie{Name: cookie, Value: who})
				ended = make(chan struct{})
				go func() {
					defer close(ended)
					w.pages.ServeHTTP(httptest.NewRecorder(), r)
				}()
				return body, ended
			}
			gone, cancel := context.WithCancel(t.Context()) // nobody waits for room
			cancel()
			var held []<-chan struct{}
			for range 20 {
				body, ended := send(gone, "ada")
				select {
				case <-body.stuck:
					held = append(held, ended)
				case <-ended:
				}
			}
			if n := len(held) * len(form.body); n == 0 || n > 17<<20 {
				t.Errorf("%d bytes of one person's forms are read", n)
			}
			body, ended := send(t.Context(), "bob")
			select {
			case <-body.stuck:
			case <-ended:
				t.Error("the form of another person is not read")
			}
			anyone := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			if code, text := status(t, anyone, "POST", w.url+"c/x/say", "text=hello", "Cookie", cookie+"=ada"); code != http.StatusSeeOther {
				t.Errorf("a small form of the same person answers %d %s", code, text)
			}
			close(goOn)
			for _, ended := range append(held, ended) {
				<-ended
			}
			goOn = make(chan struct{})
			body, ended = send(gone, "ada")
			select {
			case <-body.stuck:
			case <-ended:
				t.Error("the room is not given back")
			}
			close(goOn)
			<-ended
		})
	}
	if code, _ := status(t, w.browser(), "POST", w.url+"c/x/say", "text="+strings.Repeat("x", 5<<20), "Cookie", cookie+"=ada"); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of 5 MiB answers %d", code)
	}
}

// TestManyConnections has ada's forms take all connections, again and again: the stream of bob goes on.
func TestManyConnections(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	w.ask("x", "hello")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		_ = httpserver.Serve(ctx, l, w.pages, &httpserver.Options{Connections: 8, Body: console.MaxBody})
	})
	at := l.Addr().String()
	cookie := "cortex_" + must1(url.Parse("http://"+at))(t).Port()
	listening, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := http.NewRequestWithContext(listening, http.MethodGet, "http://"+at+"/activity/events", http.NoBody)
	must(t, err)
	r.AddCookie(&http.Cookie{Name: cookie, Value: "bob"})
	stream, err := http.DefaultClient.Do(r)
	must(t, err)
	defer stream.Body.Close()
	ended := make(chan bool, 1)
	go func() {
		_, _ = io.Copy(io.Discard, stream.Body)
		ended <- listening.Err() == nil
	}()
	var cut atomic.Int32
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
				if err != nil {
					continue
				}
				over := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = fmt.Fprintf(c, "POST /c/x/say HTTP/1.1\r\nHost: %s\r\nCookie: %s=ada\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n", at, cookie)
				_, _ = io.Copy(io.Discard, c) // until it is closed
				_ = c.Close()
				over()
				cut.Add(1)
			}
		})
	}
	until(t, "many are closed for others", func() bool { return cut.Load() >= 40 })
	stop()
	if <-ended {
		t.Error("the stream of somebody else has ended")
	}
}

// noShelf is a bus without room for files.
type noShelf struct{ *memory.Bus }

func (noShelf) PutChunk(context.Context, transport.Object, int, []byte) error {
	return fmt.Errorf("%w: delete conversations", transport.ErrFilesFull)
}

// TestNoRoomForFiles has a person send a file that there is no room for: the page says so, and that it is no fault of Cortex.
func TestNoRoomForFiles(t *testing.T) {
	w := newWorld(t, func(c *console.Config) {
		c.Client.Transport = noShelf{c.Client.Transport.(*memory.Bus)}
		c.Identify = func(token string) (console.Person, error) { return console.Person{User: "user:" + token}, nil }
	})
	body := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 2*transport.MaxInlineFile) + "\r\n--b--\r\n"
	r := httptest.NewRequestWithContext(t.Context(), "POST", w.url+"c/x/say", strings.NewReader(body))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	r.AddCookie(&http.Cookie{Name: "cortex_" + must1(url.Parse(w.url))(t).Port(), Value: "ada"})
	said := httptest.NewRecorder()
	w.pages.ServeHTTP(said, r)
	if said.Code != http.StatusInsufficientStorage || !strings.Contains(said.Body.String(), "there is no room for more files: delete conversations") {
		t.Errorf("%d %s, want 507 with the reason", said.Code, said.Body)
	}
}
