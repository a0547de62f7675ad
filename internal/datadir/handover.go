package datadir

import (
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/llms"
)

// Handover describes the settings of a node, as it leaves them in the data folder: for processes that join, for commands that show settings, and for
// the chat that takes over with the same settings. It has everything except keys and passwords, of which each process has its own.
type Handover struct {
	Flags  map[string]string         `json:"flags,omitempty"` // by name, without those that have their defaults
	LLMs   map[string]*llms.Endpoint `json:"llms,omitempty"`
	Budget budget.Limits             `json:"budget"`
	// Templates is the checksum of the templates of --prompts that the node read when it started.
	Templates string `json:"templates,omitempty"`
}

// Of returns the value of a flag of the node; "" is the default.
func (h *Handover) Of(flag string) string {
	if h == nil {
		return ""
	}
	return h.Flags[flag]
}
