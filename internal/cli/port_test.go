package cli

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
)

// TestPortIsKept starts a server after another one on the same data folder, with and without TLS, in which the URL's scheme differs: it has the same
// port.
func TestPortIsKept(t *testing.T) {
	own := certify(t, "server")
	for name, tls := range map[string]home.TLS{"plain": {}, "TLS": {Cert: own.Cert, Key: own.Key}} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			server, err := nats.Home{}.Start(t.Context(), &home.ServerOptions{Dir: datadir.Store(data), Listen: datadir.SameListen(t.Context(), data, "127.0.0.1:0"), TLS: tls})
			if err != nil {
				t.Fatal(err)
			}
			datadir.KeepPort(data, server.URL())
			server.Shutdown()
			u, err := url.Parse(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			if got := datadir.SameListen(t.Context(), data, "127.0.0.1:0"); got != u.Host {
				t.Errorf("sameListen() = %s, want %s", got, u.Host)
			}
		})
	}
}

// TestPortTaken takes the previous port just before it is used.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	srv, err := startServer(t.Context(), own, &home.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("startServer = %v, want another port", err)
	}
	if strings.HasSuffix(srv.URL(), l.Addr().String()) {
		t.Errorf("URL = %s, which is taken", srv.URL())
	}
	srv.Shutdown()
	if _, err := startServer(t.Context(), own, &home.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, l.Addr().String()); err == nil {
		t.Error("startServer takes another port than the one that was asked for")
	}
}
