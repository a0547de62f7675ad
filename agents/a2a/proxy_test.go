package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
)

// proxyVar has the test run as a process with a proxy in its environment, which is read once.
const proxyVar = "A2A_TEST_PROXY"

// TestProxy reads lists of agents by way of a proxy, and an agent that such a list names, without one.
func TestProxy(t *testing.T) {
	if os.Getenv(proxyVar) != "" {
		byProxy(t)
		return
	}
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/list") {
			fmt.Fprintln(w, "https://agents.example.com")
			return
		}
		asked.Store(new(r.URL.String()))
		http.NotFound(w, r)
	}))
	defer proxy.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxy$", "-test.v")
	child.Env = append(os.Environ(), proxyVar+"=1", "HTTP_PROXY="+proxy.URL, "http_proxy=", "NO_PROXY=", "no_proxy=")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v:\n%s", err, out)
	}
	if url := asked.Load(); url != nil {
		t.Errorf("the proxy is asked for %s", *url)
	}
}

func byProxy(t *testing.T) {
	lookups := 0
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups++
		return nil, errors.New("there is no server of names")
	}}
	for where, public := range map[string]bool{"http://agents.example.com/list": true, "http://8.8.8.8/list": true, "http://10.9.8.7/list": false} {
		if d, err := peers.ReadDirectory(t.Context(), where); err != nil || d.Public != public {
			t.Errorf("%s: %+v, %v; want that it is public: %v", where, d, err, public)
		}
	}
	if lookups != 0 {
		t.Errorf("%d names are looked up, which the proxy does by itself", lookups)
	}
	_, err := peers.Open(t.Context(), &peers.Peer{URL: "http://10.9.8.7", Public: true}, &peers.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "10.9.8.7:80 is an address of this network") {
		t.Errorf("an agent in this network, which a list from elsewhere names: %v", err)
	}
}
