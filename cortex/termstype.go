package cortex

import (
	"encoding/json"
	"time"
)

// Terms are what an agent asks of, and promises to, whoever gives it work for one of its skills, as its card said it when the
// work was given.
type Terms struct {
	Type    string          `json:"type,omitempty"`    // the task's type when it is not the skill
	Timeout time.Duration   `json:"timeout,omitempty"` // how long the agent takes at most; 0: not said
	Output  json.RawMessage `json:"output,omitempty"`  // JSON Schema of the result; nil: any
	Retries int             `json:"retries,omitempty"` // how often the agent may be given again what it did not do
}

// taskType is what the task's agent knows the work by.
func (t *Task) taskType() string {
	if t.Terms.Type != "" {
		return t.Terms.Type
	}
	return t.Skill
}
