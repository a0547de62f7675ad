package nats

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestDifference changes every field that a guarantee needs, like an older server or an operator's tool.
func TestDifference(t *testing.T) {
	inbox, agents := streams(1)[0], streams(1)[1]
	if inbox.Name != inboxStream || agents.Name != agentsStream {
		t.Fatalf("streams are %s, %s", inbox.Name, agents.Name)
	}
	for _, c := range []struct {
		field string
		want  jetstream.StreamConfig
		spoil func(*jetstream.StreamConfig)
	}{
		{"retention", inbox, func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }},
		{"max_consumers", inbox, func(c *jetstream.StreamConfig) { c.MaxConsumers = -1 }},
		{"max_msgs", inbox, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }},
		{"max_bytes", inbox, func(c *jetstream.StreamConfig) { c.MaxBytes = 10 }},
		{"max_age", inbox, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"max_msgs_per_subject", agents, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }},
		{"discard", agents, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		{"storage", inbox, func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"num_replicas", inbox, func(c *jetstream.StreamConfig) { c.Replicas = 3 }},
		{"duplicate_window", inbox, func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }},
		{"allow_rollup_hdrs", inbox, func(c *jetstream.StreamConfig) { c.AllowRollup = false }},
		{"allow_direct", inbox, func(c *jetstream.StreamConfig) { c.AllowDirect = false }},
		{"allow_msg_ttl", agents, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }},
		{"subject_delete_marker_ttl", agents, func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 0 }},
		{"allow_msg_schedules", inbox, func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = false }},
		{"deny_delete", agents, func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
		{"subjects", inbox, func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] }},
	} {
		got := c.want
		if d := difference(c.want, got); d != "" {
			t.Errorf("difference = %q of equal configs, want none", d)
		}
		c.spoil(&got)
		if d := difference(c.want, got); !strings.HasPrefix(d, c.field+" ") {
			t.Errorf("difference = %q, want one of %s", d, c.field)
		}
	}
}

// bareServer is a server without JetStream.
func bareServer(t *testing.T) *Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	srv := &Server{ns: ns}
	t.Cleanup(srv.Shutdown)
	return srv
}

func TestDialWithoutJetStream(t *testing.T) {
	_, err := Dial(t.Context(), &Options{Server: bareServer(t)})
	if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "JetStream") {
		t.Errorf("Dial = %v, want ErrIncompatible about JetStream", err)
	}
}

// TestDialOldServer simulates servers that silently ignore what they do not know.
func TestDialOldServer(t *testing.T) {
	for _, c := range []struct {
		name  string
		level int
		lacks func(*jetstream.StreamConfig)
		want  string
	}{
		{"2.12", 2, nil, "API level 2"},
		{"no schedules", minLevel, func(c *jetstream.StreamConfig) { c.AllowMsgSchedules = false }, "CORTEX_INBOX: allow_msg_schedules is false, want true"},
		{"no ttl", minLevel, func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 0 }, "KV_CORTEX_AGENTS: subject_delete_marker_ttl is 0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := bareServer(t)
			nc, err := natsgo.Connect("", natsgo.InProcessServer(srv))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			answer := func(subject string, f func(*natsgo.Msg) any) {
				_, err := nc.Subscribe(subject, func(m *natsgo.Msg) {
					body, err := json.Marshal(f(m))
					if err != nil {
						t.Error(err)
					}
					_ = m.Respond(body)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			answer("$JS.API.INFO", func(*natsgo.Msg) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: c.level}} })
			answer("$JS.API.STREAM.INFO.*", func(*natsgo.Msg) any {
				return map[string]any{"error": jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "stream not found"}}
			})
			keep := func(m *natsgo.Msg) any {
				var config jetstream.StreamConfig
				if err := json.Unmarshal(m.Data, &config); err != nil {
					t.Error(err)
				}
				if c.lacks != nil {
					c.lacks(&config)
				}
				return jetstream.StreamInfo{Config: config}
			}
			answer("$JS.API.STREAM.CREATE.*", keep)
			answer("$JS.API.STREAM.UPDATE.*", keep)
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			_, err = Dial(t.Context(), &Options{Server: srv})
			if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Dial = %v, want ErrIncompatible with %q", err, c.want)
			}
		})
	}
}

// TestDialRepairs checks that Dial restores a changed stream, and returns an error if it cannot.
func TestDialRepairs(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	s, err := b.js.Stream(t.Context(), deadStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgs = 7
	if _, err := b.js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	n.dial(t, nil)
	if s, err = b.js.Stream(t.Context(), deadStream); err != nil || s.CachedInfo().Config.MaxMsgs != maxDead {
		t.Errorf("MaxMsgs = %d, %v after another Dial, want %d", s.CachedInfo().Config.MaxMsgs, err, maxDead)
	}

	if err := b.js.DeleteStream(t.Context(), inboxStream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: inboxStream, Subjects: []string{inboxPrefix + ">"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), &Options{Server: n.srv}); !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), inboxStream) {
		t.Errorf("Dial = %v with a foreign %s, want ErrIncompatible", err, inboxStream)
	}
}

// TestDialAtOnce starts many clients on a new server.
func TestDialAtOnce(t *testing.T) {
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := Dial(t.Context(), &Options{Server: srv})
			if err != nil {
				t.Error(err)
				return
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDialErrors(t *testing.T) {
	if _, err := Dial(t.Context(), nil); err == nil {
		t.Error("Dial without options = nil, want an error")
	}
	_, err := Dial(t.Context(), &Options{URL: "nats://joe:secret@127.0.0.1:1,nats://t0ken@127.0.0.1:2"})
	if !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Dial = %v, want ErrUnavailable", err)
	}
	if s := err.Error(); strings.Contains(s, "secret") || strings.Contains(s, "t0ken") || !strings.Contains(s, "127.0.0.1:1") {
		t.Errorf("Dial = %v, want the address without secrets", err)
	}
}

// TestKeep checks that the work queue is never empty, and that the sentinel moves with the traffic.
func TestKeep(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", transport.Cortex)
	sub, err := b.Subscribe(t.Context(), topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, sub, func(*transport.Event) error { return nil })
	publish(t, b, topic, "c1", "x")
	eventually(t, "the keep message is all there is, and the last", func() bool {
		s, err := b.js.Stream(t.Context(), inboxStream)
		if err != nil {
			t.Fatal(err)
		}
		state := s.CachedInfo().State
		return state.Msgs == 1 && state.FirstSeq == state.LastSeq && state.LastSeq >= 3
	})
}

// silent gives no answers about consumers for some requests, like a cluster during an election.
type silent struct {
	jetstream.JetStream
	times int
}

func (s *silent) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	if s.times--; s.times >= 0 {
		return nil, context.DeadlineExceeded
	}
	return s.JetStream.Consumer(ctx, stream, name)
}

// TestSubscribeAgain subscribes while the server gives no answer.
func TestSubscribeAgain(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	b.js = &silent{b.js, 3}
	sub, err := b.Subscribe(t.Context(), transport.Inbox("", "agent"), &transport.SubscribeOptions{Unordered: true})
	if err != nil {
		t.Fatalf("Subscribe = %v, want it to ask again", err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	b.js = &silent{b.js, 1000}
	ctx, cancel := context.WithTimeout(t.Context(), 5*retryPause)
	defer cancel()
	if _, err := b.Subscribe(ctx, transport.Inbox("", "agent"), nil); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Subscribe while nothing is answered = %v, want ErrUnavailable", err)
	}
}
