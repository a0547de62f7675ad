package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/internal/certificate"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

// openAt is where a service listens, or none.
type openAt struct {
	http, a2a, grpc string
	pprof           string
	flight          bool
	old             bool     // A2A 0.3 at a2a as well
	pushTo          []string // hosts of A2A clients in this network
	cert, key       string   // files, for TLS at all of them
	oidc            oidcFlags
}

// ports are the open ports of a service; nil where it does not listen.
type ports struct {
	http, a2a, grpc net.Listener
	pprof           net.Listener
	old             bool        // A2A 0.3 at a2a as well
	pushTo          []string    // hosts of A2A clients in this network
	tls             *tls.Config // nil: without TLS
	certs           shown
	log             *logs.Patient // of the process; nil: it has none
	door            *consoleDoor  // nil without http
	login           console.Login
	consoleURL      string // "": that of http
}

// openPorts opens the ports of a service.
func (e *env) openPorts(ctx context.Context, at *openAt, log *slog.Logger) (_ *ports, err error) {
	p := &ports{log: e.log, old: at.old, pushTo: at.pushTo}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	all := []struct {
		flag, at, usual string
		to              *net.Listener
	}{{"http", at.http, "8420", &p.http}, {"a2a", at.a2a, "8421", &p.a2a}, {"a2a-grpc", at.grpc, "8422", &p.grpc}, {"pprof", cmp.Or(at.pprof, none), "6060", &p.pprof}}
	for _, one := range all {
		if one.at != none && !isAddress(one.at) {
			return nil, e.settings.wrong(one.flag, " %q: want host:port, such as 127.0.0.1:%s, or none", one.at, one.usual)
		}
	}
	if host, _, _ := net.SplitHostPort(at.pprof); at.pprof != "" && at.pprof != none && !publicnet.IsLoopback(host) {
		return nil, e.settings.wrong("pprof", " %q: profiles show what is in memory, so they are served on this machine only: give 127.0.0.1 as its host", at.pprof)
	}
	if at.grpc != none && at.a2a == none {
		return nil, e.settings.wrong("a2a-grpc", " %s: give --a2a as well, where the cards are", at.grpc)
	}
	if at.old && at.a2a == none {
		return nil, e.settings.wrong("a2a-03", ": give --a2a as well")
	}
	if len(at.pushTo) > 0 && at.a2a == none {
		return nil, e.settings.wrong("a2a-push-host", ": give --a2a as well")
	}
	if p.login, err = at.oidc.login(&e.settings); err != nil {
		return nil, err
	}
	if at.oidc.issuer != "" && at.http == none {
		return nil, e.settings.wrong("oidc-issuer", ": give --http as well, where the console is")
	}
	p.consoleURL = at.oidc.url
	for _, host := range at.pushTo {
		if err := webhook.CheckHost(host); err != nil {
			return nil, e.settings.wrong("a2a-push-host", ": %w", err)
		}
	}
	var shown *certificate.Certificate
	switch {
	case (at.cert == "") != (at.key == ""):
		missing := "http-key"
		if at.cert == "" {
			missing = "http-cert"
		}
		return nil, usagef("--%s is missing: a certificate and its key belong together", missing)
	case at.cert != "":
		if shown, err = certificate.Open(at.cert, at.key); err != nil {
			return nil, e.settings.wrong("http-cert", ": %w", err)
		}
		p.tls = shown.Server()
	}
	p.certs.all = e.settings.certificates(shown, at.cert)
	p.certs.look()
	for _, one := range all {
		if one.at == none {
			continue
		}
		if *one.to, err = e.settings.listen(ctx, one.flag, one.at, log); err != nil {
			return nil, err
		}
	}
	if p.http != nil {
		if p.door, err = openDoor(e.settings.data, p.http, p.scheme()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// listen opens a port of a service. It waits up to killedEnd for one that another service on the data folder has, which may have been killed, and for
// one where a chat on the data folder has its console until the chat ends, as the service would for the data folder.
func (s *settings) listen(ctx context.Context, flag, at string, log *slog.Logger) (net.Listener, error) {
	var ran bool // another service was seen on the data folder
	for end := time.Now().Add(killedEnd); ; {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		a, ok, ferr := datadir.Find(ctx, s.data)
		runs := ferr == nil && ok && !a.Passing
		over := time.Now().After(end)
		chats := ferr == nil && ok && a.Passing && consoleAt(s.data, a.PID, at)
		switch {
		case chats && !ran:
			log.Warn("waiting for the port of --"+flag, "err", oneLine(s.mayPass(a)))
		case chats:
		case runs && over:
			return nil, s.isTaken(a)
		case !runs && (over || !ran):
			return nil, fmt.Errorf("--%s %s: the port is in use: choose another, or none", flag, at)
		case !ran:
			log.Warn("waiting for the port of --"+flag, "err", oneLine(s.mayEnd(a)))
		}
		ran = true
		if err := rest.For(ctx, waitingPause); err != nil {
			return nil, err
		}
	}
}

// scheme returns that of the URLs at which the service is.
func (p *ports) scheme() string {
	if p.tls != nil {
		return "https://"
	}
	return "http://"
}

// Close closes what is open.
func (p *ports) Close() {
	for _, l := range []net.Listener{p.http, p.a2a, p.grpc, p.pprof} {
		if l != nil {
			l.Close()
		}
	}
}

// count returns the number of ports.
func (p *ports) count() (n int) {
	for _, l := range []net.Listener{p.http, p.a2a, p.grpc, p.pprof} {
		if l != nil {
			n++
		}
	}
	return n
}
