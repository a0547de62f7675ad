package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Outcomes of turns, in the label outcome.
const (
	answered  = "answered"
	clarified = "clarified"
	refused   = "refused"
	failed    = "failed"
	canceled  = "canceled"
)

// outcomes are those of turns that a decision of a kind answered.
var outcomes = map[llm.Kind]string{llm.KindRespond: answered, llm.KindClarify: clarified, llm.KindRefuse: refused}

// How tasks end, in the label state.
const (
	completed = "completed"
	rejected  = "rejected"
	timedOut  = "timed_out"
	gone      = "gone"
)

// Metrics is what a process counts. It is an observer of an orchestrator (see package cortex), and safe for concurrent use.
type Metrics struct {
	// TraceOf returns the trace id of a turn, for exemplars; nil, or an empty id: it has none.
	TraceOf func(conv *conversation.Conversation, turn *conversation.Turn) string

	registry       *prometheus.Registry
	agents, models *values
	calls          *calls
	open           *open

	turns            *prometheus.CounterVec
	turnDuration     *prometheus.HistogramVec
	firstText        prometheus.Histogram
	steps            prometheus.Histogram
	decisions        *prometheus.CounterVec
	decisionDuration prometheus.Histogram
	repairs          *prometheus.CounterVec
	tokens           *prometheus.CounterVec
	cost             *prometheus.CounterVec
	searches         prometheus.Counter
	tasks            *prometheus.CounterVec
	taskDuration     *prometheus.HistogramVec
	attempts         *prometheus.CounterVec
	approvals        *prometheus.CounterVec
	taskQueue        *prometheus.HistogramVec
	exhausted        *prometheus.CounterVec
	shown            prometheus.Histogram
	routing          prometheus.Histogram
	topScore         prometheus.Histogram
	appending        prometheus.Histogram
	agentEvents      *prometheus.CounterVec
	entries          prometheus.Counter
}

