package nats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartConfig starts a server from a configuration file of nats-server. It returns when the server accepts connections; a member of a cluster may
// not have found the others by then. It is for trying setups: use nats-server itself in production. The caller ends the server with Shutdown.
func StartConfig(_ context.Context, path string, logger *slog.Logger) (*Server, error) {
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	opts.NoSigs, opts.NoLog = true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start NATS server: %w", err)
	}
	log := newServerLog(logger)
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	// Start reports fatal errors only in its log.
	if err := log.fatal(); err != nil || !ns.ReadyForConnections(30*time.Second) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("start NATS server: it does not accept connections: %w", cmp.Or(err, log.fatal(), context.DeadlineExceeded))
	}
	return &Server{ns: ns, url: ns.ClientURL(), log: log}, nil
}
