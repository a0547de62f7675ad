package cli

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/home"
	plug "github.com/cortex-orchestrator/cortex/llm/provider"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Program is what the commands of a program work with.
type Program struct {
	Home home.Home // where its processes meet and what is said is kept, unless --transport and --store name others

	// What it adds to cortex.
	Providers  map[string]plug.Provider // by the name that --llm takes
	Agents     []Agent
	Transports map[string]Transport // by the scheme of the URL that --transport takes
	Stores     map[string]Store     // likewise, of --store
	Roles      []role.Role
}

// Transport is a transport of a program.
type Transport struct {
	// Open connects this process. It is called once for each command. A server that is away is a [transport.ErrUnavailable]: who can wait
	// tries again.
	Open func(ctx context.Context, at *Target) (transport.Transport, error)
	// Private says that the transport reaches no other process: each chat, question or service runs a Cortex of its own, with the agents
	// that are built in. One at a time has the data folder.
	Private bool
}

// Store is a store of a program.
type Store struct {
	// Open opens the store, once for each process that reads or writes conversations: all but agents. One that is an [io.Closer] is closed
	// in the end.
	Open func(ctx context.Context, at *Target) (storage.Store, error)
}

// Target is what a transport or a store of a program is opened for.
type Target struct {
	// URL is what --transport or --store names: the name alone, or with what goes on behind it, such as name://host. It is shown, and left
	// in the data folder: what is secret comes from elsewhere, such as the environment.
	URL    string
	Data   string // the folder of --data, which is there
	Tenant string
	Logger *slog.Logger
	// OnConn is for a transport to call when its connection is lost, with the reason, and when it is back. It does not block.
	OnConn func(up bool, err error)
}

// Agent is a built-in agent of a program.
type Agent struct {
	Card     *a2a.AgentCard
	Executor agents.Executor
}

// agentNames are the short names of the agents that the program has of its own.
func (p *Program) agentNames() []string {
	var names []string
	for _, a := range p.Agents {
		names = append(names, strings.TrimPrefix(a.Card.Name, "agent_"))
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
	for _, a := range p.Agents {
		if strings.TrimPrefix(a.Card.Name, "agent_") == strings.TrimPrefix(name, "agent_") {
			return a.Card, a.Executor, true
		}
	}
	card, handler, ok := agents.Lookup(name)
	return card, handler, ok
}
