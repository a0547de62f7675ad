package rtfs

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/transport"
)

// hostName is the id of the host of the agents that register.
const hostName = "rtfs"

// atOnce is how many calls to an agent are made at a time.
const atOnce = 16

// times are the times that matter, which tests shorten.
type times struct {
	call   time.Duration // that a call to an agent may take
	again  time.Duration // before a call to an agent that allows it is made again
	answer time.Duration // after which who calls is told that the agent is still at work: clients wait for 30 s
	sync   time.Duration // between two readings of the leases, which another replica may have changed
}

// usual are the times in production.
var usual = times{call: 5 * time.Minute, again: time.Second, answer: 25 * time.Second, sync: 30 * time.Second}

// bridge is a registry of RTFS agents, and where Cortex's agents are called by them.
type bridge struct {
	at     *role.Site
	prefix string // of the agents' ids in Cortex
	public string // URL, or ""
	times  times

	host   *agents.Host
	names  *kit.Names
	leases *leases
	made   *made
	poster *poster
	calls  *kit.Places // of calls of Cortex's agents
	room   *httpserver.Room
	turns  *httpserver.Room // for large requests that are decoded
	pace   client.Pace      // of what is asked of them, by machine
}

func newBridge(at *role.Site, o *options, t times) (*bridge, error) {
	b := &bridge{at: at, prefix: o.prefix, public: o.public, times: t, poster: newPoster(kit.IsLoopback(o.address), o.hosts), calls: kit.NewPlaces(maxCalls, maxCalls), room: httpserver.NewRoom(mostFinding, ownFinding), turns: httpserver.NewTurns()}
	b.leases, b.made = newLeases(b), newMade(at)
	var err error
	// A call whose outcome is not known is not made again, see made.
	if b.host, err = at.Host(hostName, &agents.Options{Concurrency: atOnce, Deliveries: -1}); err != nil {
		return nil, transport.Permanent(err)
	}
	b.names = kit.NewNames(hostName, at.Keyed, func(string) { b.leases.wake() })
	return b, nil
}

func (b *bridge) now() time.Time { return b.at.Client.Clock() }

// run serves the agents that have registered, and calls serve when they are known, until ctx ends or one of them fails.
func (b *bridge) run(ctx context.Context, serve func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.names.Run(ctx, b.at.Transport, b.at.Tenant) })
	g.Go(func() error { return b.host.Serve(ctx) })
	g.Go(func() error { return b.made.run(ctx) })
	g.Go(func() error {
		if err := b.names.Synced(ctx); err != nil {
			return err
		}
		if err := b.leases.read(ctx); err != nil {
			return err
		}
		g.Go(func() error { return b.leases.run(ctx) })
		return serve(ctx)
	})
	return g.Wait()
}

// handler serves the registry and the calls of Cortex's agents. No page in a browser has business here, whatever name it reaches this machine by.
func (b *bridge) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", b.serveRPC)
	mux.HandleFunc("POST /rtfs", b.serveRPC)
	mux.HandleFunc("POST /agents/{id}", b.serveCall)
	mux.HandleFunc("GET /agents/{id}/health", b.serveHealth)
	mux.HandleFunc("GET /agents/{id}/capabilities", b.serveCapabilities)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "this is for programs, not for pages in a browser", http.StatusForbidden)
			return
		}
		httpserver.By(r.Context(), kit.Host(r.RemoteAddr))
		mux.ServeHTTP(w, r)
	})
}

// base returns the URL by which a client reaches this server.
func (b *bridge) base(r *http.Request) string {
	if b.public != "" {
		return b.public
	}
	return "http://" + strings.TrimRight(r.Host, "/")
}
