// Package role is for parts of a program that run beside `cortex serve`, in the same process: listeners, through which others ask Cortex,
// and what reaches agents elsewhere. A program adds roles through app.Options.
package role

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	// Name identifies the role in the help, the log and /readyz.
	Name string
	// About describes the role in one line, for the help.
	About string
	// Open adds the role's flags to f, and returns the function that does its work according to them. It is called for each command line, the
	// function only in a service, and later. Like all settings, the flags may also come from the environment and from the file of --config. A
	// flag itself rejects invalid values: see [flag.FlagSet.Func].
	Open func(f *flag.FlagSet) Run
}

// Grace is how long a role may take to end: the default of agents, and a little more.
const Grace = 15 * time.Second

// Run does a role's work until ctx ends, after which it has [Grace] to return. It starts when Cortex takes work, and ends a little later
// than Cortex, so that its clients, and agents of its own, stay connected while Cortex has work for them.
//
// It returns nil when there is nothing to do, such as when its flags were not given. A permanent error ([transport.IsPermanent]) ends the
// service. After any other the role is restarted, with pauses of up to half a minute; /readyz reports the error, and
// Cortex itself goes on.
type Run func(ctx context.Context, at *Site) error

// Site is what a role works with.
type Site struct {
	Tenant string
	Logger *slog.Logger // names the role
	// Client asks Cortex; [client.Message].From is the sender.
	Client *client.Client
	// Transport is for what Client and Host do not do. It has those optional interfaces of package transport that the transport supports.
	Transport transport.Transport
	// Store is read only, except that a role may write storage.Notes if Store implements it, such as for ids that outlive the process.
	Store storage.Store
	// Agents returns the cards of the agents that can be given work now. The caller must not change them.
	Agents func() []*a2a.AgentCard
	// Keyed returns the ids of the agents that have keys of their own, present or not; nil if that is not known, or there are no keys.
	Keyed func() ([]string, error)
	// Leads reports whether this process is the one of the tenant's replicas that now does the work which only one of them does.
	Leads func() bool
	// Ready reports that the role's work has begun. Until its first call, /readyz says that the service is starting.
	Ready func()
	// Waits tells /readyz why the role does nothing, as while a server elsewhere is away; nil when it goes on, as does Ready. The service stays ready.
	Waits func(why error)
	// Listeners is the number of listeners that share the connections allowed over HTTP.
	Listeners int

	mu        sync.Mutex
	listeners []net.Listener // of the current Run
}

// Host returns a host for agents of the role, such as agents elsewhere that it reaches; see [agents.NewHost].
func (s *Site) Host(name string, o *agents.Options) (*agents.Host, error) {
	var opts agents.Options
	if o != nil {
		opts = *o
	}
	opts.Tenant, opts.Logger = s.Tenant, s.Logger
	return agents.NewHost(s.Transport, name, &opts)
}

// Listen listens on addr, host:port. Its errors are permanent.
func (s *Site) Listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%s: the port is in use: choose another", addr)
	}
	if err != nil {
		return nil, transport.Permanent(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	return l, nil
}

// Close closes the listeners of a Run that has returned, so that the next one can listen at the same address. The program calls it.
func (s *Site) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.Close() // most are closed already
	}
	s.listeners = nil
}

// Serve serves HTTP on l until ctx ends, closes l, and returns nil. It limits the connections and the time of a request; for long requests a
// handler uses [http.ResponseController].
func (s *Site) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return httpserver.Serve(ctx, l, h, &httpserver.Options{Connections: openfiles.HTTP(s.Listeners), Logger: s.Logger})
}