// native returns the options of a histogram with classic buckets for text and native ones for servers that ask for them.
func native(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// New returns Metrics of a program of this version. Each known combination of label values begins at 0.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), agents: newValues(MaxAgents), models: newValues(MaxModels), calls: newCalls(),
		turns: counter("cortex_turns_total", "Turns that ended, by outcome.", "outcome"),
		turnDuration: prometheus.NewHistogramVec(native("cortex_turn_duration_seconds",
			"Time from the entry of a message to that of its answer.", []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}), []string{"outcome"}),
		firstText: prometheus.NewHistogram(native("cortex_turn_first_token_seconds",
			"Time from the entry of a message until the first text of its answer is shown.", []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60})),
		steps:     prometheus.NewHistogram(native("cortex_decision_steps", "Decisions of a turn.", []float64{1, 2, 3, 4, 6, 8})),
		decisions: counter("cortex_decisions_total", "Decisions that were logged, by kind and model. The kind failed had no decision.", "kind", "model"),
		decisionDuration: prometheus.NewHistogram(native("cortex_decision_duration_seconds",
			"Time of a decision, with waiting for a place, corrections and summaries.", []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120})),
		repairs:  counter("cortex_decision_repairs_total", "Corrections that models needed for a decision.", "model"),
		tokens:   counter("cortex_llm_tokens_total", "Tokens of decisions and summaries. Cached and cache_write are parts of input, reasoning is a part of output.", "model", "type"),
		cost:     counter("cortex_llm_cost_total", "Cost of decisions and summaries in the currency of the configured prices.", "model"),
		searches: prometheus.NewCounter(prometheus.CounterOpts{Name: "cortex_agent_searches_total", Help: "Searches for agents by models."}),
		tasks:    counter("cortex_tasks_total", "Tasks that ended, by agent and how they ended.", "agent", "state"),
		taskDuration: prometheus.NewHistogramVec(native("cortex_task_duration_seconds",
			"Time from the sending of a task's last attempt to its end.", []float64{.1, .5, 1, 5, 30, 300}), []string{"agent"}),
		taskQueue: prometheus.NewHistogramVec(native("cortex_task_queue_seconds",
			"Time that a task waited for its agent, by what the agent says of how long it worked.", []float64{.1, 1, 10, 60}), []string{"agent"}),
		exhausted: counter("cortex_budget_exceeded_total", "Turns that ended since a budget was used up, by which one.", "scope"),
		shown: prometheus.NewHistogram(native("cortex_prompt_agents_shown", "Agents that a decision was shown.",
			[]float64{1, 2, 5, 10, 20, 50, 100})),
		routing: prometheus.NewHistogram(native("cortex_router_duration_seconds", "Time to choose the agents that a decision is shown, where there are many.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05})),
		topScore: prometheus.NewHistogram(native("cortex_router_top_score", "How likely the best agent that a decision is shown fits, from 0 to 1, where there are many.",
			[]float64{.1, .2, .3, .4, .5, .6, .7, .8, .9})),
		appending: prometheus.NewHistogram(native("cortex_append_duration_seconds", "Time to add an entry to a log.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5})),
		agentEvents: counter("cortex_agent_events_total", "What became known about agents, such as that one has registered or left.", "event"),
		attempts:    counter("cortex_task_attempts_total", "Attempts at tasks that were given up and repeated, by the agent that had the task.", "agent", "reason"),
		approvals:   counter("cortex_approvals_total", "Replies to questions whether tasks may be given.", "outcome"),
		entries:     prometheus.NewCounter(prometheus.CounterOpts{Name: "cortex_entries_total", Help: "Entries appended to logs of conversations."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cortex_build_info", Help: "1, with what the program is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	for _, outcome := range []string{answered, clarified, refused, failed, canceled} {
		m.turns.WithLabelValues(outcome)
		m.turnDuration.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"yes", "no", "unclear"} {
		m.approvals.WithLabelValues(outcome)
	}
	for _, scope := range []string{"turn", "conversation", "day"} {
		m.exhausted.WithLabelValues(scope)
	}
	m.open = newOpen(m.agents)
	m.registry.MustRegister(m.calls.all()...)
	m.registry.MustRegister(
		m.open, m.firstText, m.taskQueue, m.exhausted, m.shown, m.routing, m.topScore, m.appending, m.agentEvents, m.turns, m.turnDuration, m.steps, m.decisions, m.decisionDuration, m.repairs, m.tokens, m.cost, m.searches, m.tasks, m.taskDuration, m.attempts,
		m.approvals, m.entries, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// counter adds a counter with the value that read returns. The name is new, and ends with _total.
func (m *Metrics) counter(name, help string, read func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// gauge adds a gauge with the value that read returns. The name is new.
func (m *Metrics) gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// counters adds a counter for each value of a label. The name is new, and ends with _total.
func (m *Metrics) counters(name, help, label string, read map[string]func() int64) {
	for value, f := range read {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}},
			func() float64 { return float64(f()) }))
	}
}

// group is a gauge with a label.
type group struct {
	desc *prometheus.Desc
	read func() map[string]int
}

// Describe implements prometheus.Collector.
func (g group) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g group) Collect(ch chan<- prometheus.Metric) {
	for value, n := range g.read() {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n), value)
	}
}

// gauges adds a gauge with the number for each value of a label. read returns the same few values each time. The name is new.
func (m *Metrics) gauges(name, help, label string, read func() map[string]int) {
	m.registry.MustRegister(group{prometheus.NewDesc(name, help, []string{label}, nil), read})
}

// AgentEvent counts what became known about an agent. kind is one of [Process].Events.
func (m *Metrics) AgentEvent(kind string) { m.agentEvents.WithLabelValues(kind).Inc() }

// Registry returns the registry, for programs that add their own metrics and for tests.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler returns a handler that answers scrapes, in the format that they ask for: exemplars need OpenMetrics, native histograms protobuf.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
