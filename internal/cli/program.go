package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	plug "github.com/cortex-orchestrator/cortex/llm/provider"
)

// Program is what a program adds to the commands of cortex. Nil is cortex itself.
type Program struct {
	Providers map[string]plug.Provider // by the name that --llm takes
	Agents    []Agent
}

// Agent is a built-in agent of a program.
type Agent struct {
	Card     *a2a.AgentCard
	Executor agents.Executor
}

// Run runs one command line of cortex itself, see [Program.Run].
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return new(Program).Run(ctx, args, stdin, stdout, stderr)
}

// agentNames are the short names of the agents that the program has of its own.
func (p *Program) agentNames() []string {
	var names []string
	if p != nil {
		for _, a := range p.Agents {
			names = append(names, strings.TrimPrefix(a.Card.Name, "agent_"))
		}
	}
	return names
}

// builtin returns the short names of all agents that are built in.
func (p *Program) builtin() []string {
	names := append(agents.Builtin(), p.agentNames()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// lookup returns a built-in agent by its short name or its id. One of the program stands before one of cortex.
func (p *Program) lookup(name string) (*a2a.AgentCard, agents.Executor, bool) {
	if p != nil {
		for _, a := range p.Agents {
			if strings.TrimPrefix(a.Card.Name, "agent_") == strings.TrimPrefix(name, "agent_") {
				return a.Card, a.Executor, true
			}
		}
	}
	card, handler, ok := agents.Lookup(name)
	return card, handler, ok
}
