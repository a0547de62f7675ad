// Package role is for what runs beside `cortex serve`, in the same process: listeners and bridges, by which others ask Cortex, or are its
// agents. A program has roles by app.Options.
package role

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Role is something that runs beside `cortex serve`.
type Role struct {
	// Name is what the help, the log and /readyz call it.
	Name string
	// About says in a line what it is for, for the help.
	About string
	// Open adds the role's flags to f, and returns what does its work by them. It is called for each command line; the work begins later, in
	// a service only. The flags are settings as all others are: they may come from the environment and from the file of --config, too. What
	// is wrong with a value is for the flag to say: see [flag.FlagSet.Func].
	Open func(f *flag.FlagSet) Run
}

// Grace is how long a role may take to end: as long as its agents, and a little more.
const Grace = 15 * time.Second

// Run does a role's work until ctx ends: then it has [Grace] to end. It begins when Cortex takes work, and goes on a little longer
// than that, so that what it serves, and agents of its own, do not seem to be gone while Cortex has work for them.
//
// It returns nil when there is nothing to do, such as when its flags were not given. An error that [transport.IsPermanent] reports ends the
// service: no waiting mends it. After any other the role is run again, with pauses of up to half a minute; /readyz tells of it, and
// Cortex itself goes on.
type Run func(ctx context.Context, at *Site) error

// Site is what a role has to work with.
type Site struct {
	Tenant string
	Logger *slog.Logger // names the role
	// Client asks Cortex: [client.Message].From says in whose name.
	Client *client.Client
	// Transport is for what Client and Host do not do. It has the optional interfaces of package transport that it can have.
	Transport transport.Transport
	// Store is read, but for what storage.Notes keeps, where it is one: ids that have to outlive the process, say.
	Store storage.Store
	// Agents returns the cards of the agents that can be given work now. They are not to be changed.
	Agents func() []*a2a.AgentCard
	// Leads reports whether this process does now what one of all replicas of the tenant does for them.
	Leads func() bool
	// Ready says that the role's work has begun. Until then, at the first time, /readyz says that the service is starting.
	Ready func()
	// Listeners is between how many the connections are divided that may come over HTTP.
	Listeners int
}

// Host returns a host for agents of the role, such as those of others that it speaks for; see [agents.NewHost].
func (s *Site) Host(name string, o *agents.Options) (*agents.Host, error) {
	var opts agents.Options
	if o != nil {
		opts = *o
	}
	opts.Tenant, opts.Logger = s.Tenant, s.Logger
	return agents.NewHost(s.Transport, name, &opts)
}

// Listen listens on addr, host:port. That it cannot do so is for good.
func (s *Site) Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%s: the port is in use: choose another", addr)
	}
	return l, transport.Permanent(err)
}

// Serve answers what comes to l, which it closes, by HTTP until ctx ends, and then returns nil. Who connects cannot take more than a
// share of the process; for requests that last there is [http.ResponseController].
func (s *Site) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return httpserver.Serve(ctx, l, h, &httpserver.Options{Connections: openfiles.HTTP(s.Listeners), Logger: s.Logger})
}
