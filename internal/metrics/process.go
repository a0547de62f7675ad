package metrics

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cortex-orchestrator/cortex/cortex"
)

// Process is what a scrape reads of the process. Its functions are called concurrently, and return at once but for Inbox, Dead and BudgetLeft.
type Process struct {
	Stats  func() cortex.Stats
	Owned  func() []int          // partitions; nil: unknown
	Ready  func() bool           // whether it takes work, and each partition has an owner
	Agents func() map[string]int // by state; the same states each time
	Events []string              // the kinds of [Metrics.AgentEvent]
	// Instances returns how many processes of agents there are.
	Instances func() int
	// Deciding returns how many decisions are being made, and how many turns wait for one.
	Deciding func() (deciding, waiting int)
	// Inbox returns how many events wait for Cortex, and when the oldest was sent; zero when none waits, or it is unknown. It may ask a server: the result is kept for some
	// seconds. After an error the metrics are not numbers.
	Inbox func(context.Context) (waiting int, oldest time.Time, err error)
	// Dead returns how many dead letters there are, like Inbox.
	Dead func(context.Context) (int, error)
	// BudgetLeft returns which part of the day's budget is left, from 0 to 1, like Inbox. nil: there is no such budget.
	BudgetLeft func(context.Context) (float64, error)
}

// Watch adds the metrics of a process. It is called once.
func (m *Metrics) Watch(p Process) {
	stats := func(name, help string, of func(cortex.Stats) int64) {
		m.counter(name, help, func() int64 { return of(p.Stats()) })
	}
	stats("cortex_tasks_sent_total", "Tasks sent to agents, repetitions included.", func(s cortex.Stats) int64 { return s.Tasks })
	stats("cortex_events_ignored_total", "Events that changed nothing, such as late results.", func(s cortex.Stats) int64 { return s.Ignored })
	stats("cortex_events_refused_total", "Refused messages, and events that became dead letters.", func(s cortex.Stats) int64 { return s.Refused })
	stats("cortex_append_conflicts_total", "Appends that came second, and were made again.", func(s cortex.Stats) int64 { return s.Conflicts })
	stats("cortex_decider_failures_total", "Calls of the decider without a decision.", func(s cortex.Stats) int64 { return s.Failures })
	stats("cortex_redeliveries_total", "Events that came again after they were written to a log.", func(s cortex.Stats) int64 { return s.Redelivered })
	m.counters("cortex_publish_refused_total", "Tasks and answers that could not be sent, by why.", "reason", map[string]func() int64{
		"full":      func() int64 { return p.Stats().Unsent.Full },
		"too_large": func() int64 { return p.Stats().Unsent.TooLarge },
		"invalid":   func() int64 { return p.Stats().Unsent.Invalid },
	})
	m.counters("cortex_policy_denied_total", "What the rules of the policy denied: agent counts delegations, limit decisions, rate requests of agents, tenant turns.", "rule",
		map[string]func() int64{
			"tenant": func() int64 { return p.Stats().Denied.Tenant },
			"agent":  func() int64 { return p.Stats().Denied.Agent },
			"rate":   func() int64 { return p.Stats().Denied.Rate },
			"limit":  func() int64 { return p.Stats().Denied.Limit },
		})
	m.counters("cortex_lease_changes_total", "Partitions of the conversations that this process has got or lost.", "change", map[string]func() int64{
		"gained": func() int64 { return p.Stats().Gained },
		"lost":   func() int64 { return p.Stats().Lost },
	})
	m.open.mu.Lock()
	m.open.owned = p.Owned
	m.open.mu.Unlock()
	m.gauges("cortex_decisions_open", "Decisions that are being made, and turns that wait for one.", "state", func() map[string]int {
		deciding, waiting := p.Deciding()
		return map[string]int{"deciding": deciding, "waiting": waiting}
	})
	m.gauge("cortex_partitions_owned", "Partitions of the conversations that this process owns.", func() float64 { return float64(len(p.Owned())) })
	m.gauge("cortex_ready", "1 while the process takes work and each partition has an owner, else 0.", func() float64 {
		if p.Ready() {
			return 1
		}
		return 0
	})
	inbox := kept(func(ctx context.Context) (in inboxState, err error) {
		in.waiting, in.oldest, err = p.Inbox(ctx)
		return in, err
	})
	m.gauge("cortex_inbox_messages", "Events that wait for Cortex or are being handled, in all its replicas.", func() float64 {
		if in, err := inbox(); err == nil {
			return float64(in.waiting)
		}
		return math.NaN()
	})
	m.gauge("cortex_inbox_oldest_seconds", "How long ago the oldest of these events was sent; 0 when there is none.", func() float64 {
		in, err := inbox()
		switch {
		case err != nil, in.oldest.IsZero() && in.waiting > 0:
			return math.NaN()
		case in.oldest.IsZero():
			return 0
		}
		return max(time.Since(in.oldest), 0).Seconds()
	})
	m.gauge("cortex_dead_letters", "Dead letters that are kept.", number(kept(p.Dead)))
	if p.BudgetLeft != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cortex_budget_remaining_ratio", Help: "Which part of a budget is left, of its tokens or its cost, whichever is less.",
			ConstLabels: prometheus.Labels{"scope": "day"},
		}, number(kept(p.BudgetLeft))))
	}
	m.gauges("cortex_agents", "Agents in the registry, by state.", "state", p.Agents)
	for _, kind := range p.Events {
		m.agentEvents.WithLabelValues(kind)
	}
	m.gauge("cortex_agent_instances", "Processes of agents in the registry.", func() float64 { return float64(p.Instances()) })
}

const (
	keepFor = 5 * time.Second
	askFor  = 2 * time.Second
)

// inboxState is what is known of the inbox.
type inboxState struct {
	waiting int
	oldest  time.Time
}

// kept returns a function that returns the last result of ask, and asks anew when it is older than keepFor.
func kept[T any](ask func(context.Context) (T, error)) func() (T, error) {
	var mu sync.Mutex
	var last time.Time
	var value T
	var failed error
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.IsZero() || now.Sub(last) > keepFor {
			ctx, cancel := context.WithTimeout(context.Background(), askFor)
			defer cancel()
			last = now
			value, failed = ask(ctx)
		}
		return value, failed
	}
}

// number returns a function that returns what read does, and NaN after an error.
func number[T int | float64](read func() (T, error)) func() float64 {
	return func() float64 {
		n, err := read()
		if err != nil {
			return math.NaN()
		}
		return float64(n)
	}
}
