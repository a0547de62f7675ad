//go:build unix

package tests

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
)

// peerKills is the number of kills in TestForeignTaskIsBegunOnce; A2A_KILLS overrides it.
const peerKills = 6

// slowCrier is an A2A agent that counts how often it begins something.
type slowCrier struct {
	crier

	mu    sync.Mutex
	begun map[string]int
}

// Execute implements [a2asrv.AgentExecutor].
func (c *slowCrier) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := x.Message.Parts[0].Text()
		c.mu.Lock()
		c.begun[said]++
		c.mu.Unlock()
		if !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		for n := range 4 {
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			if !yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateWorking, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(fmt.Sprint("step ", n)))), nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("cried "+said))), nil)
	}
}

// TestForeignTaskIsBegunOnce kills Cortex or an agent of an A2A peer at random, or cuts the peer's connections, while the peer works. Each task has its
// answer, and was begun once.
func TestForeignTaskIsBegunOnce(t *testing.T) {
	kills := peerKills
	if text := os.Getenv("A2A_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("A2A_KILLS: %v", err)
		}
	}
	cortex := cortexPath(t)
	peer, mux := &slowCrier{begun: map[string]int{}}, http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(&a2a.AgentCard{
		Name: "crier", Description: "cries", Version: "1", Capabilities: a2a.AgentCapabilities{Streaming: true}, Skills: []a2a.AgentSkill{{ID: "cry", Name: "cry", Description: "cries"}},
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(server.URL+"/rpc", a2a.TransportProtocolJSONRPC)},
	}))
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "cortex", nil }})
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(peer, a2asrv.WithTaskStore(store))))

	dir := t.TempDir()
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, cortex, append(args, "--data", filepath.Join(dir, "data"))...)
	}
	start := func(args ...string) *exec.Cmd {
		c := run(context.Background(), args...)
		if testing.Verbose() {
			c.Stderr = os.Stderr
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	end := func(c *exec.Cmd) { // kill -9
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	serve := func() *exec.Cmd { return start("serve", "--agents", "none", "--http", "none", "--sync", "always") }
	agent := func() *exec.Cmd { return start("agent", "a2a", server.URL) }
	a, s := agent(), serve()
	t.Cleanup(func() {
		end(a)
		end(s)
	})
	until := func(what string, limit time.Duration, cond func() bool) {
		t.Helper()
		for late := time.Now().Add(limit); !cond(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%s: it does not happen", what)
			}
		}
	}
	until("the agent joins", time.Minute, func() bool {
		out, _ := run(t.Context(), "agents").Output()
		return strings.Contains(string(out), "crier")
	})
	said := map[string]string{}
	for n := range kills {
		line := fmt.Sprintf("line-%d", n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		asked := make(chan string, 1)
		go func() {
			out, _ := run(ctx, "ask", "--context", line, "--agent", "crier", "--skill", "cry", line).CombinedOutput()
			asked <- string(out)
		}()
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		switch n % 3 {
		case 0:
			end(a)
			a = agent()
		case 1:
			end(s)
			s = serve()
		default:
			server.CloseClientConnections()
		}
		said[line] = <-asked
		cancel()
	}
	for line, text := range said {
		until(line+": "+text, 2*time.Minute, func() bool {
			if !strings.Contains(text, "cried "+line) { // the caller was told that Cortex is unavailable
				out, _ := run(t.Context(), "history", line).CombinedOutput()
				text = string(out)
			}
			return strings.Contains(text, "cried "+line)
		})
	}
	peer.mu.Lock()
	defer peer.mu.Unlock()
	begun := 0
	for line := range said {
		if begun += peer.begun[line]; peer.begun[line] != 1 {
			t.Errorf("%s was begun %d times", line, peer.begun[line])
		}
	}
	t.Logf("%d kills, %d tasks, %d foreign executions", kills, len(said), begun)
}
