package nats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartConfig starts a server from a configuration file of nats-server, and returns when it accepts connections; a member of a
// cluster may not have found the others then. It is for trying setups: what runs for long is better the nats-server itself.
// The caller ends it with Shutdown.
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
	// Start reports what stops it in its log only.
	if err := log.fatal(); err != nil || !ns.ReadyForConnections(30*time.Second) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("start NATS server: it does not accept connections: %w", cmp.Or(err, log.fatal(), context.DeadlineExceeded))
	}
	return &Server{ns: ns, url: ns.ClientURL(), log: log}, nil
}
