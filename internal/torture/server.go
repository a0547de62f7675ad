package torture

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// Server runs a NATS server with a configuration file of nats-server until ctx ends. Server processes of a run execute it.
func Server(ctx context.Context, config string, log *slog.Logger) error {
	s, err := nats.StartConfig(ctx, config, log)
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}

// serverConfig is the configuration of one of several NATS servers.
type serverConfig struct {
	name   string
	folder string
	port   int
	route  int   // port for the other servers
	routes []int // of all servers; empty for a single server
}

// write writes the configuration file, with the settings of deploy/nats/nats.conf, and returns its path.
func (c serverConfig) write() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: 127.0.0.1:%d\nmax_payload: 8MB\nmax_pending: 64MB\nwrite_deadline: 10s\n", c.name, c.port)
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %q\n  max_memory_store: 256MB\n  sync_interval: 1s\n}\n", filepath.Join(c.folder, c.name))
	if len(c.routes) > 0 {
		fmt.Fprintf(&b, "cluster {\n  name: torture\n  listen: 127.0.0.1:%d\n  routes: [\n", c.route)
		for _, r := range c.routes {
			fmt.Fprintf(&b, "    nats://127.0.0.1:%d\n", r)
		}
		b.WriteString("  ]\n}\n")
	}
	path := filepath.Join(c.folder, c.name+".conf")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// freePorts returns n free ports of 127.0.0.1. They are below the ephemeral ports: otherwise a client that tries to reach a killed server could be
// assigned the server's own port.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		port := 12000 + rand.IntN(18000)
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		l.Close()
		if known := fmt.Sprint(ports); !strings.Contains(known, strconv.Itoa(port)) {
			ports = append(ports, port)
		}
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports on 127.0.0.1: too few are free", n)
}
