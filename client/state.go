package client

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// StateName returns a state in words: "failed" for TASK_STATE_FAILED. Auth-required is Cortex's state for tasks that wait for the user's consent. A
// submitted task is "open": its agent may be working on it, or not have begun, and the log does not say which. A text that is no state, which an agent may send, is "unknown".
func StateName(s a2a.TaskState) string {
	switch s {
	case a2a.TaskStateAuthRequired:
		return "waits for your yes"
	case a2a.TaskStateSubmitted:
		return "open"
	}
	name := strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
	if len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_-") != "" {
		return "unknown"
	}
	return strings.ReplaceAll(name, "_", " ")
}
