package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/mcp"
	"github.com/cortex-orchestrator/cortex/client"
)

// idle returns a server that knows no agents.
func idle() *mcp.Server {
	return mcp.New(mcp.Config{Client: &client.Client{}, Agents: func(context.Context) ([]*a2a.AgentCard, error) { return nil, nil }})
}

// TestLinesThatAreNoMessages has a host write what is no message between two that are.
func TestLinesThatAreNoMessages(t *testing.T) {
	in, host := io.Pipe()
	out, server := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- idle().Serve(t.Context(), in, server)
		server.Close()
	}()
	read := bufio.NewReaderSize(out, 1<<20)
	say := func(line string) (code int, text string) {
		t.Helper()
		go fmt.Fprint(host, line+"\n")
		text, err := read.ReadString('\n')
		must(t, err)
		var m struct{ Error struct{ Code int } }
		must(t, json.Unmarshal([]byte(text), &m))
		return m.Error.Code, text
	}
	for _, test := range []struct {
		line string
		code int
	}{
		{"hello", -32700},
		{initialize, 0},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n\n \n{", -32700},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`, -32600},
		{"null", -32600},
		{`{"id":3}`, -32600},
		{strings.Repeat("x", 17<<20), -32600},
		{`{"jsonrpc":"2.0","id":4,"method":"ping"}`, 0},
	} {
		if code, text := say(test.line); code != test.code {
			t.Errorf("%.60s: %.300s, want the code %d", test.line, text, test.code)
		}
	}
	host.Close()
	must(t, <-ended)
}

// TestHostThatDoesNotRead has hosts that read nothing close their end, or end the server.
func TestHostThatDoesNotRead(t *testing.T) {
	said := initialize + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for i := range 100 {
		said += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`+"\n", i+2)
	}
	for name, end := range map[string]func(in *io.PipeWriter, stop func()){
		"standard input ends": func(in *io.PipeWriter, _ func()) { in.Close() },
		"it is told to end":   func(_ *io.PipeWriter, stop func()) { stop() },
		"garbage, then it ends": func(in *io.PipeWriter, _ func()) {
			go func() {
				fmt.Fprintln(in, "hello")
				in.Close()
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				in, host := io.Pipe()
				unread, out := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- idle().Serve(ctx, in, out) }()
				fmt.Fprint(host, said)
				synctest.Wait()
				end(host, stop)
				select {
				case err := <-ended:
					must(t, err)
				case <-time.After(24 * time.Hour):
					t.Error("it goes on")
				}
				unread.Close()
				host.Close()
				in.Close()
			})
		})
	}
}

// TestLastLineIsAnswered has what is said come from a pipe, that ends at once.
func TestLastLineIsAnswered(t *testing.T) {
	for range 100 {
		var out strings.Builder
		must(t, idle().Serve(t.Context(), strings.NewReader(initialize), &out))
		if !strings.Contains(out.String(), "protocolVersion") {
			t.Fatalf("the answer is %q", out.String())
		}
	}
}
