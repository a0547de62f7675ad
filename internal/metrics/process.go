package metrics

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
)

// Process is what a scrape reads of the process. Its functions are called concurrently, and return at once but for Waiting and Dead.
type Process struct {
	Stats  func() cortex.Stats
	Owned  func() int            // partitions
	Ready  func() bool           // whether it takes work, and each partition has an owner
	Agents func() map[string]int // by state; the same states each time
	// Waiting returns how many events wait for Cortex, and Dead how many dead letters there are. Both may ask a server: the result is kept for some seconds.
	// After an error the metric is not a number.
	Waiting, Dead func(context.Context) (int, error)
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
	m.gauge("cortex_partitions_owned", "Partitions of the conversations that this process owns.", func() float64 { return float64(p.Owned()) })
	m.gauge("cortex_ready", "1 while the process takes work and each partition has an owner, else 0.", func() float64 {
		if p.Ready() {
			return 1
		}
		return 0
	})
	m.gauge("cortex_inbox_messages", "Events that wait for Cortex, in all its replicas.", kept(p.Waiting))
	m.gauge("cortex_dead_letters", "Dead letters that are kept.", kept(p.Dead))
	m.states("cortex_agents", "Agents in the registry, by state.", p.Agents)
}

const (
	keepFor = 5 * time.Second
	askFor  = 2 * time.Second
)

// kept returns a function that returns the last result of ask, and asks anew when it is older than keepFor.
func kept(ask func(context.Context) (int, error)) func() float64 {
	var mu sync.Mutex
	var last time.Time
	var value float64
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.IsZero() || now.Sub(last) > keepFor {
			ctx, cancel := context.WithTimeout(context.Background(), askFor)
			defer cancel()
			n, err := ask(ctx)
			if last, value = now, float64(n); err != nil {
				value = math.NaN()
			}
		}
		return value
	}
}
