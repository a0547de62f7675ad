package nats

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"2.9.25": true, "2.10.29": true, "2.11.9": true, "2.12.1": true, "2.13.0": true, "2.14.0": false, "2.14.0-RC.1": false, "2.15.2": false,
		"2.100.0": false, "3.0.0": false, "1.99.0": true, "v2.12.1": true, "": false, "dev": false, "2": false, "2.x.1": false,
	} {
		if got := older(version, 2, 14); got != want {
			t.Errorf("older(%q, 2, 14) = %v, want %v", version, got, want)
		}
	}
}

// TestDialMixedCluster plays a cluster in which the server that is connected to is new enough, and another one, which leads, is
// not: the error says what it is and what is needed, and nothing was made.
func TestDialMixedCluster(t *testing.T) {
	for _, c := range []struct {
		name     string
		level    int
		metadata map[string]string // of every stream, from its leader
		want     string
	}{
		{"2.10 leads the cluster", 0, nil, "API level 0"},
		{"2.11 leads the cluster", 1, nil, "API level 1"},
		{"2.12 leads the cluster", 2, nil, "API level 2"},
		{"2.12 leads a stream", 5, map[string]string{"_nats.ver": "2.12.1", "_nats.level": "2"}, "stream CORTEX_INBOX: the server that leads it is nats-server 2.12.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
			if err != nil {
				t.Fatal(err)
			}
			ns.Start()
			srv := &Server{ns: ns}
			t.Cleanup(srv.Shutdown)
			nc, err := natsgo.Connect("", natsgo.InProcessServer(srv))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			made := make(chan string, 10)
			for subject, answer := range map[string]func(*natsgo.Msg) any{
				"$JS.API.INFO": func(*natsgo.Msg) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: c.level}} },
				"$JS.API.STREAM.INFO.*": func(m *natsgo.Msg) any {
					config := streams(1)[0]
					config.Metadata = c.metadata
					return jetstream.StreamInfo{Config: config}
				},
				"$JS.API.STREAM.CREATE.*": func(m *natsgo.Msg) any { made <- m.Subject; return jetstream.StreamInfo{} },
				"$JS.API.STREAM.UPDATE.*": func(m *natsgo.Msg) any { made <- m.Subject; return jetstream.StreamInfo{} },
			} {
				_, err := nc.Subscribe(subject, func(m *natsgo.Msg) {
					body, err := json.Marshal(answer(m))
					if err != nil {
						t.Error(err)
					}
					_ = m.Respond(body)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			_, err = Dial(t.Context(), &Options{Server: srv})
			if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), needed) {
				t.Errorf("Dial = %v, want ErrIncompatible with %q and %q", err, c.want, needed)
			}
			if len(made) > 0 {
				t.Errorf("%s was asked of a server that is too old", <-made)
			}
		})
	}
}

// TestDialOldVersion plays a server that says of itself that it is old, as it does when it is connected to.
func TestDialOldVersion(t *testing.T) {
	for _, version := range []string{"2.9.25", "2.10.29", "2.11.9", "2.12.1"} {
		if err := checkVersion(version); !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "nats-server "+version) || !strings.Contains(err.Error(), needed) {
			t.Errorf("checkVersion(%q) = %v, want ErrIncompatible with the version and %q", version, err, needed)
		}
	}
	if err := checkVersion("2.15.2"); err != nil {
		t.Errorf("checkVersion of 2.15.2 = %v", err)
	}
}
