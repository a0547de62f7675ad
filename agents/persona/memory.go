package persona

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// memoryDir is the folder of what an agent remembers, in its folder.
const memoryDir = "memory"

// Bounds of what is remembered in a conversation.
const (
	maxKeys     = 50
	maxKey      = 256      // bytes
	maxValue    = 64 << 10 // bytes
	memoryTime  = time.Hour
	maxMemory   = 7 * 24 * time.Hour
	memoryFiles = 10_000
	memoryBytes = 1 << 30
)

// memory keeps values by conversation, in a file each, which is erased with the conversation. It is safe for concurrent use by one process.
type memory struct {
	mu    sync.Mutex
	files *taskfile.Folder
	now   func() time.Time
	log   *slog.Logger
	told  map[string]bool // files that cannot be read, of which the log knows; at most maxTold
}

const maxTold = 1_000

// entry is a value that is remembered.
type entry struct {
	Value   string    `json:"value"`
	Expires time.Time `json:"expires"`
}

// path returns the file of the conversation of a task.
func (m *memory) path(w *work) string {
	return m.files.Path(w.task.Tenant, w.task.ContextID, a2a.TaskID("memory"))
}

// read returns what is remembered and has not expired.
func (m *memory) read(w *work) (map[string]entry, error) {
	all := map[string]entry{}
	if _, err := taskfile.ReadRecord(m.path(w), maxKeys*(maxValue+maxKey)*7, &all); err != nil { // 7: escapes
		if path := m.path(w); !m.told[path] {
			if len(m.told) >= maxTold {
				clear(m.told)
			}
			m.told[path] = true
			m.log.Warn("what is remembered in a conversation cannot be read, and nothing more is remembered there until it is forgotten with the conversation or its file removed", "file", path, "err", err)
		}
		return nil, err
	}
	delete(m.told, m.path(w))
	now := m.now()
	maps.DeleteFunc(all, func(_ string, e entry) bool { return !now.Before(e.Expires) })
	return all, nil
}

// remember keeps a value; an empty one is forgotten.
func (m *memory) remember(w *work, key, value string, minutes int) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	life := memoryTime
	if minutes > 0 {
		life = min(time.Duration(min(minutes, 1<<20))*time.Minute, maxMemory)
	}
	if err := w.forgotten(); err != nil {
		return "", err
	}
	all, err := m.read(w)
	switch _, exists := all[key]; {
	case err != nil:
		return "", err
	case key == "" || len(key) > maxKey:
		return "", fmt.Errorf("the key has to have 1 to %d bytes", maxKey)
	case len(value) > maxValue:
		return "", fmt.Errorf("the value has %d bytes: at most %d are allowed", len(value), maxValue)
	case value == "":
		delete(all, key)
	case !exists && len(all) >= maxKeys:
		return "", fmt.Errorf("%d keys are remembered, which is the limit: forget one with an empty value", maxKeys)
	default:
		all[key] = entry{value, m.now().Add(life)}
	}
	if err := m.files.WriteRecord(m.path(w), records.Owner(w.task), maxKeys*(maxValue+maxKey)*7, all); err != nil {
		return "", err
	}
	if value == "" {
		return "forgotten", nil
	}
	return fmt.Sprintf("remembered for %v", life), nil
}

// find returns the keys that begin with a prefix, and have all words in the key or the value, with sizes and the beginnings of their values.
func (m *memory) find(w *work, words string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, err := m.read(w)
	if err != nil {
		return "", err
	}
	var found []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text := strings.ToLower(key + "\n" + all[key].Value)
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(word string) bool { return !strings.Contains(text, word) }) {
			found = append(found, fmt.Sprintf("%s (%d bytes): %s", key, len(all[key].Value), shorten.Line(all[key].Value, 100)))
		}
	}
	if len(found) == 0 {
		return "nothing is found", nil
	}
	return strings.Join(found, "\n"), nil
}

// memoryTools returns the tools for the memory.
func (a *Agent) memoryTools() []*tool {
	if !a.p.Memory {
		return nil
	}
	m := a.memory
	return []*tool{
		newTool(toolRemember, "Keep a text under a key for later tasks of this conversation, for an hour unless minutes says otherwise. An empty value forgets it.", repeatable,
			`{"type":"object","properties":{"key":{"type":"string"},"value":{"type":"string"},"minutes":{"type":"integer","minimum":1}},"required":["key","value"],"additionalProperties":false}`,
			func(_ context.Context, w *work, in *input) (string, error) {
				return m.remember(w, in.Key, in.Value, in.Minutes)
			}),
		newTool(toolRecall, "Read what is kept under a key.", readOnly,
			`{"type":"object","properties":{"key":{"type":"string"}},"required":["key"],"additionalProperties":false}`,
			func(_ context.Context, w *work, in *input) (string, error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				all, err := m.read(w)
				if err != nil {
					return "", err
				}
				e, ok := all[in.Key]
				if !ok {
					return "", errors.New("nothing is kept under this key")
				}
				return e.Value, nil
			}),
		newTool(toolList, "List the keys of what is kept.", readOnly, `{"type":"object","properties":{},"additionalProperties":false}`,
			func(_ context.Context, w *work, _ *input) (string, error) { return m.find(w, "") }),
		newTool(toolSearch, "List the keys of what is kept and has all these words.", readOnly,
			`{"type":"object","properties":{"words":{"type":"string"}},"required":["words"],"additionalProperties":false}`,
			func(_ context.Context, w *work, in *input) (string, error) { return m.find(w, in.Words) }),
	}
}
