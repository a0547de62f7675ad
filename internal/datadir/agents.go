package datadir

import (
	"errors"
	"path/filepath"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/agents/persona"
)

// Questions is where programs that are agents on this machine keep what they need to go on with a task, below the data folder.
func Questions(data string) string { return filepath.Join(data, "questions") }

// MCP is where the agents of MCP servers keep the same.
func MCP(data string) string { return filepath.Join(data, "mcp") }

// A2A is where A2A agents of others keep the same.
func A2A(data string) string { return filepath.Join(data, "a2a") }

// Personas is where personas keep the same.
func Personas(data string) string { return filepath.Join(data, "personas") }

// Forget erases what agents on this machine keep of a conversation, also those that do not run.
func Forget(data, tenant, contextID string) error {
	return errors.Join(
		agents.ForgetQuestions(Questions(data), tenant, contextID), mcp.Forget(MCP(data), tenant, contextID), peers.Forget(A2A(data), tenant, contextID),
		persona.Forget(Personas(data), tenant, contextID),
	)
}
