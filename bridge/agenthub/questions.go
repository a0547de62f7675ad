package agenthub

import (
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what is remembered of tasks that wait for a reply.
const (
	maxQuestions    = 10_000
	maxQuestionSize = 16 << 20 // bytes
)

// questions has what the tasks were about whose agents have asked something: they do not know it any more when the reply comes. It is safe for
// concurrent use.
type questions struct {
	mu sync.Mutex
	of recent.Cache[a2a.TaskID, string]
}

// put remembers what a task is about.
func (q *questions) put(t *agents.Task, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of.Put(t.ID, text, len(text))
	for q.of.Len() > maxQuestions || q.of.Size() > maxQuestionSize {
		q.of.Drop()
	}
}

// first returns what a task is about that continues with a reply, and the end of the line: what the user has said if it is forgotten, as by a restart.
func (q *questions) first(t *agents.Task) string {
	q.mu.Lock()
	text, ok := q.of.Get(t.ID)
	q.mu.Unlock()
	if !ok {
		text = transport.MetaString(t.Message, transport.MetaUserText)
	}
	if text != "" {
		text += "\n"
	}
	return text
}
