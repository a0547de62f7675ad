package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// leaver first tells each subscriber of cards that the orchestrator has left.
type leaver struct{ transport.Transport }

func (l leaver) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	sub, err := l.Transport.Subscribe(ctx, t, o)
	return left{sub}, err
}

type left struct{ transport.Subscription }

func (l left) Serve(ctx context.Context, h transport.Handler) error {
	if err := h(ctx, &transport.Event{Payload: &transport.Card{AgentID: transport.Cortex, Gone: transport.GoneLeft}}); err != nil {
		return err
	}
	return l.Subscription.Serve(ctx, h)
}

// TestAppears looks for an orchestrator that is present, comes in time, comes too late, or has left.
func TestAppears(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		from  string
		want  bool
	}{
		"is there":     {0, transport.Cortex, true},
		"comes":        {4 * time.Second, transport.Cortex, true},
		"too late":     {2*behindGateway + time.Second, transport.Cortex, false},
		"only agents":  {0, "agent_echo", false},
		"another late": {4 * time.Second, "agent_echo", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := memory.New(nil)
				defer bus.Close()
				say := func() {
					err := bus.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "card", From: test.from, Payload: &transport.Card{
						AgentID: test.from, Instance: "1", TTL: presenceTTL,
						Card: &a2a.AgentCard{Name: test.from, Description: "d", Version: "1"},
					}})
					if err != nil {
						t.Error(err)
					}
				}
				if test.after == 0 {
					say()
				} else {
					defer time.AfterFunc(test.after, say).Stop()
				}
				if got, err := appears(t.Context(), bus, ""); got != test.want || err != nil {
					t.Errorf("appears = %v, %v, want %v", got, err, test.want)
				}
			})
		})
	}
	t.Run("has left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bus := leaver{memory.New(nil)}
			defer bus.Close()
			if got, err := appears(t.Context(), bus, ""); got || err != nil {
				t.Errorf("appears = %v, %v, want nobody", got, err)
			}
		})
	})
	t.Run("interrupted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bus := memory.New(nil)
			defer bus.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(time.Second, cancel).Stop()
			if _, err := appears(ctx, bus, ""); !errors.Is(err, context.Canceled) {
				t.Errorf("appears = %v, want %v", err, context.Canceled)
			}
		})
	})
}

// TestNobodyBecomesTheOrchestrator lets a question and a chat use an external server without an orchestrator, in whose inbox another user's message
// waits. Neither handles it: they say what to start.
func TestNobodyBecomesTheOrchestrator(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	const waits = "waits"
	err := l.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: waits, From: "user", ContextID: waits, Payload: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("Echo this: mine")),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "cortex: no cortex runs at " + l.url + ": start one with `cortex serve --nats " + l.url + "`\n"
	var wg sync.WaitGroup
	for _, args := range [][]string{{"ask", "Echo this: yours"}, {"chat"}} {
		wg.Go(func() {
			var stdout, stderr bytes.Buffer
			args := append(args, "--nats", l.url, "--data", t.TempDir())
			code := Run(t.Context(), args, strings.NewReader("Echo this: yours"), &stdout, &stderr)
			if code != exitFailed || stdout.Len() > 0 || stderr.String() != want {
				t.Errorf("%v = %d, %q, %q, want %q", args, code, &stdout, &stderr, want)
			}
		})
	}
	wg.Wait()
	for c, err := range l.store.Contexts(t.Context(), "") {
		t.Errorf("conversation %q, %v, was begun: want none", c.ContextID, err)
	}
}

