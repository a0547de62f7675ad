//go:build unix

package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestFlood opens more connections to a service than it may have open files, on both of its ports, and sends nothing, or next to nothing. The service
// must neither end nor report a full disk.
func TestFlood(t *testing.T) {
	for _, keys := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys=%v", keys), func(t *testing.T) {
			t.Parallel()
			s := serveLimited(t, keys, 512)
			s.isReady()
			s.answers()
			web, bus := s.address(`http://([0-9.:]+)/readyz`), s.address(`url=nats://([0-9.:]+)`)
			ctx, cancel := context.WithCancel(t.Context())
			var floods sync.WaitGroup
			for _, f := range []flood{
				{web, ""},
				{web, "GET /readyz HTTP/1.1\r\nHost: x\r\nX-Endless: "},
				{web, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
				{bus, ""},
				{bus, "CONNECT {}\r\nPING\r\n"},
				{bus, "PING"},
			} {
				reached := make(chan struct{})
				floods.Go(func() { f.run(ctx, reached) })
				select {
				case <-reached:
				case <-s.ended:
					t.Fatalf("the service ends:\n%s", s.log)
				}
			}
			for range 10 {
				s.answers()
			}
			cancel()
			floods.Wait()
			s.answers()
			s.stop()
			if text := s.log.String(); strings.Contains(text, "disk") || strings.Contains(text, "too many open files") {
				t.Errorf("the service says:\n%s", text)
			}
			if n := strings.Count(s.log.String(), "\n"); n > 300 {
				t.Errorf("the service says %d lines", n)
			}
		})
	}
}

// TestFewFiles checks that a service logs that its limit of open files is too low.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	s := serveLimited(t, false, 100)
	s.isReady()
	if text := s.log.String(); !strings.Contains(text, "few files may be open") || !strings.Contains(text, "ulimit -n") {
		t.Errorf("the log says:\n%s", text)
	}
	res, err := http.Get("http://" + s.address(`http://([0-9.:]+)/readyz`) + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), "this process may have 100 files open") {
		t.Errorf("/readyz says %q, %v", body, err)
	}
	s.stop()
}

// connections is the number of connections of each flood.
const connections = 200

// flood is a client that connects repeatedly, sends something, and waits.
type flood struct{ address, says string }

// run keeps connections open until ctx ends, replacing closed ones. It closes reached when it has as many as it wants.
func (f flood) run(ctx context.Context, reached chan<- struct{}) {
	open := make(chan net.Conn, connections)
	defer func() {
		close(open)
		for c := range open {
			c.Close()
		}
	}()
	pace := time.NewTicker(10 * time.Millisecond) // six floods leave a busy machine some time for the service
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; <-pace.C {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", f.address)
		if err != nil {
			continue // the backlog is full
		}
		io.WriteString(c, f.says) //nolint:errcheck // it may be closed already
		if len(open) == cap(open) {
			(<-open).Close()
		}
		open <- c
		if n++; n == connections {
			close(reached)
		}
	}
}

// service is a cortex with a low limit of open files.
type service struct {
	t     *testing.T
	path  string
	data  string
	cmd   *exec.Cmd
	log   *lines
	ended chan struct{}
}

func serveLimited(t *testing.T, keys bool, files int, more ...string) *service {
	t.Helper()
	path := cortexPath(t)
	s := &service{t: t, path: path, data: t.TempDir(), log: new(lines), ended: make(chan struct{})}
	args := append([]string{"serve", "--data", s.data, "--http", "127.0.0.1:0", "--agents", "echo"}, more...)
	if keys {
		dir := filepath.Join(s.data, "auth")
		if out, err := exec.Command(path, "auth", "init", dir, "--data", s.data).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		args = append(args, "--auth", dir)
	}
	s.cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files), path}, args...)...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait() //nolint:errcheck // the state is what counts
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-s.ended
	})
	return s
}

// address waits until the log contains an address.
func (s *service) address(pattern string) string {
	s.t.Helper()
	p := regexp.MustCompile(pattern)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-poll.C {
		if m := p.FindStringSubmatch(s.log.String()); m != nil {
			return m[1]
		}
	}
	s.t.Fatalf("the log never has %s:\n%s", pattern, s.log)
	return ""
}

// isReady waits until the service accepts work.
func (s *service) isReady() {
	s.t.Helper()
	url := "http://" + s.address(`http://([0-9.:]+)/readyz`) + "/readyz"
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-poll.C {
		if r, err := http.Get(url); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
	}
	s.t.Fatalf("it is never ready; the log:\n%s", s.log)
}

// answers checks that a new client gets an answer to a health check and to a turn.
func (s *service) answers() {
	s.t.Helper()
	url := "http://" + s.address(`http://([0-9.:]+)/readyz`) + "/readyz"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get(url)
	if err != nil {
		s.t.Fatalf("%v; the log:\n%s", err, s.log)
	}
	b, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		s.t.Fatalf("/readyz = %d %s; the log:\n%s", r.StatusCode, b, s.log)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.path, "ask", "--data", s.data, "Echo this!").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("this!")) {
		s.t.Fatalf("ask: %v: %s; the log:\n%s", err, out, s.log)
	}
}

func (s *service) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("%v; the log:\n%s", err, s.log)
	}
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("exit status %d; the log:\n%s", code, s.log)
	}
}

// lines is a buffer that is safe for concurrent use.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
