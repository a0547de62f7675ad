package jetstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestOpenTwice(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	first, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, first, 3)
	second, err := jetstore.Open(t.Context(), nc, &jetstore.Options{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := count(t.Context(), t, second); n != 3 || err != nil {
		t.Errorf("Load by a second store ends after %d entries with %v, want 3 and no error", n, err)
	}
}

// TestOpenRefuses checks that Open refuses a stream that could lose entries.
func TestOpenRefuses(t *testing.T) {
	good := jetstream.StreamConfig{
		Name: jetstore.Stream, Subjects: []string{"cortex.v1.log.>"}, Discard: jetstream.DiscardNew, AllowDirect: true,
	}
	tests := []struct {
		name   string
		change func(c *jetstream.StreamConfig)
		want   string // in the error; empty: Open accepts it
	}{
		{"the same", func(*jetstream.StreamConfig) {}, ""},
		{"the operator's", func(c *jetstream.StreamConfig) { c.Description, c.Compression = "ours", jetstream.S2Compression }, ""},
		{"size limit", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, ""},
		{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"cortex.v1.log.*"} }, "subjects is [cortex.v1.log.*], want [cortex.v1.log.>]"},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage is Memory, want File"},
		{"work queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention is WorkQueue, want Limits"},
		{"old ones go", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "discard is DiscardOld, want DiscardNew"},
		{"age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age is 1h0m0s"},
		{"last only", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, "max_msgs_per_subject is 1"},
		{"indirect", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "allow_direct is false"},
		{"an older Cortex", func(c *jetstream.StreamConfig) { c.DenyDelete = true }, ""},
		{"no acks", func(c *jetstream.StreamConfig) { c.NoAck = true }, "no_ack is true"},
		{"ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }, "allow_msg_ttl is true"},
		{"transformed", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "cortex.v1.log.>", Destination: "x.>"}
		}, "subject_transform is set"},
	}
	nc, _ := start(t, t.TempDir())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := good
			tt.change(&c)
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = js.DeleteStream(t.Context(), jetstore.Stream) }()
			_, err := jetstore.Open(t.Context(), nc, nil)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Open = %v, want no error", err)
			case tt.want != "" && (!errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Open = %v, want ErrIncompatible with %q", err, tt.want)
			}
		})
	}
}

// TestOpenOldLeader simulates a cluster whose connected server and leader are new enough, but the leader of the log or of a bucket is not.
func TestOpenOldLeader(t *testing.T) {
	for _, led := range []string{jetstore.Stream, "KV_" + jetstore.Bucket, "KV_" + jetstore.SpendLog, "KV_" + jetstore.Notes} {
		t.Run(led, func(t *testing.T) {
			nc, _ := startWith(t, server.Options{})
			answer := func(subject string, body func(stream string) any) {
				t.Helper()
				_, err := nc.Subscribe(subject, func(m *nats.Msg) {
					b, err := json.Marshal(body(m.Subject[strings.LastIndex(m.Subject, ".")+1:]))
					if err != nil {
						t.Error(err)
					}
					_ = m.Respond(b)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			answer("$JS.API.INFO", func(string) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: 5}} })
			answer("$JS.API.STREAM.INFO.*", func(stream string) any {
				c := jetstream.StreamConfig{
					Name: stream, Subjects: []string{"cortex.v1.log.>"}, Discard: jetstream.DiscardNew, AllowDirect: true, Replicas: 1, MaxMsgsPerSubject: -1,
					Metadata: map[string]string{"_nats.ver": "2.15.2", "_nats.level": "5"},
				}
				if strings.HasPrefix(stream, "KV_") {
					c.Subjects, c.MaxMsgsPerSubject, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = nil, 1, true, 24*time.Hour
				}
				if stream == led {
					c.Metadata = map[string]string{"_nats.ver": "2.12.3", "_nats.level": "2"}
				}
				return jetstream.StreamInfo{Config: c}
			})
			_, err := jetstore.Open(t.Context(), nc, nil)
			if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "nats-server 2.12.3") || !strings.Contains(err.Error(), strings.TrimPrefix(led, "KV_")) {
				t.Errorf("Open = %v, want ErrIncompatible that names %s and its leader's version", err, led)
			}
		})
	}
}

func TestOpenWithoutJetStream(t *testing.T) {
	nc, _ := startWith(t, server.Options{})
	if _, err := jetstore.Open(t.Context(), nc, nil); !errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		t.Errorf("Open = %v, want ErrJetStreamNotEnabled", err)
	}
}

func TestTooLarge(t *testing.T) {
	nc, _ := startWith(t, server.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: 100_000})
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := entry(1)
	e.Cause.Payload.(*a2a.Message).Parts[0].Content = a2a.Text(strings.Repeat("x", 100_000))
	if _, err := s.Append(t.Context(), "", "c", 0, e); !errors.Is(err, transport.ErrTooLarge) || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("Append of a large entry = %v, want ErrTooLarge that names max_payload", err)
	}
	if n, err := count(t.Context(), t, s); n != 0 || err != nil {
		t.Errorf("Load ends after %d entries with %v, want 0 and no error", n, err)
	}
}

// TestOpenAsksAgain checks that Open retries while a cluster elects a leader, and only then.
func TestOpenAsksAgain(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err     error
		gateway bool
		calls   int
	}{
		"no leader":             {err: context.DeadlineExceeded, calls: 3},
		"nobody yet":            {err: nats.ErrNoResponders, calls: 3},
		"connection lost":       {err: nats.ErrReconnectBufExceeded, calls: 3},
		"nobody at the gateway": {err: nats.ErrNoResponders, gateway: true, calls: 1},
		"refused":               {err: transport.ErrIncompatible, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := "$JS.API."
			if tt.gateway {
				api = fakeAPI
			}
			s.Redirect(api, time.Second, false)
			calls := 0
			err := s.Ask(t.Context(), func(context.Context) error {
				if calls++; calls == 3 {
					return nil
				}
				return tt.err
			})
			if calls != tt.calls || (err == nil) != (tt.calls == 3) {
				t.Errorf("%d calls, then %v, want %d", calls, err, tt.calls)
			}
		})
	}
}
