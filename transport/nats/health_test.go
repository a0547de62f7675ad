package nats

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestUnanswered checks the reason that is derived from what a leader reports of the other servers when a write has no answer.
func TestUnanswered(t *testing.T) {
	here, cut := &jetstream.PeerInfo{Active: 900 * time.Millisecond}, &jetstream.PeerInfo{Current: true, Active: 2 * time.Second}
	offline := &jetstream.PeerInfo{Offline: true}
	const full = "NATS server a takes no write: it has too much to do, or its disk is full or was, or it had no files left to open; its log says which, and after the latter two it has to be started again when that is mended"
	for _, c := range []struct {
		name   string
		leader string
		peers  []*jetstream.PeerInfo
		want   string
	}{
		{"all are there", "a", []*jetstream.PeerInfo{here, here}, full},
		{"one is away", "a", []*jetstream.PeerInfo{here, cut}, full},
		{"both are away", "a", []*jetstream.PeerInfo{cut, cut}, noMajority},
		{"both are away and known to be", "a", []*jetstream.PeerInfo{offline, cut}, noMajority},
		{"nobody leads", "", []*jetstream.PeerInfo{here, here}, noMajority},
		{"it is the only one", "a", nil, full},
		{"two of four", "a", []*jetstream.PeerInfo{here, cut, cut}, noMajority},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := unanswered(&jetstream.ClusterInfo{Leader: c.leader, Replicas: c.peers}); got != c.want {
				t.Errorf("unanswered = %q, want %q", got, c.want)
			}
		})
	}
}

// TestHealthySaysWhatIsWrong simulates servers that accept no write, for several reasons.
func TestHealthySaysWhatIsWrong(t *testing.T) {
	cut := []*jetstream.PeerInfo{{Name: "b", Active: 5 * time.Second}, {Name: "c", Active: 5 * time.Second}}
	here := []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}}
	for _, c := range []struct {
		name    string
		cluster *jetstream.ClusterInfo
		write   *jetstream.APIError // the answer to a write; nil: none
		mute    bool                // requests about a stream have no answer either
		level   string              // API level of the server that leads
		kind    error
		want    string
	}{
		{"the others are gone", &jetstream.ClusterInfo{Leader: "a", Replicas: cut}, nil, false, "5", transport.ErrUnavailable, noMajority},
		{"nobody leads", nil, nil, true, "5", transport.ErrUnavailable, noMajority},
		{"the disk is full", &jetstream.ClusterInfo{Leader: "a", Replicas: here}, nil, false, "5", transport.ErrUnavailable, "server a takes no write: it has too much to do, or its disk is full"},
		{
			"there is no room", &jetstream.ClusterInfo{Leader: "a", Replicas: here}, &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"},
			false, "5", transport.ErrUnavailable, "server takes no write: it has too much to do, or its disk is full",
		},
		{"an old server leads", &jetstream.ClusterInfo{Leader: "a", Replicas: here}, nil, false, "2", transport.ErrIncompatible, needed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := clustered(t, server.Options{DontListen: true})
			nc := connect(t, srv)
			var broken atomic.Bool
			respond(t, nc, "$JS.API.INFO", func(*natsgo.Msg) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: minLevel}} })
			respond(t, nc, "$JS.API.STREAM.INFO.*", func(m *natsgo.Msg) any {
				for _, config := range streams(1) {
					if !strings.HasSuffix(m.Subject, "."+config.Name) {
						continue
					}
					info := jetstream.StreamInfo{Config: config}
					if broken.Load() {
						if c.mute {
							return nil
						}
						info.Config.Metadata = map[string]string{"_nats.level": c.level, "_nats.ver": "2.12.3"}
						info.Cluster = c.cluster
					}
					return info
				}
				return nil
			})
			respond(t, nc, sentinelSubject, func(*natsgo.Msg) any {
				if !broken.Load() {
					return jetstream.PubAck{Stream: inboxStream, Sequence: 1}
				}
				if c.write == nil {
					return nil
				}
				return map[string]any{"error": c.write}
			})
			b, err := Dial(t.Context(), &Options{Server: srv})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			if err := b.Healthy(t.Context()); err != nil {
				t.Fatalf("Healthy = %v before anything is wrong", err)
			}
			broken.Store(true)
			err = b.Healthy(t.Context())
			wantRefusal(t, "Healthy", err, c.kind, c.want)
			if errors.Is(err, transport.ErrUnavailable) && strings.Count(err.Error(), transport.ErrUnavailable.Error()) != 1 {
				t.Errorf("Healthy = %q says so twice", err)
			}
		})
	}
}
