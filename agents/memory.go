package agents

import (
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Bounds of what an instance remembers of tasks.
const (
	memoryEntries = 1024
	memoryBytes   = 16 << 20
)

// memory remembers a value for each of the latest tasks, and forgets the oldest beyond memoryEntries and memoryBytes.
// It is not safe for concurrent use.
type memory[T any] struct{ recent.Cache[a2a.TaskID, T] }

// put remembers v, of about the given size, for id.
func (m *memory[T]) put(id a2a.TaskID, v T, bytes int) {
	for m.Put(id, v, bytes); m.Len() > memoryEntries || m.Size() > memoryBytes; m.Drop() {
	}
}
