package cli

import (
	"net/url"
	"testing"

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
			server, err := nats.Home{}.Start(t.Context(), &home.ServerOptions{Dir: storeDir(data), Listen: sameListen(t.Context(), data, "127.0.0.1:0"), TLS: tls})
			if err != nil {
				t.Fatal(err)
			}
			keepPort(data, server.URL())
			server.Shutdown()
			u, err := url.Parse(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			if got := sameListen(t.Context(), data, "127.0.0.1:0"); got != u.Host {
				t.Errorf("sameListen() = %s, want %s", got, u.Host)
			}
		})
	}
}
