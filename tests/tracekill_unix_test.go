//go:build unix

package tests

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanCollector receives spans over OTLP.
type spanCollector struct {
	*httptest.Server

	mu    sync.Mutex
	spans []*otlp.Span
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := new(spanCollector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(b, &got) != nil {
			t.Errorf("%s: %d bytes that are no spans: %v", r.URL, len(b), err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range got.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) all() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*otlp.Span(nil), c.spans...)
}

// TestTraceKilled kills Cortex while a program works on a task. The collector gets one trace of the turn, and the program was told of its span.
func TestTraceKilled(t *testing.T) {
	cortex, err := exec.LookPath("cortex")
	if err != nil {
		t.Fatal(err)
	}
	c, dir := newSpanCollector(t), t.TempDir()
	data, begun, released := filepath.Join(dir, "data"), filepath.Join(dir, "begun"), filepath.Join(dir, "released")
	card := filepath.Join(dir, "worker.yaml")
	if err := os.WriteFile(card, []byte("name: worker\ndescription: Does work\nskills:\n  - id: work\n    name: Work\n    examples: [\"work: one\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	health, bus := freeAddress(t), freeAddress(t)
	run := func(log string, env []string, args ...string) *process {
		p := &process{log: filepath.Join(dir, log), start: func() *exec.Cmd {
			x := exec.Command(cortex, args...)
			x.Env = append(append(os.Environ(), "CORTEX_DATA="+data), env...)
			return x
		}}
		p.begin(t, args[0])
		t.Cleanup(p.kill)
		return p
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never came true: %s\n%s", what, endOf(filepath.Join(dir, "serve")))
			}
		}
	}
	exists := func(file string) func() bool {
		return func() bool { _, err := os.Stat(file); return err == nil }
	}
	serve := run("serve", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=50"},
		"serve", "--http", health, "--listen", bus, "--agents", "none")
	run("agent", nil, "agent", "exec", "--card", card, "--", "sh", "-c",
		`cat >/dev/null; echo "$TRACEPARENT" >`+begun+`.new; mv `+begun+`.new `+begun+`; while [ ! -e `+released+` ]; do sleep 0.05; done; echo done`)
	wait("the agent is there", func() bool {
		out, err := exec.Command(cortex, "agents", "--data", data).Output()
		return err == nil && strings.Contains(string(out), "active")
	})
	ask := exec.Command(cortex, "ask", "--data", data, "work: one")
	if err := ask.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ask.Process.Kill(); _ = ask.Wait() })
	wait("the program works", exists(begun))
	serve.kill()
	if n := len(c.all()); n != 0 {
		t.Errorf("%d spans of an open turn", n)
	}
	serve.begin(t, "serve")
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait("the trace is there", func() bool { return len(c.all()) >= 4 })
	names, ids, traces := map[string]int{}, map[string]string{}, map[string]bool{}
	root := ""
	for _, s := range c.all() {
		name, _, _ := strings.Cut(s.Name, " ")
		names[name]++
		ids[hex.EncodeToString(s.SpanId)] = s.Name
		traces[hex.EncodeToString(s.TraceId)] = true
		if len(s.ParentSpanId) == 0 {
			root = hex.EncodeToString(s.SpanId)
		}
	}
	if len(traces) != 1 || len(ids) != 4 || len(c.all()) != 4 || names["invoke_workflow"] != 1 || names["chat"] != 2 || names["invoke_agent"] != 1 {
		t.Errorf("spans %v with the ids %v in the traces %v, want one trace of a turn, two decisions and a task", names, ids, traces)
	}
	for _, s := range c.all() {
		if parent := hex.EncodeToString(s.ParentSpanId); hex.EncodeToString(s.SpanId) != root && parent != root {
			t.Errorf("%s is below %q, want the turn %q", s.Name, parent, root)
		}
	}
	told, err := os.ReadFile(begun)
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(strings.TrimSpace(string(told)), "-")
	if len(part) != 4 || !traces[part[1]] || ids[part[2]] != "invoke_agent worker" {
		t.Errorf("the program was told %q, want the span of its task in %v", told, ids)
	}
}
