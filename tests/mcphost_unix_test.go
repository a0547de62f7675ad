//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpTurn is what a tool of cortex mcp returns of a turn.
type mcpTurn struct {
	State    string `json:"state"`
	ID       string `json:"turn_id"`
	Answer   string `json:"answer"`
	Question string `json:"question"`
}

// host is a program that has Cortex as a tool.
type host struct {
	*sdk.ClientSession
	t     *testing.T
	forms int // how often its user was asked
}

// newHost connects, and says yes to what is asked.
func newHost(t *testing.T, transport sdk.Transport, era string) *host {
	t.Helper()
	h := &host{t: t}
	var err error
	h.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			h.forms++
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reply": "yes"}}, nil
		},
	}).Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func (h *host) call(tool string, args map[string]any) (turn mcpTurn, err error) {
	r, err := h.CallTool(h.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return turn, err
	}
	b, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &turn)
	}
	if err == nil && turn.State == "" {
		err = fmt.Errorf("%s: %v", tool, r.Content[0].(*sdk.TextContent).Text)
	}
	return turn, err
}

// TestMCPHost has hosts of each revision ask a real Cortex, by cortex mcp and over HTTP: something that needs a yes, and something that takes longer
// than they wait, while Cortex is killed. Each gets its answer, and nothing is asked twice.
func TestMCPHost(t *testing.T) {
	cortex := cortexPath(t)
	dir := t.TempDir()
	gate, card, policy := filepath.Join(dir, "gate"), filepath.Join(dir, "card.yaml"), filepath.Join(dir, "policy.yaml")
	writeFile(t, card, "name: slow\ndescription: takes its time\nskills: [{id: dawdle, name: dawdle, description: takes its time}]\n")
	writeFile(t, policy, "rules: [{agents: [agent_echo], confirm: true}]\n")
	run := func(args ...string) *exec.Cmd {
		c := exec.Command(cortex, args...)
		c.Env = append(os.Environ(), "CORTEX_POLICY="+policy, "CORTEX_DATA="+filepath.Join(dir, "data"))
		return c
	}
	start := func(args ...string) (end func()) {
		c := run(args...)
		c.Stderr = os.Stderr
		if !testing.Verbose() {
			c.Stderr = nil
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return func() { // kill -9
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	address := freeAddress(t)
	serve := func() func() { return start("serve", "--http", address, "--sync", "always") }
	kill := serve()
	t.Cleanup(func() { kill() })
	t.Cleanup(start("agent", "exec", "--card", card, "--", "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.05; done; echo finished`, gate))
	eventually := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !cond(); <-time.After(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: it does not happen", what)
			}
		}
	}
	eventually("the agent joins", func() bool {
		out, _ := run("agents").Output()
		return strings.Contains(string(out), "slow")
	})
	stdio := func(era string) *host {
		return newHost(t, &sdk.CommandTransport{Command: run("mcp", "--wait", "20s")}, era)
	}
	http := func(era string) *host {
		return newHost(t, &sdk.StreamableClientTransport{Endpoint: "http://" + address + "/mcp", DisableStandaloneSSE: true}, era)
	}
	waiting := map[*host]mcpTurn{}
	for _, era := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for _, h := range []*host{stdio(era), http(era)} {
			got, err := h.call("ask_agent", map[string]any{"agent": "agent_echo", "text": "hello " + era})
			if err != nil || got.State != "completed" || got.Answer != "Echo: hello "+era || h.forms != 1 {
				t.Errorf("%s: what needs a yes = %+v, %v, asked %d times", era, got, err, h.forms)
			}
		}
		h := stdio(era)
		got, err := h.call("ask_agent", map[string]any{"agent": "slow", "text": "work " + era, "wait_seconds": 1})
		if err != nil || got.State != "working" && got.State != "unknown" {
			t.Fatalf("%s: what takes long = %+v, %v", era, got, err)
		}
		waiting[h] = got
	}
	kill()
	kill = serve()
	for h, turn := range waiting { // in the midst of it
		if got, err := h.call("get_turn", map[string]any{"turn_id": turn.ID, "wait_seconds": 1}); err == nil && got.State == "completed" {
			t.Errorf("too early: %+v", got)
		}
	}
	writeFile(t, gate, "")
	for h, turn := range waiting {
		var got mcpTurn
		eventually("the answer", func() bool {
			got, _ = h.call("get_turn", map[string]any{"turn_id": turn.ID, "wait_seconds": 1})
			return got.State == "completed" || got.State == "failed"
		})
		if strings.TrimSpace(got.Answer) != "finished" {
			t.Errorf("the answer is %+v", got)
		}
		if again, err := http("2026-07-28").call("get_turn", map[string]any{"turn_id": turn.ID, "wait_seconds": 1}); err != nil || again.Answer != got.Answer {
			t.Errorf("for another host it is %+v, %v", again, err)
		}
	}
	out, err := run("conversations", "--json").Output()
	if n := strings.Count(string(out), `"contextId"`); err != nil || n != 9 {
		t.Errorf("%d conversations, want 9, %v", n, err)
	}
}
