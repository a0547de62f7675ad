package metrics

import "github.com/cortex-orchestrator/cortex/cortex"

// Process is what a scrape reads of the process. Its functions return at once, and are called concurrently.
type Process struct {
	Stats  func() cortex.Stats
	Owned  func() int            // partitions
	Ready  func() bool           // whether it takes work, and each partition has an owner
	Agents func() map[string]int // by state; the same states each time
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
	m.states("cortex_agents", "Agents in the registry, by state.", p.Agents)
}
