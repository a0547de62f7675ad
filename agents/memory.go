package agents

import "github.com/a2aproject/a2a-go/v2/a2a"

// Bounds of what an instance remembers of tasks.
const (
	memoryEntries = 1024
	memoryBytes   = 16 << 20
)

// memory remembers a value for each of the latest tasks, and forgets the oldest beyond memoryEntries and memoryBytes.
// It is not safe for concurrent use.
type memory[T any] struct {
	entries map[a2a.TaskID]memorized[T]
	order   []a2a.TaskID // oldest first; each key of entries once
	bytes   int
}

type memorized[T any] struct {
	value T
	bytes int
}

func newMemory[T any]() *memory[T] { return &memory[T]{entries: map[a2a.TaskID]memorized[T]{}} }

// put remembers v, of about the given size, for id.
func (m *memory[T]) put(id a2a.TaskID, v T, bytes int) {
	old, ok := m.entries[id]
	if !ok {
		m.order = append(m.order, id)
	}
	m.entries[id] = memorized[T]{v, bytes}
	m.bytes += bytes - old.bytes
	for len(m.order) > memoryEntries || m.bytes > memoryBytes {
		m.bytes -= m.entries[m.order[0]].bytes
		delete(m.entries, m.order[0])
		m.order = m.order[1:]
	}
}

func (m *memory[T]) get(id a2a.TaskID) (T, bool) {
	e, ok := m.entries[id]
	return e.value, ok
}
