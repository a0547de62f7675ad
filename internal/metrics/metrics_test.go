package metrics_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/internal/metrics"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// decider delegates to both agents, and then answers.
type decider struct{}

func (decider) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	d := &llm.Decision{Model: "m\xff1", Usage: llm.Usage{Input: 100, Output: 10, Cost: 0.5}, Repairs: 1}
	if len(t.Steps) > 0 {
		d.Kind, d.Say = llm.KindRespond, "done"
		return d, nil
	}
	d.Kind, d.Delegations = llm.KindDelegate, []llm.Delegation{{ID: "1", Agent: "alpha", Task: "do"}, {ID: "2", Agent: "beta", Task: "do"}}
	return d, nil
}

// unreliable is a transport that refuses the first task, so that its event is delivered again.
type unreliable struct {
	transport.Transport
	refused atomic.Bool
}

func (u *unreliable) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t.ID == "beta" && t.Kind == transport.KindInbox && !u.refused.Swap(true) {
		return transport.ErrUnavailable
	}
	return u.Transport.Publish(ctx, t, e)
}

// runTurn runs a turn whose first event is handled twice.
func runTurn(t *testing.T, m *metrics.Metrics) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	bus := &unreliable{Transport: memory.New(nil)}
	defer bus.Close()
	there := []prompt.Agent{{ID: "alpha", Card: &a2a.AgentCard{Name: "alpha"}}, {ID: "beta", Card: &a2a.AgentCard{Name: "beta"}}}
	o, err := cortex.New(cortex.Config{
		Transport: bus, Store: memstore.New(), Decider: decider{}, Agents: func(string) []prompt.Agent { return there }, Observers: []cortex.Observer{m},
	})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(topic transport.Topic, h transport.Handler) {
		sub, err := bus.Subscribe(ctx, topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		go sub.Serve(ctx, h) //nolint:errcheck // ends with the test
	}
	for id, state := range map[string]a2a.TaskState{"alpha": a2a.TaskStateCompleted, "beta": a2a.TaskStateFailed} {
		serve(transport.Inbox("", id), func(ctx context.Context, e *transport.Event) error {
			return bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
				ID: "r-" + e.ID, Time: time.Now(), From: id, To: transport.Cortex, ContextID: e.ContextID, TaskID: e.TaskID,
				Payload: &a2a.Task{ID: e.TaskID, ContextID: e.ContextID, Status: a2a.TaskStatus{State: state}},
			})
		})
	}
	answered := make(chan struct{}, 1)
	serve(transport.Live("", "c"), func(_ context.Context, e *transport.Event) error {
		if _, ok := e.Payload.(*a2a.Message); ok {
			answered <- struct{}{}
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	err = bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
		ID: "m", Time: time.Now(), From: "user", To: transport.Cortex, ContextID: "c",
		Payload: &a2a.Message{ID: "m", ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("go")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-answered:
	case <-time.After(20 * time.Second):
		t.Fatal("no answer")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !bus.refused.Load() {
		t.Fatal("no event was delivered twice")
	}
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("a scrape = %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// TestTurn counts a turn with two tasks, one of which failed, and an event that was delivered twice.
func TestTurn(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m)
	text := scrape(t, m)
	for _, want := range []string{
		`cortex_entries_total 3`,
		`cortex_turns_total{outcome="answered"} 1`,
		`cortex_turns_total{outcome="failed"} 0`,
		`cortex_turn_duration_seconds_count{outcome="answered"} 1`,
		`cortex_decision_steps_sum 2`,
		`cortex_decisions_total{kind="delegate",model="m_1"} 1`,
		`cortex_decisions_total{kind="respond",model="m_1"} 1`,
		`cortex_decision_repairs_total{model="m_1"} 2`,
		`cortex_llm_tokens_total{model="m_1",type="input"} 200`,
		`cortex_llm_cost_total{model="m_1"} 1`,
		`cortex_tasks_total{agent="alpha",state="completed"} 1`,
		`cortex_tasks_total{agent="beta",state="failed"} 1`,
		`cortex_task_duration_seconds_count{agent="alpha"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the scrape has no line %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// manyAgents ends a task of each of n agents.
func manyAgents(m *metrics.Metrics, n int) {
	conv := conversation.NewConversation("", "c")
	for i := range n {
		id := a2a.TaskID(fmt.Sprint("t", i))
		conv.Tasks[id] = &conversation.Task{
			ID: id, Agent: fmt.Sprintf("department-%d/agent-with-a-long-name-%d", i%7, i), Phase: conversation.Completed + conversation.Phase(i%4),
			SentSeq: 1, SettledSeq: 2, Sent: time.Unix(0, 0), Settled: time.Unix(1, 0),
		}
	}
	m.Appended(conv, &conversation.Entry{Seq: 2, Cause: &transport.Event{}})
}

// TestManyAgents bounds a scrape, however many agents there are.
func TestManyAgents(t *testing.T) {
	m := metrics.New("1.2.3")
	for range 8 { // each agent may end in each way
		manyAgents(m, 10_000)
	}
	text := scrape(t, m)
	if n := len(text); n > 300_000 {
		t.Errorf("a scrape with 10,000 agents has %d bytes, want at most 300,000", n)
	}
	if n := strings.Count(text, "cortex_task_duration_seconds_count{"); n != metrics.MaxAgents+1 {
		t.Errorf("%d values of the label agent, want %d", n, metrics.MaxAgents+1)
	}
	if !strings.Contains(text, `cortex_task_duration_seconds_count{agent="other"} 79200`) {
		t.Error("the other agents are not counted")
	}
}

func BenchmarkScrape(b *testing.B) {
	m := metrics.New("1.2.3")
	manyAgents(m, 10_000)
	w := httptest.NewRecorder()
	for b.Loop() {
		w.Body.Reset()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
	}
	b.ReportMetric(float64(w.Body.Len()), "bytes/scrape")
}

// TestNames checks the names and help texts as Prometheus does.
func TestNames(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m)
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil || len(problems) > 0 {
		t.Errorf("problems: %v, %v", problems, err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is missing: install Debian's package prometheus")
		}
		fmt.Fprintln(os.Stderr, "NOT RUN: the metrics are not checked: there is no promtool on this machine")
		return
	}
	c := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	c.Stdin = strings.NewReader(scrape(t, m))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil || out.Len() > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, &out)
	}
}
