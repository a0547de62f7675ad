package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// cardsOf collects the events of the cards topic, in short form.
func cardsOf(t *testing.T, tr transport.Transport) func() []string {
	t.Helper()
	sub, err := tr.Subscribe(t.Context(), transport.Cards("t"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines []string
	go func() { // ends with the transport
		_ = sub.Serve(context.WithoutCancel(t.Context()), func(_ context.Context, e *transport.Event) error {
			mu.Lock()
			defer mu.Unlock()
			switch p := e.Payload.(type) {
			case *transport.AgentEvent:
				line := p.Kind + " " + p.AgentID + "/" + p.Instance + " " + p.Reason
				if e.From != transport.Cortex {
					line += " from " + e.From
				}
				lines = append(lines, line)
			case *transport.Card:
				if p.Gone != "" {
					lines = append(lines, "gone "+p.AgentID+"/"+p.Instance)
				}
			}
			return nil
		})
	}()
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := lines
		lines = nil
		return got
	}
}

// TestAnnounce checks what the registry of a running Cortex publishes, and that other registries publish nothing.
func TestAnnounce(t *testing.T) {
	for _, announce := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			bus := memory.New(nil)
			defer bus.Close()
			s := newShelf()
			run := func() func() {
				r := registry.New(registry.Config{Tenant: "t", Announce: announce, Seen: true, Keep: s})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := r.Run(ctx, bus); err != nil {
						t.Error(err)
					}
				})
				<-r.Synced()
				return func() { cancel(); wg.Wait() }
			}
			publish := func(instance string, c transport.Card) {
				c.AgentID, c.Instance = instance, "1"
				if c.Gone == "" {
					c.Card = agentCard(instance, "a")
				}
				if err := bus.Publish(t.Context(), transport.Cards("t"), cardEvent(&c)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			want := func(lines ...string) []string {
				if announce {
					return lines
				}
				return nil
			}
			got := cardsOf(t, bus)
			stop := run()
			publish("beats", transport.Card{Heartbeat: 30 * time.Second})
			publish("beats", transport.Card{Heartbeat: 30 * time.Second})
			publish("leased", transport.Card{TTL: 90 * time.Second})
			publish("leaves", transport.Card{})
			publish("leaves", transport.Card{Gone: transport.GoneLeft})
			wanted := want("registered beats/1 ", "registered leased/1 ", "registered leaves/1 ", "deregistered leaves/1 requested")
			if d := cmp.Diff(append(slices.Clip(wanted), "gone leaves/1"), sorted(got(), wanted)); d != "" {
				t.Errorf("announce %v: told differs (-want +got):\n%s", announce, d)
			}
			stop()
			stop = run() // restored agents are not announced again
			if d := cmp.Diff([]string(nil), got()); d != "" {
				t.Errorf("announce %v: told after a restart differs (-want +got):\n%s", announce, d)
			}
			<-time.After(100 * time.Second)
			wanted = want("deregistered beats/1 missed-heartbeats", "deregistered leased/1 missed-heartbeats")
			gone := append(want("gone beats/1"), "gone leased/1")
			if d := cmp.Diff(append(slices.Clip(wanted), gone...), sorted(got(), wanted)); d != "" {
				t.Errorf("announce %v: told of silence differs (-want +got):\n%s", announce, d)
			}
			stop()
			_ = bus.Close()
		})
	}
}

// sorted returns lines with those in first before the others, since the order of cards varies.
func sorted(lines, first []string) []string {
	slices.SortStableFunc(lines, func(a, b string) int {
		x, y := slices.Index(first, a), slices.Index(first, b)
		if x < 0 {
			x = len(first)
		}
		if y < 0 {
			y = len(first)
		}
		if x == y && x == len(first) {
			return strings.Compare(a, b)
		}
		return x - y
	})
	return lines
}

// mute is a transport that blocks publishing until it is released, and then fails.
type mute struct {
	*script
	fail chan struct{}
}

func (m *mute) Publish(ctx context.Context, _ transport.Topic, _ *transport.Event) error {
	select {
	case <-m.fail:
		return errors.New("no")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestAnnounceHoldsNobodyUp checks that cards are handled even if events cannot be published, and that what is lost is logged.
func TestAnnounceHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 5000
		tr := &mute{&script{events: make(chan *transport.Event), closed: make(chan struct{})}, make(chan struct{})}
		var log bytes.Buffer
		r := registry.New(registry.Config{Tenant: "t", Announce: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, tr) }()
		began := time.Now()
		for i := range agents {
			id := "a" + string(rune('0'+i%10)) + time.Duration(i).String()
			tr.events <- cardEvent(&transport.Card{AgentID: id, Instance: "1", Card: agentCard(id, "")})
		}
		synctest.Wait()
		if took := time.Since(began); took > 0 || len(r.Snapshot().Agents()) != agents {
			t.Errorf("%d agents are there after %v, want %d at once", len(r.Snapshot().Agents()), took, agents)
		}
		close(tr.fail)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "event of an agent is not published"); n != 1 {
			t.Errorf("the loss is logged %d times, want once:\n%s", n, log.String())
		}
		// One was being published, and the queue is full.
		if want := fmt.Sprintf("there are too many at a time\" events=%d\n", agents-4096-1); !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	})
}
