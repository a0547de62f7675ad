package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// pprofConnections is how many profiles may be read at a time.
const pprofConnections = 8

// servePprof serves the profiles of this process until ctx ends.
func servePprof(ctx context.Context, l net.Listener, log *slog.Logger) error {
	log.Info("profiles are served", "url", "http://"+l.Addr().String()+"/debug/pprof/")
	if err := httpserver.Serve(ctx, l, profiles(), &httpserver.Options{Connections: pprofConnections, Logger: log}); err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	return nil
}

// profiles returns the handler of profiles. It answers requests to this machine by its own name only: a page of a browser that has its name point here
// gets nothing.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !byOwnName(r) {
			http.Error(w, "profiles are for 127.0.0.1 and localhost only", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// byOwnName reports whether a request names this machine by its own address or localhost. A page of a browser whose name was made to point here does not.
func byOwnName(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return publicnet.IsLoopback(host)
}

// byAnotherName reports whether a request from this machine names another one, as those of such a page do, and those of a proxy that passes on the name
// by which it was asked.
func byAnotherName(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && !byOwnName(r)
}
