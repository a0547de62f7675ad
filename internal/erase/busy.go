package erase

import (
	"slices"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Busy returns what a conversation still waits for, or "".
func Busy(conv *conversation.Conversation) string {
	switch {
	case slices.ContainsFunc(conv.Turns, (*conversation.Turn).Open):
		return "has a turn that is not answered yet"
	case len(conv.Running()) > 0:
		return "has a task that an agent works on"
	case len(conv.Asking()) > 0, len(conv.Held()) > 0:
		return "waits for the reply to a question"
	}
	return ""
}
