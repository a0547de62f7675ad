//go:build unix

package tests

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// bearing is an http.RoundTripper that shows a bearer token.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestA2AKeys has a person and an agent ask a Cortex with keys over A2A. Each has their own tasks, an agent gets no task of its own request, and it is
// no person at /mcp.
func TestA2AKeys(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) *exec.Cmd {
		c := exec.Command("cortex", args...)
		c.Env = append(os.Environ(), "CORTEX_DATA="+filepath.Join(dir, "data"))
		return c
	}
	must := func(args ...string) string {
		t.Helper()
		c := run(args...)
		c.Stderr = os.Stderr
		b, err := c.Output()
		if err != nil {
			t.Fatalf("cortex %v: %v", args, err)
		}
		return strings.TrimSpace(string(b))
	}
	must("auth", "init")
	must("auth", "add", "user", "ada")
	must("auth", "add", "agent", "weather")
	must("auth", "add", "agent", "agent_echo")
	var at [2]string // of HTTP and A2A
	for i := range at {
		at[i] = freeAddress(t)
	}
	serve := run("serve", "--auth", filepath.Join(dir, "data", "auth"), "--http", at[0], "--a2a", at[1])
	var said strings.Builder
	serve.Stderr = &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	join := func(who string) *a2aclient.Client {
		hc := &http.Client{Transport: bearing(must("auth", "token", who))}
		c, err := a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{{URL: "http://" + at[1], ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2a.Version}},
			a2aclient.WithJSONRPCTransport(hc))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ada, weather, echo := join("ada"), join("agent:weather"), join("agent:agent_echo")
	ask := func(c *a2aclient.Client, text string) *a2a.Task {
		t.Helper()
		for {
			r, err := c.SendMessage(ctx, words(text))
			if task, ok := r.(*a2a.Task); ok {
				return task
			}
			if ctx.Err() != nil {
				t.Fatalf("%q: %v (%v)", text, r, err)
			}
			<-time.After(100 * time.Millisecond) // it starts
		}
	}
	answer := func(task *a2a.Task) string {
		b := strings.Builder{}
		for _, a := range task.Artifacts {
			for _, p := range a.Parts {
				b.WriteString(p.Text())
			}
		}
		if task.Status.Message != nil {
			for _, p := range task.Status.Message.Parts {
				b.WriteString(p.Text())
			}
		}
		return b.String()
	}
	for out := []byte(nil); ctx.Err() == nil && !strings.Contains(string(out), "agent_echo"); {
		<-time.After(100 * time.Millisecond)
		out, _ = run("agents").Output() // an error while it starts
	}
	of := ask(weather, "echo hello")
	if of.Status.State != a2a.TaskStateCompleted || !strings.Contains(answer(of), "hello") {
		t.Errorf("an agent got %v %q", of.Status.State, answer(of))
	}
	if _, err := weather.GetTask(ctx, &a2a.GetTaskRequest{ID: of.ID}); err != nil {
		t.Errorf("an agent's own task: %v", err)
	}
	for name, c := range map[string]*a2aclient.Client{"ada": ada, "agent_echo": echo} {
		if task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: of.ID}); err == nil {
			t.Errorf("%s sees the task %v of another", name, task)
		}
	}
	if own := ask(echo, "echo hello"); strings.Contains(answer(own), "hello") && own.Status.State == a2a.TaskStateCompleted {
		t.Errorf("agent_echo got a task of its own request: %v %q", own.Status.State, answer(own))
	}
	if own := ask(ada, "echo hello"); !strings.Contains(answer(own), "hello") {
		t.Errorf("a person got %v %q", own.Status.State, answer(own))
	}
	hc := &http.Client{Transport: bearing(must("auth", "token", "agent:weather"))}
	res, err := hc.Post("http://"+at[0]+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)) //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("an agent at /mcp: %s, want 401", res.Status)
	}
}
