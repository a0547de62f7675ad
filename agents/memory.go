package agents

import (
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what instances remember of tasks.
const (
	memoryEntries = 1024      // of a memory
	memoryBytes   = 16 << 20  // of a memory; the latest entry may be larger
	hostBytes     = 256 << 20 // of all memories of a host
	entryBytes    = 512       // what an entry takes besides its value
)

// memories is what instances remember of tasks; those of a host share one. Beyond hostBytes, the memory that has most forgets its oldest entries.
// It is safe for concurrent use.
type memories struct {
	mu sync.Mutex
	of recent.Shares[any, a2a.TaskID, any] // by *memory
}

// memory remembers a value for each of the latest tasks, and forgets the oldest beyond memoryEntries and memoryBytes.
// It is safe for concurrent use.
type memory[T any] struct{ in *memories }

// get returns what is remembered for id.
func (m *memory[T]) get(id a2a.TaskID) (v T, ok bool) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	x, ok := m.in.of.Get(m, id)
	if ok {
		v = x.(T)
	}
	return v, ok
}

// put remembers v, of about the given size, for id.
func (m *memory[T]) put(id a2a.TaskID, v T, bytes int) {
	id = a2a.TaskID(strings.Clone(string(id))) // it may be a piece of an event, which is not to stay
	bytes += entryBytes + len(id)
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.in.of.Take(m, id)
	for n, size := m.in.of.Has(m); n > 0 && (n >= memoryEntries || size+bytes > memoryBytes); n, size = m.in.of.Has(m) {
		m.in.of.Drop(m)
	}
	m.in.of.Put(m, id, v, bytes, hostBytes)
}

// forget forgets all.
func (m *memory[T]) forget() {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.in.of.Forget(m)
}

// weight returns about how many bytes an outcome takes: data and metadata count as they are in memory. It is 0 for one that cannot be sent, of which only
// the refusal is remembered, see [agent.answer].
func (o *outcome) weight() int {
	t := &a2a.Task{Status: a2a.TaskStatus{State: o.state, Message: &a2a.Message{Parts: o.parts}}, Artifacts: o.artifacts}
	_, _, body, err := transport.EncodePayload(t)
	if err != nil {
		return 0
	}
	return nesting.Weight(body)
}

// weightOf returns about how many bytes a received message takes.
func weightOf(m *a2a.Message) int {
	b, _ := transport.EncodeValue(m) // what was decoded can be encoded
	return nesting.Weight(b)
}
