package kit

import "github.com/a2aproject/a2a-go/v2/a2a"

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
