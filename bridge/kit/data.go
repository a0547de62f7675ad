package kit

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Parts returns what an agent has given back with a task: the parts of its message, and then those of its artifacts.
func Parts(t *a2a.Task) (parts a2a.ContentParts) {
	if t.Status.Message != nil {
		parts = append(parts, t.Status.Message.Parts...)
	}
	for _, a := range t.Artifacts {
		parts = append(parts, a.Parts...)
	}
	return parts
}

// StateName returns a state without its prefix, such as "completed".
func StateName(s a2a.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}

// Valid returns text without what protobuf and JSON cannot carry.
func Valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// ValidAll returns the words without what protobuf and JSON cannot carry.
func ValidAll(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = Valid(w)
	}
	return all
}
