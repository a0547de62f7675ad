//go:build unix

package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// toolKills is the number of kills in TestToolIsCalledOnce; MCP_KILLS overrides it.
const toolKills = 4

// TestToolIsCalledOnce kills Cortex, an agent of an MCP server, or the server at random while a tool writes lines to a file. Each line is written
// once, or its task reports that the outcome is unknown.
func TestToolIsCalledOnce(t *testing.T) {
	kills := toolKills
	if text := os.Getenv("MCP_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("MCP_KILLS: %v", err)
		}
	}
	cortex := cortexPath(t)
	dir := t.TempDir()
	notes, pid, policy := filepath.Join(dir, "notes"), filepath.Join(dir, "pid"), filepath.Join(dir, "policy.yaml")
	writeFile(t, policy, "rules: [{agents: [mcp_box], confirm: false}]\n")
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, cortex, append(args, "--data", filepath.Join(dir, "data"))...)
		c.Env = append(os.Environ(), "CORTEX_POLICY="+policy)
		return c
	}
	start := func(args ...string) *exec.Cmd {
		c := run(context.Background(), args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	end := func(c *exec.Cmd) {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	serve := func() *exec.Cmd { return start("serve", "--agents", "none", "--http", "none", "--sync", "always") }
	config := filepath.Join(dir, "servers.json")
	writeFile(t, config, fmt.Sprintf(`{"mcpServers": {"box": {"command": "toolbox", "args": [%q], "env": {"TOOLBOX_PID": %q}}}}`, notes, pid))
	agent := func() *exec.Cmd { return start("agent", "mcp", "box", "--config", config) }
	a, s := agent(), serve()
	t.Cleanup(func() {
		end(a)
		end(s)
	})
	online := time.Now().Add(time.Minute)
	for {
		out, _ := run(t.Context(), "agents").Output()
		if strings.Contains(string(out), "mcp_box") {
			break
		}
		if time.Now().After(online) {
			t.Fatal("the agent does not join")
		}
		time.Sleep(50 * time.Millisecond)
	}
	said := map[string]string{} // the result of each line
	for n := range kills {
		line := fmt.Sprintf("line-%d", n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		asked := make(chan string, 1)
		go func() {
			out, _ := run(ctx, "ask", "--context", line, "--agent", "mcp_box", "--skill", "note", line).CombinedOutput()
			asked <- string(out)
		}()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		switch n % 3 {
		case 0:
			end(s)
			s = serve()
		case 1:
			end(a)
			a = agent()
		default:
			if b, err := os.ReadFile(pid); err == nil {
				if server, err := strconv.Atoi(string(b)); err == nil {
					if p, err := os.FindProcess(server); err == nil {
						_ = p.Kill()
					}
				}
			}
		}
		said[line] = <-asked
		cancel()
	}
	settled := func(text string) bool {
		return strings.Contains(text, "noted") || strings.Contains(text, "outcome is unknown")
	}
	for line, text := range said {
		for end := time.Now().Add(2 * time.Minute); !settled(text); time.Sleep(100 * time.Millisecond) { // the caller was told that Cortex is unavailable
			out, _ := run(t.Context(), "history", line).CombinedOutput()
			if text = string(out); time.Now().After(end) {
				t.Fatalf("%s: nothing came of it: %s\n%s", line, said[line], text)
			}
		}
		said[line] = text
	}
	b, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for line, text := range said {
		n := strings.Count(string(b), line+"\n")
		switch {
		case strings.Contains(text, "outcome is unknown") && n < 2:
			unknown++
		case n != 1:
			t.Errorf("%s is there %d times: %s", line, n, text)
		}
	}
	t.Logf("%d kills, %d outcomes are unknown", kills, unknown)
}
