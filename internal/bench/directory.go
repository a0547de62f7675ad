package bench

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// directory is the registry with the index of the agents that may be given work, kept as `cortex serve` keeps it. All methods are
// safe for concurrent use.
type directory struct {
	registry *registry.Registry
	index    *router.Index

	mu       sync.Mutex
	snapshot *registry.Snapshot // that list was made from
	list     []prompt.Agent
}

func newDirectory(cfg registry.Config) *directory {
	d := &directory{index: router.New(nil)}
	told := cfg.OnEvent
	cfg.OnEvent = func(e registry.Event) {
		if e.Record.Routable() {
			d.index.Put(e.Record.ID, e.Record.Card)
		} else {
			d.index.Remove(e.Record.ID)
		}
		if told != nil {
			told(e)
		}
	}
	d.registry = registry.New(cfg)
	return d
}

// routable returns the agents that may be given work, in the order of their ids. The slice is shared and never written to.
func (d *directory) routable(string) []prompt.Agent {
	s := d.registry.Snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s != d.snapshot {
		records := s.Routable()
		d.snapshot, d.list = s, make([]prompt.Agent, len(records))
		for i, r := range records {
			d.list[i] = prompt.Agent{ID: r.ID, Card: r.Card, Seen: !r.LastSeen.IsZero()}
		}
	}
	return d.list
}

// noteAgent is the kind of the notes by which `cortex serve` remembers whom it knew.
const noteAgent = "agent"

// keeper keeps what the registry wants to remember, where `cortex serve` looks for it.
type keeper struct{ store *jetstore.Store }

// Load implements [registry.Keeper].
func (k keeper) Load(ctx context.Context) iter.Seq2[registry.Kept, error] {
	return func(yield func(registry.Kept, error) bool) {
		for n, err := range k.store.Notes(ctx, "", noteAgent) {
			if !yield(registry.Kept{ID: n.Key, Data: n.Value}, err) || err != nil {
				return
			}
		}
	}
}

// Save implements [registry.Keeper].
func (k keeper) Save(ctx context.Context, id string, data []byte) error {
	for {
		n, err := k.store.Note(ctx, "", noteAgent, id)
		if err != nil {
			return err
		}
		n.Value = data
		if _, err = k.store.PutNote(ctx, "", noteAgent, n); !errors.Is(err, cortex.ErrConflict) {
			return err
		}
	}
}

// Delete implements [registry.Keeper].
func (k keeper) Delete(ctx context.Context, id string) error {
	return k.store.DeleteNote(ctx, "", noteAgent, id)
}

// storedOn returns how many messages were ever stored on a server, in all its streams.
func storedOn(ctx context.Context, nc *nats.Conn) (uint64, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	var sum uint64
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		sum += info.State.LastSeq
	}
	return sum, list.Err()
}
