package cli

import (
	"log/slog"

	"github.com/cortex-orchestrator/cortex/internal/policyfile"
)

// loadPolicy reads the file of --policy; nil without one.
func (s *settings) loadPolicy(log *slog.Logger) (*policyfile.File, error) {
	if s.node.policy == "" {
		return nil, nil
	}
	f, err := policyfile.Open(s.node.policy, log, s.node.tell)
	if err != nil {
		return nil, s.wrong("policy", ": %w", err)
	}
	return f, nil
}
