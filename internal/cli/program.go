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

// Program is the configuration of a command line: what [Program.Run] works with.
type Program struct {
	Home home.Home // where processes meet and conversations are stored, unless --transport and --store name others

	// What the program adds to Cortex.
	Providers  map[string]plug.Provider // by the name that --llm takes
	Agents     []Agent                  // built-in agents, in addition to those of Cortex
	Transports map[string]Transport     // by the scheme of the URL that --transport takes
	Stores     map[string]Store         // likewise, of --store
	Roles      []role.Role
}

// Transport is a program's own transport.
type Transport struct {
	// Open connects this process. It is called once for each command. It returns [transport.ErrUnavailable] when the server is unavailable, after which
	// commands that can wait retry.
	Open func(ctx context.Context, at *Target) (transport.Transport, error)
	// Private means that the transport reaches no other process: each chat, question or service runs its own Cortex, with built-in agents only, and one
	// process at a time has the data folder.
	Private bool
}

// Store is a program's own store.
type Store struct {
	// Open opens the store, once for each process that reads or writes conversations: all but agents. A store that is an [io.Closer] is closed when the
	// process ends.
	Open func(ctx context.Context, at *Target) (storage.Store, error)
}

// Target is what a transport or a store is opened with.
type Target struct {
	// URL is the value of --transport or --store: the name alone, or a URL with that scheme, such as name://host. It is shown, and stored in the data
	// folder, so secrets must come from elsewhere, such as the environment.
	URL    string
	Data   string // the folder of --data, which exists
	Tenant string
	Logger *slog.Logger
	// OnConn is called by a transport when its connection is lost, with the reason, and when it is restored. It does not block.
	OnConn func(up bool, err error)
}

// Agent is a built-in agent of a program.
type Agent struct {
	Card     *a2a.AgentCard
	Executor agents.Executor
}

// agentNames returns the short names of the program's own agents.
func (p *Program) agentNames() []string {
	var names []string
	for _, a := range p.Agents {
		names = append(names, strings.TrimPrefix(a.Card.Name, "agent_"))
	}
	return names
}

// builtin returns the short names of all built-in agents, in order.
func (p *Program) builtin() []string {
	names := append(agents.Builtin(), p.agentNames()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// lookup returns a built-in agent by its short name or its id. The program's own agents take precedence over Cortex's.
func (p *Program) lookup(name string) (*a2a.AgentCard, agents.Executor, bool) {
	for _, a := range p.Agents {
		if strings.TrimPrefix(a.Card.Name, "agent_") == strings.TrimPrefix(name, "agent_") {
			return a.Card, a.Executor, true
		}
	}
	card, handler, ok := agents.Lookup(name)
	return card, handler, ok
}
