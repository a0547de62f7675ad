package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// minLevel is the API level of server 2.14: consumer reset, and schedules that are what they are today. Older servers
	// drop what they do not know from a config without an error.
	minLevel = 4
	needed   = "Cortex needs nats-server 2.14 or later on every server of a cluster: upgrade it"
)

// checkServers refuses servers that are too old. What can be known of a cluster is this: the version of the server that the
// connection is made to, and the API level of the one that leads the cluster, which answers for the account. Those that lead
// the streams are checked with each stream (see checkLeader). Nothing tells of a server that does neither.
func checkServers(ctx context.Context, js jetstream.JetStream) error {
	if err := checkVersion(js.Conn().ConnectedServerVersion()); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	account, err := js.AccountInfo(asking)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: JetStream is not enabled; start the server with -js: %w", transport.ErrIncompatible, err)
	case err != nil:
		return translate(err)
	case account.API.Level < minLevel:
		return fmt.Errorf("%w: the server that leads has API level %d, at least %d is needed; %s", transport.ErrIncompatible, account.API.Level, minLevel, needed)
	}
	return nil
}

func checkVersion(version string) error {
	if older(version, 2, 14) {
		return fmt.Errorf("%w: the server is nats-server %.20s; %s", transport.ErrIncompatible, version, needed)
	}
	return nil
}

// checkLeader refuses a stream whose leader says that it is too old. Servers before 2.11 do not say; they are found by what
// they drop from the config.
func checkLeader(c jetstream.StreamConfig) error {
	level, err := strconv.Atoi(c.Metadata["_nats.level"])
	if err != nil || level >= minLevel {
		return nil
	}
	return fmt.Errorf("%w: stream %s: the server that leads it is nats-server %.20s; %s", transport.ErrIncompatible, c.Name, c.Metadata["_nats.ver"], needed)
}

// older reports whether a version is before major.minor. One that cannot be read is not: the API level decides.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	x, err := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (x < major || x == major && y < minor)
}
