package metrics

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// maxFollowed bounds the conversations whose open work is known; of more, some are not counted.
	maxFollowed = 1 << 16
	// activeFor is how long a conversation counts as active after its last entry.
	activeFor = 5 * time.Minute
	// overdue is how long after its deadline a task still counts as open: another process may have ended it.
	overdue = 10 * time.Minute
)

// States of open tasks, in the label state, as A2A names them. A task that waits for another one counts as submitted.
var states = [...]string{"submitted", "working", "input_required", "auth_required"}

// stateOf returns the index of an open phase in states.
func stateOf(p conversation.Phase) int {
	switch p {
	case conversation.Working:
		return 1
	case conversation.Asking:
		return 2
	case conversation.Held:
		return 3
	}
	return 0
}

// open knows what is open in the conversations of this process. It is safe for concurrent use.
type open struct {
	seed   maphash.Seed
	agents *values

	mu     sync.Mutex
	byConv map[uint64]*work // by a hash of the key
	owned  func() []int     // partitions; nil, or a nil result: all count
	swept  time.Time
	shown  map[string]*[len(states)]bool // what was open once, by agent: a scrape has it, also with 0

	turns, active, tasks *prometheus.Desc
}

// work is what is open in a conversation.
type work struct {
	seq       uint64
	appended  time.Time // the last entry by this process
	until     time.Time // when all of it will have ended
	partition int
	turns     int
	tasks     []openTask
}

// openTask is a task by its label values.
type openTask struct {
	agent string
	state int
}

func newOpen(agents *values) *open {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &open{
		seed: maphash.MakeSeed(), agents: agents, byConv: map[uint64]*work{}, shown: map[string]*[len(states)]bool{},
		turns:  desc("cortex_turns_open", "Turns that wait for agents. Those that wait for a decision are in cortex_decisions_open."),
		active: desc("cortex_conversations_active", "Conversations to which something was added in the last five minutes, at most 65536."),
		tasks:  desc("cortex_tasks_open", "Tasks that have not ended, by agent and state.", "agent", "state"),
	}
}

// follow notes what is open in conv at time now. Without appended, conv was only read.
func (o *open) follow(conv *conversation.Conversation, now time.Time, appended bool) {
	key := maphash.Comparable(o.seed, conv.Key())
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.byConv[key]
	switch {
	case w == nil:
		if len(o.byConv) >= maxFollowed && now.Sub(o.swept) > time.Second {
			o.sweep(now)
		}
		if len(o.byConv) >= maxFollowed {
			return
		}
		w = &work{partition: transport.Partition(conv.Tenant, conv.ContextID)}
		o.byConv[key] = w
	case conv.Seq < w.seq && !appended: // read before the last entry
		return
	}
	w.seq, w.turns, w.tasks, w.until = conv.Seq, 0, w.tasks[:0], now
	if appended {
		w.appended = now
	}
	for _, t := range conv.Turns {
		if t.Open() {
			w.turns++
		}
	}
	for _, t := range conv.Tasks {
		if t.Phase.Over() {
			continue
		}
		open := openTask{o.agents.of(t.Agent), stateOf(t.Phase)}
		w.tasks = append(w.tasks, open)
		if o.shown[open.agent] == nil {
			o.shown[open.agent] = new([len(states)]bool)
		}
		o.shown[open.agent][open.state] = true
		if t.Deadline.After(w.until) {
			w.until = t.Deadline
		}
	}
	if !appended && w.turns == 0 && len(w.tasks) == 0 && w.appended.IsZero() {
		delete(o.byConv, key)
	}
}

// forget drops a conversation.
func (o *open) forget(key conversation.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byConv, maphash.Comparable(o.seed, key))
}

// sweep drops what is not active and has nothing open any more, or belongs to another process. o.mu is held.
func (o *open) sweep(now time.Time) {
	o.swept = now
	var owned []int
	if o.owned != nil {
		owned = o.owned()
	}
	for key, w := range o.byConv {
		if owned != nil && !slices.Contains(owned, w.partition) || now.Sub(w.until) > overdue ||
			w.turns == 0 && len(w.tasks) == 0 && now.Sub(w.appended) > activeFor {
			delete(o.byConv, key)
		}
	}
}

// Describe implements prometheus.Collector.
func (o *open) Describe(ch chan<- *prometheus.Desc) {
	ch <- o.turns
	ch <- o.active
	ch <- o.tasks
}

// Collect implements prometheus.Collector.
func (o *open) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	tasks := map[openTask]int{}
	turns, active := 0, 0
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	for _, w := range o.byConv {
		turns += w.turns
		if now.Sub(w.appended) <= activeFor {
			active++
		}
		for _, t := range w.tasks {
			tasks[t]++
		}
	}
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(o.turns, turns)
	gauge(o.active, active)
	for agent, shown := range o.shown {
		for i, state := range states {
			if shown[i] {
				gauge(o.tasks, tasks[openTask{agent, i}], agent, state)
			}
		}
	}
}
