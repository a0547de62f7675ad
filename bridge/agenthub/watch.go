package agenthub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// watchPause is the pause before a lost subscription is renewed.
const watchPause = time.Second

// watch sees which agents others announce, and what changes in Cortex's directory. It is safe for concurrent use.
type watch struct {
	synced  chan struct{}               // closed when it knows of all
	changed func(id string)             // is called when an agent of others is gone
	said    func(*transport.AgentEvent) // is called with each event of the directory

	once sync.Once
	mu   sync.Mutex
	by   map[string]map[string]string // the hosts of others' instances, by the ids of their agents
}

// other returns who else announces an agent with this id, or "".
func (w *watch) other(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, instance := range slices.Sorted(maps.Keys(w.by[id])) {
		return cmp.Or(w.by[id][instance], instance)
	}
	return ""
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context, tr transport.Transport, tenant string) error {
	for {
		sub, err := tr.Subscribe(ctx, transport.Cards(tenant), &transport.SubscribeOptions{Concurrency: 1})
		if err == nil {
			w.mu.Lock()
			w.by = map[string]map[string]string{} // the cards that are there come again
			w.mu.Unlock()
			err = sub.Serve(ctx, w.see)
			sub.Close()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, transport.ErrUnavailable):
			return fmt.Errorf("watch the agents: %w", err)
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// see handles an event of the cards topic.
func (w *watch) see(_ context.Context, e *transport.Event) error {
	switch p := e.Payload.(type) {
	case *transport.Synced:
		w.once.Do(func() { close(w.synced) })
	case *transport.AgentEvent:
		w.said(p)
	case *transport.Card:
		switch {
		case p.Gone != "":
			for _, id := range w.gone(p) {
				w.changed(id)
			}
		case p.Host != hostName && !p.IsHost():
			w.came(p)
		}
	}
	return nil
}

func (w *watch) came(c *transport.Card) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[c.AgentID] == nil {
		w.by[c.AgentID] = map[string]string{}
	}
	w.by[c.AgentID][c.Instance] = c.Host
}

// gone removes an instance, and those that it hosted, and returns the agents that nobody else announces any more.
func (w *watch) gone(c *transport.Card) (free []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, instances := range w.by {
		host, there := instances[c.Instance]
		if !there || id != c.AgentID && host != c.AgentID {
			continue
		}
		if delete(instances, c.Instance); len(instances) == 0 {
			delete(w.by, id)
			free = append(free, id)
		}
	}
	return free
}
