package cli

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// cutAt listens for clients of the server at url, and cuts each connection as soon as its client says word; cut is called before.
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

// TestChatJoinsOneThatEnds has a chat join a Cortex that ends before the chat has looked for the conversations, or before it has the list of
// agents: it starts its own at once, and says nothing of a connection that its user never had.
func TestChatJoinsOneThatEnds(t *testing.T) {
	for word, passing := range map[string]bool{"CORTEX_LOG": true, "CONSUMER.CREATE.KV_CORTEX_AGENTS": false} {
		t.Run(word, func(t *testing.T) { chatJoinsOneThatEnds(t, word, passing) })
	}
}

func chatJoinsOneThatEnds(t *testing.T, word string, passing bool) {
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	data := t.TempDir()
	own, err := claimData(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(own.release)
	defer release()
	var asked atomic.Int32
	url := cutAt(t, server.URL(), word, func() {
		asked.Add(1)
		release()
	})
	if err := leaveAddress(data, address{URL: url, Passing: passing}); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), []string{"chat", "--data", data}, strings.NewReader("Echo this!"), &stdout, &stderr)
	if code != exitOK || stdout.String() != "Echo: Echo this!\n" || stderr.Len() > 0 {
		t.Errorf("chat = %d, %q, %q, want the answer and nothing else", code, &stdout, &stderr)
	}
	if n := asked.Load(); n < 1 || n > 5 { // one, if this machine is not busy
		t.Errorf("the chat asked %d times at the address of the one that had ended, want once", n)
	}
}
