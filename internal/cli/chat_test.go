package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// cutAt is a proxy for the server at url, which cuts each connection as soon as its client sends word, after calling cut.
func cutAt(t *testing.T, url, word string, cut func()) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	pass := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		running.Go(func() {
			_, _ = io.Copy(client, server)
			client.Close()
		})
		for r := bufio.NewReader(client); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			if bytes.Contains(line, []byte(word)) {
				cut()
				return
			}
			if _, err := server.Write(line); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { pass(client) })
		}
	})
	return "nats://" + l.Addr().String()
}

// TestChatJoinsOneThatEnds lets a chat join a Cortex that ends before the chat has read the conversations: the chat starts its own at once, and does
// not mention the lost connection.
func TestChatJoinsOneThatEnds(t *testing.T) {
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	data := t.TempDir()
	var out bytes.Buffer
	if code := Run(t.Context(), []string{"ask", "--data", data, "Echo this!"}, strings.NewReader(""), &out, &out); code != exitOK { // so that there is a store
		t.Fatalf("ask = %d, %s", code, &out)
	}
	own, err := datadir.Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(own.Release)
	defer release()
	var asked atomic.Int32
	url := cutAt(t, server.URL(), "CORTEX_LOG", func() {
		asked.Add(1)
		release()
	})
	if err := datadir.LeaveAddress(data, datadir.Address{URL: url, Passing: true}); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), []string{"chat", "--data", data}, strings.NewReader("Echo this!"), &stdout, &stderr)
	if code != exitOK || stdout.String() != "Echo: Echo this!\n" || stderr.Len() > 0 {
		t.Errorf("chat = %d, %q, %q, want the answer and nothing else", code, &stdout, &stderr)
	}
	if n := asked.Load(); n < 1 || n > 5 { // one, unless this machine is busy
		t.Errorf("the chat asked %d times at the address of the one that had ended, want once", n)
	}
}

// TestEntrance ends a Cortex while a chat joins it, and after that: until the chat has joined it starts over without a message to its user; later the
// user is told.
func TestEntrance(t *testing.T) {
	for _, within := range []bool{true, false} {
		server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		data := t.TempDir()
		own, err := datadir.Take(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Release()
		if err := datadir.LeaveAddress(data, datadir.Address{URL: server.URL()}); err != nil {
			t.Fatal(err)
		}
		s := &settings{program: self, data: data, node: newNodeSettings(self, ownAgents...)}
		joining, end := context.WithCancel(t.Context())
		defer end()
		in, told := &entrance{end: end}, make(chan bool, 10)
		l, err := s.joinEntering(joining, in, slog.New(slog.DiscardHandler), func(up bool, _ error) { told <- up })
		if err != nil || l == nil {
			t.Fatalf("enter() = %v, %v", l, err)
		}
		defer l.Close()
		if !within {
			if err := in.settle(nil); err != nil {
				t.Errorf("settle() = %v", err)
			}
			server.Shutdown()
			if <-told {
				t.Error("the connection is told to be there")
			}
			continue
		}
		server.Shutdown()
		<-joining.Done()
		if err := in.settle(nil); !errors.Is(err, transport.ErrUnavailable) || len(told) > 0 {
			t.Errorf("settle() = %v, and %d were told, want ErrUnavailable and nobody", err, len(told))
		}
	}
}
