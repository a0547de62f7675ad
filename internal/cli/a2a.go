package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/bridge/a2a/grpc"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// a2aCard is where the card of an A2A server is.
const a2aCard = "/.well-known/agent-card.json"

// a2aHandler returns what answers at --a2a for the node that running returns.
func (e *env) a2aHandler(open *ports, running func() *node, waits error) http.Handler {
	return whenReady(running, waits, func(n *node) http.Handler {
		return n.a2a(open).Handler(e.settings.callers(n))
	})
}

// a2a returns the node as an A2A server, which is the same one for all of its ports.
func (n *node) a2a(open *ports) *a2a.Server {
	n.forA2A.Do(func() { n.asA2A = n.newA2A(open) })
	return n.asA2A
}

func (n *node) newA2A(open *ports) *a2a.Server {
	online := func(context.Context) ([]*sdk.AgentCard, error) { return n.online(), nil }
	port := ""
	if open.grpc != nil {
		_, port, _ = net.SplitHostPort(open.grpc.Addr().String()) // it has one
	}
	push := &a2a.Push{Leads: n.leads, Hosts: open.pushTo}
	if n.sender != "" {
		if by, err := n.tokens(); err == nil { // or nobody is let in, which identify says
			push.Key, push.Holds = by.Key, by.Holds
		}
	}
	return a2a.New(a2a.Config{
		Client: n.forMany(), Store: n.store, Agents: online, Version: buildVersion(), GRPC: port, Old: open.old, Logger: n.log,
		Push: push,
	})
}

// troubleA2A returns a line for each thing that A2A clients do not get.
func (n *node) troubleA2A(open *ports) []string {
	if open.a2a == nil {
		return nil
	}
	return n.a2a(open).Trouble()
}

// pushA2A delivers the push notifications of A2A clients until ctx ends.
func (n *node) pushA2A(ctx context.Context, open *ports) error {
	if err := n.a2a(open).Push(ctx); err != nil {
		return fmt.Errorf("--a2a: push notifications: %w", err)
	}
	return nil
}

// serveA2A serves A2A clients over HTTP until ctx ends.
func serveA2A(ctx context.Context, open *ports, log *slog.Logger, handler http.Handler) error {
	if err := httpserver.Serve(ctx, open.a2a, handler, &httpserver.Options{Connections: openfiles.HTTP(open.count()), Body: a2a.MaxBody, TLS: open.tls, Logger: log}); err != nil {
		return fmt.Errorf("--a2a: %w", err)
	}
	return nil
}

// serveGRPC serves A2A clients over gRPC until ctx ends.
func (e *env) serveGRPC(ctx context.Context, open *ports, log *slog.Logger, n *node) error {
	o := &grpc.Options{Connections: openfiles.HTTP(open.count()), Identify: e.settings.callers(n), TLS: open.tls, Logger: log}
	if err := grpc.Serve(ctx, open.grpc, n.a2a(open), o); err != nil {
		return fmt.Errorf("--a2a-grpc: %w", err)
	}
	return nil
}

// callers returns how A2A clients show who they are. An agent asks as itself: its requests are counted and limited as those it makes on the transport.
func (s *settings) callers(n *node) a2a.Identify { return s.identify(n, auth.Person, auth.Agent) }
