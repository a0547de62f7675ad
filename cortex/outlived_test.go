package cortex_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// asMade is a transport that says when it stored an event: when the event was made, which a test chooses.
type asMade struct{ *memory.Bus }

func (d *asMade) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s, err := d.Bus.Subscribe(ctx, t, o)
	return &asMadeSubscription{s}, err
}

type asMadeSubscription struct{ transport.Subscription }

func (d *asMadeSubscription) Serve(ctx context.Context, h transport.Handler) error {
	return d.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		e.Stored = e.Time
		return h(ctx, e)
	})
}

// marked is a store that counts how often marks of deletions are read.
type marked struct {
	*memstore.Store
	reads int
}

func (m *marked) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if kind == storage.NoteErased {
		m.reads++
	}
	return m.Store.Note(ctx, tenant, kind, key)
}

// TestOutlived has messages of deleted conversations delivered in their namesakes' first minute, in which the mark of a deletion is read once there is a
// log: it holds for the next messages, and a later deletion is noticed nevertheless.
func TestOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, agentIDs)
		s := &marked{Store: w.store.(*memstore.Store)}
		w.start(cortex.Config{
			Transport: &asMade{w.bus.(*memory.Bus)}, Store: s,
			Decider: simple(func(t *llm.Turn) *llm.Decision { return respond("heard " + t.User) }),
		})
		erase := func() {
			if err := storage.KeepErased(t.Context(), s, "", theContext); err != nil {
				t.Fatal(err)
			}
			if err := s.Erase(t.Context(), "", theContext); err != nil {
				t.Fatal(err)
			}
			s.reads = 0
			pass(time.Second)
		}
		old := func(id string, age time.Duration) {
			e := userEvent(id, id)
			e.Time = e.Time.Add(-age)
			w.publish(e)
		}
		want := func(reads int, said ...string) {
			t.Helper()
			var got []string
			for _, e := range entries(t, s) {
				got = append(got, e.Cause.ID)
			}
			if !slices.Equal(got, said) || s.reads != reads {
				t.Errorf("the log has %q and %d marks were read, want %q and %d", got, s.reads, said, reads)
			}
		}
		w.say("m1", "m1") // reads while there is no log
		w.say("m2", "m2")
		want(2, "m1", "m2")
		w.say("m3", "m3")
		want(2, "m1", "m2", "m3")
		erase()
		w.say("m4", "m4")
		s.reads = 0
		old("m1", 3*time.Second)
		w.say("m5", "m5")
		want(1, "m4", "m5")
		erase()
		old("m4", 2*time.Second)
		w.say("m6", "m6")
		want(s.reads, "m6")
	})
}
