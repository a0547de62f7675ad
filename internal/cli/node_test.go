package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestAwaitCards checks that a list of agents that goes on arriving is waited for, however long it takes, and one that does not arrive is given up.
func TestAwaitCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(registry.Config{})
		began := time.Now()
		if err := awaitCards(t.Context(), r.Synced(), r.Heard); !errors.Is(err, errUnlisted) || time.Since(began) != syncTimeout {
			t.Errorf("nothing arrives: %v after %v, want %v after %v", err, time.Since(began), errUnlisted, syncTimeout)
		}
		go func() {
			for i := range 20 {
				time.Sleep(syncTimeout / 2)
				card := &a2a.AgentCard{Name: fmt.Sprint("agent", i), Description: "Works", Version: "1"}
				r.Apply(&transport.Event{From: card.Name, Time: time.Now(), Payload: &transport.Card{AgentID: card.Name, Instance: "1", Card: card}})
			}
			r.Apply(&transport.Event{Payload: &transport.Synced{}})
		}()
		if err := awaitCards(t.Context(), r.Synced(), r.Heard); err != nil || r.Heard() != 21 {
			t.Errorf("a long list arrives: %v after %d events", err, r.Heard())
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := awaitCards(stopped, nil, r.Heard); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits any more: %v", err)
		}
	})
}

// TestWhileAway checks that commands wait a bounded time for a Cortex that is starting, and stop when they are interrupted.
func TestWhileAway(t *testing.T) {
	away := fmt.Errorf("%w: nobody answers", transport.ErrUnavailable)
	late := fmt.Errorf("%w: %w", transport.ErrUnavailable, context.DeadlineExceeded)
	other := errors.New("something else")
	for name, test := range map[string]struct {
		first  error
		back   time.Duration // when it is available
		leave  time.Duration // when the command is interrupted
		want   error
		waited time.Duration
		again  error // until then
	}{
		"it is there":              {leave: time.Hour},
		"it comes":                 {first: away, back: 2 * time.Second, leave: time.Hour, waited: 2 * time.Second},
		"it does not come":         {first: away, back: time.Hour, leave: time.Hour, want: away, waited: behindGateway},
		"it answers late":          {first: late, again: late, back: 10 * time.Second, leave: time.Hour, waited: 10 * time.Second},
		"it does not answer":       {first: late, again: late, back: time.Hour, leave: time.Hour, want: late, waited: syncTimeout},
		"nobody wants it any more": {first: away, back: time.Hour, leave: waitingPause / 2, want: context.DeadlineExceeded, waited: waitingPause / 2},
		"it is no use":             {first: other, leave: time.Hour, want: other},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.leave)
				defer cancel()
				begin := time.Now()
				err := whileAway(ctx, test.first, func() error {
					if time.Since(begin) < test.back {
						return cmp.Or(test.again, away)
					}
					return nil
				})
				if !errors.Is(err, test.want) || test.want == nil && err != nil {
					t.Errorf("whileAway = %v, want %v", err, test.want)
				}
				if waited := time.Since(begin); waited != test.waited {
					t.Errorf("it took %v, want %v", waited, test.waited)
				}
			})
		})
	}
}

// TestLeads holds that of a tenant's replicas one leads, also when one of them has the server in it.
func TestLeads(t *testing.T) {
	for _, test := range []struct {
		owned    []int
		embedded bool
		want     bool
	}{
		{nil, true, true},
		{nil, false, false},
		{[]int{}, true, false},
		{[]int{1, 3}, true, false},
		{[]int{0, 2}, true, true},
		{[]int{0, 2}, false, true},
	} {
		if got := leads(test.owned, test.embedded); got != test.want {
			t.Errorf("leads(%v, %v) = %v, want %v", test.owned, test.embedded, got, test.want)
		}
	}
}

// TestCardsWithoutEnd has a list of agents go on arriving for ever, as where agents announce themselves again and again: it is given up after a bounded time.
func TestCardsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*maxSyncs*syncTimeout)
		defer cancel()
		began, n := time.Now(), uint64(0)
		heard := func() uint64 { n++; return n }
		if err := awaitCards(ctx, nil, heard); !errors.Is(err, errUnlisted) || time.Since(began) != maxSyncs*syncTimeout {
			t.Errorf("awaitCards = %v after %v", err, time.Since(began))
		}
	})
}
