package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/internal/metrics"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
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

// run is what runTurn leaves.
type run struct {
	during string                   // a scrape while beta works
	watch  func(owned func() []int) // adds the metrics of the process
}

// runTurn runs a turn whose first event is handled twice, within limits.
func runTurn(t *testing.T, m *metrics.Metrics, limits budget.Limits) (r run) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	bus := &unreliable{Transport: memory.New(nil)}
	defer bus.Close()
	there := []prompt.Agent{{ID: "alpha", Card: &a2a.AgentCard{Name: "alpha"}}, {ID: "beta", Card: &a2a.AgentCard{Name: "beta"}}}
	o, err := cortex.New(cortex.Config{
		Transport: bus, Store: memstore.New(), Decider: decider{}, Agents: func(string) []prompt.Agent { return there }, Observers: []cortex.Observer{m},
		Budget: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.watch = func(owned func() []int) {
		m.Watch(metrics.Process{
			Stats: o.Stats, Owned: owned, Ready: func() bool { return true }, Deciding: o.Deciding, Instances: func() int { return 3 },
			Agents: func() map[string]int { return map[string]int{"active": 2} }, Events: []string{"registered"},
			Inbox: func(context.Context) (int, time.Time, error) { return 7, time.Now().Add(-time.Minute), nil },
			Dead:  func(context.Context) (int, error) { return 0, errors.New("not now") },
			BudgetLeft: func(ctx context.Context) (float64, error) {
				left, _, err := o.BudgetLeft(ctx)
				return left, err
			},
		})
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
			if id == "beta" {
				r.during = scrape(t, m)
			}
			return bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
				ID: "r-" + e.ID, Time: time.Now(), From: id, To: transport.Cortex, ContextID: e.ContextID, TaskID: e.TaskID,
				Payload: &a2a.Task{ID: e.TaskID, ContextID: e.ContextID, Status: a2a.TaskStatus{State: state}, Metadata: map[string]any{transport.MetaWorked: 1e9}},
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
	case <-time.After(time.Minute):
		t.Fatal("no answer")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !bus.refused.Load() {
		t.Fatal("no event was delivered twice")
	}
	return r
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
	r := runTurn(t, m, budget.Limits{Day: llm.Budget{Cost: 4}})
	r.watch(func() []int { return nil })
	text := scrape(t, m)
	for _, want := range []string{`cortex_turns_open 1`, `cortex_tasks_open{agent="beta",state="submitted"} 1`, `cortex_conversations_active 1`} {
		if !strings.Contains(r.during, want+"\n") {
			t.Errorf("while an agent works, the scrape has no line %s", want)
		}
	}
	for _, want := range []string{
		`cortex_turns_open 0`,
		`cortex_conversations_active 1`,
		`cortex_tasks_open{agent="beta",state="submitted"} 0`,
		`cortex_turn_first_token_seconds_count 1`,
		`cortex_task_queue_seconds_count{agent="alpha"} 1`,
		`cortex_task_queue_seconds_sum{agent="beta"} 0`, // it says that it worked longer than the task took
		`cortex_prompt_agents_shown_sum 4`,
		`cortex_append_duration_seconds_count 3`,
		`cortex_budget_exceeded_total{scope="day"} 0`,
		`cortex_budget_remaining_ratio{scope="day"} 0.75`,
		`cortex_redeliveries_total 1`,
		`cortex_publish_refused_total{reason="full"} 0`,
		`cortex_policy_denied_total{rule="agent"} 0`,
		`cortex_decisions_open{state="deciding"} 0`,
		`cortex_inbox_messages 7`,
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
func manyAgents(m *metrics.Metrics, n int) *conversation.Conversation {
	conv := conversation.NewConversation("", "c")
	for i := range n {
		id := a2a.TaskID(fmt.Sprint("t", i))
		conv.Tasks[id] = &conversation.Task{
			ID: id, Agent: fmt.Sprintf("department-%d/agent-with-a-long-name-%d", i%7, i), Phase: conversation.Completed + conversation.Phase(i%4),
			SentSeq: 1, SettledSeq: 2, Sent: time.Unix(0, 0), Settled: time.Unix(1, 0),
		}
	}
	m.Appended(conv, &conversation.Entry{Seq: 2, Cause: &transport.Event{}})
	return conv
}

// manyWaiting has tasks that manyAgents has ended wait again, half of them for an answer, after a time in a queue: of all agents that have a label
// value, and of some others.
func manyWaiting(m *metrics.Metrics, conv *conversation.Conversation) {
	const n = 3 * metrics.MaxAgents
	for i := range n {
		id := a2a.TaskID(fmt.Sprint("t", i))
		conv.Tasks[id].Phase, conv.Tasks[id].SettledSeq = []conversation.Phase{conversation.Given, conversation.Asking}[i/2%2], uint64(i+3)
		m.Appended(&conversation.Conversation{Tasks: map[a2a.TaskID]*conversation.Task{id: conv.Tasks[id]}}, &conversation.Entry{
			Seq: uint64(i + 3), Time: time.Unix(2, 0), Cause: &transport.Event{From: conv.Tasks[id].Agent, Payload: &a2a.Task{ID: id, Metadata: map[string]any{transport.MetaWorked: 0.5}}},
		})
	}
	conv.Seq = uint64(n + 3)
	m.Loaded(conv)
}

// TestManyAgents bounds a scrape, however many agents there are.
func TestManyAgents(t *testing.T) {
	m := metrics.New("1.2.3")
	var conv *conversation.Conversation
	for range 8 { // each agent may end in each way
		conv = manyAgents(m, 10_000)
	}
	manyWaiting(m, conv)
	runCalls(t, m)
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
	manyWaiting(m, manyAgents(m, 10_000))
	w := httptest.NewRecorder()
	for b.Loop() {
		w.Body.Reset()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
	}
	b.ReportMetric(float64(w.Body.Len()), "bytes/scrape")
}

// runCalls makes a call of a model that fails twice, and of another one in its place.
func runCalls(t *testing.T, m *metrics.Metrics) {
	t.Helper()
	first, second := middleware.Endpoint{Provider: "one", Model: "big"}, middleware.Endpoint{Provider: "two", Model: "small"}
	busy := llmtest.Fail(&llm.Error{Kind: llm.ErrRateLimited})
	failing := middleware.Retry(middleware.Metered(llmtest.Script(busy, busy), first, m), &middleware.RetryOptions{
		Attempts: 2, Base: 1, OnRetry: func(err error) { m.Retried(first, err) },
	})
	client := middleware.Fallback([]middleware.Named{
		{Name: "a", Client: failing, OnNext: func(err error) { m.FellBack(first, err) }},
		{Name: "b", Client: middleware.Metered(llmtest.Script(llmtest.Text("yes")), second, m)},
	}, nil)
	for _, err := range client.Generate(t.Context(), &llm.Request{System: "four", Messages: []llm.Message{llm.User("five!")}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCalls counts the calls of models.
func TestCalls(t *testing.T) {
	m := metrics.New("1.2.3")
	runCalls(t, m)
	m.Called(middleware.Call{Endpoint: middleware.Endpoint{Provider: "two", Model: "small"}, Err: fmt.Errorf("it: %w", context.Canceled)})
	for i := range 2 * metrics.MaxModels {
		m.Called(middleware.Call{Endpoint: middleware.Endpoint{Provider: "x", Model: fmt.Sprint("m", i)}})
	}
	text := scrape(t, m)
	for _, want := range []string{
		`cortex_llm_requests_total{kind="rate_limited",model="big",provider="one"} 2`,
		`cortex_llm_requests_total{kind="ok",model="small",provider="two"} 1`,
		`cortex_llm_requests_total{kind="canceled",model="small",provider="two"} 1`,
		`cortex_llm_requests_total{kind="ok",model="other",provider="other"} ` + fmt.Sprint(metrics.MaxModels+2),
		`cortex_llm_retries_total{kind="rate_limited",model="big",provider="one"} 1`,
		`cortex_llm_fallbacks_total{kind="rate_limited",model="big",provider="one"} 1`,
		`cortex_llm_request_duration_seconds_count{model="big",outcome="error",provider="one"} 2`,
		`cortex_llm_time_to_first_chunk_seconds_count{model="small",provider="two"} 1`,
		`cortex_prompt_bytes_sum 27`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the scrape has no line %s", want)
		}
	}
	if strings.Contains(text, `cortex_llm_time_to_first_chunk_seconds_count{model="big"`) {
		t.Error("a call without an answer has a time to its first chunk")
	}
}

// TestExemplars checks that what is slow names its trace, where there is one.
func TestExemplars(t *testing.T) {
	m := metrics.New("1.2.3")
	m.TraceOf = func(_ *conversation.Conversation, turn *conversation.Turn) string { return "trace-of-" + turn.Message }
	runTurn(t, m, budget.Limits{})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	m.Handler().ServeHTTP(w, r)
	for _, name := range []string{"cortex_turn_duration_seconds", "cortex_turn_first_token_seconds", "cortex_task_duration_seconds", "cortex_task_queue_seconds"} {
		if !regexp.MustCompile(`(?m)^` + name + `_bucket\{.*# \{trace_id="trace-of-m"\}`).MatchString(w.Body.String()) {
			t.Errorf("%s has no exemplar", name)
		}
	}
}

// TestBudget counts a turn that a budget ends.
func TestBudget(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m, budget.Limits{Conversation: llm.Budget{Cost: 0.5}, Day: llm.Budget{Cost: 4}})
	text := scrape(t, m)
	for _, want := range []string{`{scope="turn"} 0`, `{scope="conversation"} 1`, `{scope="day"} 0`} {
		if want = "cortex_budget_exceeded_total" + want; !strings.Contains(text, want+"\n") {
			t.Errorf("the scrape has no line %s", want)
		}
	}
}

// TestOpen follows what is open in conversations that were read, moved to another process, and deleted.
func TestOpen(t *testing.T) {
	m := metrics.New("1.2.3")
	owned := make([]int, transport.Partitions)
	for p := range owned {
		owned[p] = p
	}
	m.Watch(metrics.Process{
		Stats: func() cortex.Stats { return cortex.Stats{} }, Owned: func() []int { return owned }, Ready: func() bool { return true },
		Agents: func() map[string]int { return nil }, Instances: func() int { return 0 }, Deciding: func() (int, int) { return 0, 0 },
		Inbox: func(context.Context) (int, time.Time, error) { return 0, time.Time{}, nil }, Dead: func(context.Context) (int, error) { return 0, nil },
	})
	conv := func(id string, seq uint64, phase conversation.Phase, until time.Time) *conversation.Conversation {
		c := conversation.NewConversation("", id)
		c.Seq, c.Turns = seq, []*conversation.Turn{{}}
		c.Tasks["t"] = &conversation.Task{ID: "t", Agent: "alpha", Phase: phase, Deadline: until}
		return c
	}
	want := func(when string, lines ...string) {
		t.Helper()
		text := scrape(t, m)
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s, the scrape has no line %s", when, line)
			}
		}
	}
	soon := time.Now().Add(time.Hour)
	m.Loaded(conv("a", 5, conversation.Working, soon))
	m.Loaded(conv("b", 5, conversation.Asking, soon))
	m.Loaded(conv("c", 5, conversation.Held, soon))
	m.Loaded(conv("d", 5, conversation.Blocked, time.Now().Add(-time.Hour)))
	want("with one of each", `cortex_turns_open 4`, `cortex_conversations_active 0`, `cortex_tasks_open{agent="alpha",state="working"} 1`,
		`cortex_tasks_open{agent="alpha",state="input_required"} 1`, `cortex_tasks_open{agent="alpha",state="auth_required"} 1`,
		`cortex_tasks_open{agent="alpha",state="submitted"} 1`, fmt.Sprint("cortex_partitions_owned ", transport.Partitions))
	m.Loaded(conv("a", 4, conversation.Completed, soon))
	want("with an old state", `cortex_tasks_open{agent="alpha",state="working"} 1`)
	m.Loaded(conv("a", 6, conversation.Completed, soon))
	m.Deleted(conversation.Key{ContextID: "b"})
	owned = slices.DeleteFunc(owned, func(p int) bool { return p == transport.Partition("", "c") })
	want("without them", `cortex_tasks_open{agent="alpha",state="working"} 0`, `cortex_tasks_open{agent="alpha",state="input_required"} 0`,
		`cortex_tasks_open{agent="alpha",state="auth_required"} 0`)
}

// TestNames checks the names and help texts as Prometheus does.
func TestNames(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m, budget.Limits{}).watch(func() []int { return nil })
	runCalls(t, m)
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