func TestNoCortex(t *testing.T) {
	for name, test := range map[string]struct {
		tenant, url string
		who         *auth.Identity
		want        string
	}{
		"anybody": {"", "nats://h:4222", nil, "no cortex runs at nats://h:4222: start one with `cortex serve --nats nats://h:4222`"},
		"tenant": {
			"acme", "nats://h:4222", nil,
			"no cortex runs for tenant \"acme\" at nats://h:4222: start one with `cortex serve --tenant acme --nats nats://h:4222`",
		},
		"person": {
			"acme", "nats://h:4222", &auth.Identity{Role: auth.Person},
			"no cortex runs for tenant \"acme\" at nats://h:4222: start one with `cortex serve --tenant acme --nats nats://h:4222` and the --creds of its orchestrator",
		},
		"orchestrator": {
			"", "nats://h:4222", &auth.Identity{Role: auth.Orchestrator, File: "my keys/o.creds"},
			"no cortex runs at nats://h:4222: start one with `cortex serve --nats nats://h:4222 --creds 'my keys/o.creds'`",
		},
	} {
		if got := noCortex(test.tenant, test.url, test.who).Error(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestShownURL(t *testing.T) {
	for in, want := range map[string]string{
		"nats://a:4222,nats://b:4222":          "nats://a:4222,nats://b:4222",
		"nats://me:secret@a:4222,tls://s3@b:1": "nats://me:xxxxx@a:4222,tls://token:xxxxx@b:1",
	} {
		if got := shownURL(in); got != want {
			t.Errorf("shownURL(%q) = %q, want %q", in, got, want)
		}
	}
}

// crowded has so many cards that reading them never ends.
type crowded struct{ transport.Transport }

func (crowded) Announced(_ context.Context, tenant, agent string) (bool, error) {
	return tenant == "" && agent == transport.Cortex, nil
}

func (crowded) Subscribe(context.Context, transport.Topic, *transport.SubscribeOptions) (transport.Subscription, error) {
	return nil, errors.New("all cards are read")
}

// TestAppearsAmongMany checks that an orchestrator is found among any number of agents.
func TestAppearsAmongMany(t *testing.T) {
	if got, err := appears(t.Context(), crowded{}, ""); !got || err != nil {
		t.Errorf("appears = %v, %v, want true", got, err)
	}
}

// lossy is crowded, and loses the connection for a while.
type lossy struct {
	crowded
	lost *int // lookups
}

func (l lossy) Announced(ctx context.Context, tenant, agent string) (bool, error) {
	if *l.lost--; *l.lost >= 0 {
		return false, fmt.Errorf("%w: the connection was lost", transport.ErrUnavailable)
	}
	return l.crowded.Announced(ctx, tenant, agent)
}

// TestAppearsAgain checks that an orchestrator is found when the connection is lost during the lookup.
func TestAppearsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 5
		if got, err := appears(t.Context(), lossy{lost: &lost}, ""); !got || err != nil {
			t.Errorf("appears = %v, %v, want true", got, err)
		}
	})
}

// TestSpeakerDoesNotWait checks, when the agents' cards do not arrive, that a question is not delayed, and that a list reports it.
func TestSpeakerDoesNotWait(t *testing.T) {
	l := newLinked(t)
	if err := l.bus.Close(); err != nil {
		t.Fatal(err)
	}
	began := make(chan *backend, 1)
	go func() {
		b, _, err := (&settings{program: self, node: &nodeSettings{}}).watch(t.Context(), l, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Error(err)
		}
		began <- b
	}()
	var b *backend
	select {
	case b = <-began:
	case <-time.After(syncTimeout / 2):
		t.Fatal("the cards are waited for")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.agents(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("agents = %v, want %v: they have not arrived", err, context.Canceled)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &backend{link: l, registry: registry.New(registry.Config{}), arrived: make(chan struct{})}
		if _, err := b.lookalikes(t.Context()); err == nil || !strings.Contains(err.Error(), "did not arrive within 15s") {
			t.Errorf("lookalikes = %v, want that the agents did not arrive", err)
		}
	})
}

// unasked is a transport whose lookups are not answered in time.
type unasked struct{ transport.Transport }

func (unasked) Announced(context.Context, string, string) (bool, error) {
	return false, fmt.Errorf("%w: %w", transport.ErrUnavailable, context.DeadlineExceeded)
}

// silent is unasked, and delivers no cards either.
type silent struct{ unasked }

func (s silent) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	sub, err := s.unasked.Subscribe(ctx, t, o)
	return quiet{sub}, err
}

type quiet struct{ transport.Subscription }

func (quiet) Serve(ctx context.Context, _ transport.Handler) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestUnheardIsNotAbsent checks that missing answers are not reported as a missing orchestrator. After all cards have arrived, its absence is known.
func TestUnheardIsNotAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New(nil)
		defer bus.Close()
		if got, err := appears(t.Context(), silent{unasked{bus}}, ""); got || !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("appears = %v, %v, want %v", got, err, transport.ErrUnavailable)
		}
		if got, err := appears(t.Context(), unasked{bus}, ""); got || err != nil {
			t.Errorf("appears = %v, %v, want nobody", got, err)
		}
	})
	if text := unanswered("nats://h:4222", "user:ada", transport.ErrUnavailable).Error(); strings.Contains(text, "no cortex runs") || !strings.Contains(text, "too much was sent with this key") {
		t.Errorf("unanswered: %s", text)
	}
}
