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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// traceWorld is a Cortex that is killed, with agents that are programs, and a collector.
type traceWorld struct {
	t         *testing.T
	collector *spanCollector
	cortex    string // the program
	dir, data string
	serve     *process
}

func newTraceWorld(t *testing.T) *traceWorld {
	t.Helper()
	w := &traceWorld{t: t, collector: newSpanCollector(t), cortex: cortexPath(t), dir: t.TempDir()}
	w.data = w.path("data")
	if err := os.Mkdir(w.data, 0o700); err != nil {
		t.Fatal(err)
	}
	w.serve = w.run("serve", w.exporting(), "serve", "--http", freeAddress(t), "--listen", freeAddress(t), "--agents", "none")
	return w
}

// exporting is the environment of a process with traces.
func (w *traceWorld) exporting() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + w.collector.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

func (w *traceWorld) path(name string) string { return filepath.Join(w.dir, name) }

func (w *traceWorld) run(log string, env []string, args ...string) *process {
	w.t.Helper()
	p := &process{log: w.path(log), start: func() *exec.Cmd {
		x := exec.Command(w.cortex, args...)
		x.Env = append(append(os.Environ(), "CORTEX_DATA="+w.data), env...)
		return x
	}}
	p.begin(w.t, args[0])
	w.t.Cleanup(p.kill)
	return p
}

// agent runs an agent whose tasks are done by a shell script, which finds the folder of the test in DIR, and waits until Cortex has it.
func (w *traceWorld) agent(name, card, script string, env ...string) *process {
	w.t.Helper()
	file := w.path(name + ".yaml")
	if err := os.WriteFile(file, []byte("name: "+name+"\n"+card), 0o600); err != nil {
		w.t.Fatal(err)
	}
	p := w.run(name, append(env, "DIR="+w.dir), "agent", "exec", "--card", file, "--", "sh", "-c", script)
	w.eventually("the agent is there", func() bool {
		out, err := exec.Command(w.cortex, "agents", "--data", w.data).Output()
		return err == nil && strings.Contains(string(out), name)
	})
	return p
}

// end has Cortex end by itself, with everything that it still has to export.
func (w *traceWorld) end() {
	p := w.serve
	p.mu.Lock()
	p.killed = true
	_ = p.now.Process.Signal(syscall.SIGTERM)
	ended := p.ended
	p.mu.Unlock()
	<-ended
}

func (w *traceWorld) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never came true: %s\n%s", what, endOf(w.path("serve")))
		}
	}
}

// lines returns what programs have written into a file.
func (w *traceWorld) lines(name string) []string {
	b, err := os.ReadFile(w.path(name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// tree describes spans as "parent > span (error)", sorted, and checks that they are one trace without a hole or an id that is there twice. It
// returns their names by their ids, too.
func tree(t *testing.T, spans []*otlp.Span) (lines []string, names map[string]string) {
	t.Helper()
	names = map[string]string{"": ""}
	for _, s := range spans {
		id := hex.EncodeToString(s.SpanId)
		if before, twice := names[id]; twice {
			t.Errorf("the span id %s is that of %s and of %s", id, before, s.Name)
		}
		names[id] = s.Name
	}
	for _, s := range spans {
		if string(s.TraceId) != string(spans[0].TraceId) {
			t.Errorf("%s is in the trace %x, and %s in %x", s.Name, s.TraceId, spans[0].Name, spans[0].TraceId)
		}
		parent, there := names[hex.EncodeToString(s.ParentSpanId)]
		if !there {
			t.Errorf("%s is below the span %x, which is not there", s.Name, s.ParentSpanId)
		}
		line := strings.TrimPrefix(parent+" > "+s.Name, " > ")
		if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
			line += " (" + s.Status.GetMessage() + ")"
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano || s.StartTimeUnixNano == 0 {
			t.Errorf("%s goes from %d to %d", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines, names
}

// told returns the name of the span that a program was told of by its TRACEPARENT.
func told(traceparent string, spans []*otlp.Span, names map[string]string) string {
	part := strings.Split(traceparent, "-")
	if len(part) != 4 || len(spans) == 0 || part[1] != hex.EncodeToString(spans[0].TraceId) {
		return "not of this trace: " + traceparent
	}
	return names[part[2]]
}

// TestTraceKilled kills Cortex while two programs work, one of them for the second time. The collector gets one trace of the turn, and the programs
// were told of their spans.
func TestTraceKilled(t *testing.T) {
	w := newTraceWorld(t)
	w.agent("washer", "description: Washes the floor\nspec:\n  max_retries: 1\nskills:\n  - id: wash\n    name: Wash the floor\n    examples: [\"wash the kitchen floor\"]\n",
		`cat >/dev/null; echo "$TRACEPARENT" >>$DIR/washer.told; [ -e $DIR/failed ] || { touch $DIR/failed; exit 1; }; while [ ! -e $DIR/released ]; do sleep 0.05; done; echo washed`)
	w.agent("painter", "description: Paints doors\nskills:\n  - id: paint\n    name: Paint a door\n    examples: [\"paint the garden door\"]\n",
		`cat >/dev/null; echo "$TRACEPARENT" >>$DIR/painter.told; while [ ! -e $DIR/released ]; do sleep 0.05; done; echo painted`, w.exporting()...)
	ask := exec.Command(w.cortex, "ask", "--data", w.data, "wash the kitchen floor, and paint the garden door")
	if err := ask.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ask.Process.Kill(); _ = ask.Wait() })
	w.eventually("both work, the washer for the second time", func() bool { return len(w.lines("washer.told")) == 2 && len(w.lines("painter.told")) == 1 })
	w.serve.kill()
	if n := len(w.collector.all()); n != 0 {
		t.Errorf("%d spans of an open turn", n)
	}
	w.serve.begin(t, "serve")
	if err := os.WriteFile(w.path("released"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("the trace is there", func() bool { return len(w.collector.all()) >= 7 })
	w.end()
	spans := w.collector.all()
	got, names := tree(t, spans)
	want := []string{
		"invoke_agent painter > invoke_agent painter", // which has traces of its own
		"invoke_workflow cortex", "invoke_workflow cortex > chat fake", "invoke_workflow cortex > chat fake",
		"invoke_workflow cortex > invoke_agent painter", "invoke_workflow cortex > invoke_agent washer", "invoke_workflow cortex > invoke_agent washer (failed)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	at := slices.IndexFunc(spans, func(s *otlp.Span) bool {
		return strings.Contains(w.lines("painter.told")[0], hex.EncodeToString(s.SpanId))
	})
	if at < 0 || spans[at].Name != "invoke_agent painter" || spans[at].Kind != otlp.Span_SPAN_KIND_INTERNAL {
		t.Errorf("the painter was told %s, want the span of its agent in %v", w.lines("painter.told")[0], names)
	}
	attempts := w.lines("washer.told")
	for _, attempt := range attempts {
		if name := told(attempt, spans, names); name != "invoke_agent washer" {
			t.Errorf("the washer was told of %q", name)
		}
	}
	if attempts[0] == attempts[1] {
		t.Errorf("both attempts were told of %s", attempts[0])
	}
}
