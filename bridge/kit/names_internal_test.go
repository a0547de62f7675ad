package kit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/transport"
)

// lost is a transport whose subscriptions can be lost.
type lost struct {
	transport.Transport
	events chan transport.Payload // nil: the subscription is lost
}

func (l lost) Subscribe(context.Context, transport.Topic, *transport.SubscribeOptions) (transport.Subscription, error) {
	return l, nil
}

func (l lost) Close() error { return nil }

func (l lost) Serve(ctx context.Context, h transport.Handler) error {
	for {
		select {
		case p := <-l.events:
			if p == nil {
				return transport.ErrUnavailable
			}
			if err := h(ctx, &transport.Event{Payload: p}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestNamesOfLostSubscription has a subscription lost: names stay taken until all cards have come again, and then those are free that were not among them.
func TestNamesOfLostSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := lost{events: make(chan transport.Payload)}
		var free []string
		n := NewNames("mine", nil, func(id string) { free = append(free, id) })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx, tr, "") }()
		say := func(payloads ...transport.Payload) {
			for _, p := range payloads {
				tr.events <- p
			}
			synctest.Wait()
		}
		taken := func(when string, want ...string) {
			t.Helper()
			for _, id := range []string{"first", "second", "third"} {
				if got := n.Taken(id, false, "") != nil; got != slices.Contains(want, id) {
					t.Errorf("%s: %s is taken: %v", when, id, got)
				}
			}
		}
		card := func(id string) *transport.Card { return &transport.Card{AgentID: id, Instance: "one", Host: "theirs"} }
		say(card("first"), card("second"), &transport.Synced{})
		taken("at first", "first", "second")
		say(nil, card("third"))
		taken("again, before all cards", "first", "second", "third")
		say(nil, card("first"))
		taken("once more", "first", "second", "third")
		say(&transport.Synced{})
		taken("with all cards", "first")
		slices.Sort(free)
		if !slices.Equal(free, []string{"second", "third"}) {
			t.Errorf("%v have changed", free)
		}
		say(&transport.Card{AgentID: "theirs", Instance: "one", Gone: transport.GoneLeft})
		taken("without their host")
		stop()
		<-ended
	})
}
