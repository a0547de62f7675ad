package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// renewPause is the pause before a lost subscription is renewed.
const renewPause = time.Second

// Names are the names of agents that others have announced: two agents of one name would get each other's work, so a bridge leaves out an agent whose
// name is taken. One that it has let in gives way to an agent that comes later and announces itself: with keys that one has proven its name, and those
// of a bridge have no keys. Between hosts, such as two bridges, the first stays. They are safe for concurrent use.
type Names struct {
	// Said, if not nil, is called with each event of Cortex's directory. It must not block. It is set before Run.
	Said func(*transport.AgentEvent)

	host    string
	changed func(id string)

	synced chan struct{}
	once   sync.Once

	mu sync.Mutex
	of map[string]map[string]string // by agent: the hosts of its instances, by instance
}

// NewNames returns the names that are announced by others than the host of that name, in this process or another replica. changed is called with
// each name that nobody announces any more, and with each of an agent that has come and announces itself; it must not block.
func NewNames(host string, changed func(id string)) *Names {
	return &Names{host: host, changed: changed, synced: make(chan struct{}), of: map[string]map[string]string{}}
}

// Synced waits until all announcements are known, or ctx has ended, and returns ctx's error then.
func (n *Names) Synced(ctx context.Context) error {
	select {
	case <-n.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// By returns who has announced an agent with that id, a host or an instance; "" if nobody has. To an agent that was let in, only one that announces
// itself counts.
func (n *Names) By(id string, letIn bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if letIn {
		for instance, host := range n.of[id] {
			if host == "" {
				return instance
			}
		}
		return ""
	}
	if all := slices.Sorted(maps.Keys(n.of[id])); len(all) > 0 {
		return cmp.Or(n.of[id][all[0]], all[0])
	}
	return ""
}

// Run follows the announcements of a tenant until ctx ends, and returns ctx's error.
func (n *Names) Run(ctx context.Context, tr transport.Transport, tenant string) error {
	for {
		s, err := tr.Subscribe(ctx, transport.Cards(tenant), &transport.SubscribeOptions{Concurrency: 1})
		if err == nil {
			n.mu.Lock()
			clear(n.of) // a subscription begins with all cards
			n.mu.Unlock()
			err = s.Serve(ctx, n.hear)
			s.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, transport.ErrUnavailable) {
			return fmt.Errorf("follow the announcements: %w", err)
		}
		_ = rest.For(ctx, renewPause)
	}
}

func (n *Names) hear(_ context.Context, e *transport.Event) error {
	switch p := e.Payload.(type) {
	case *transport.Synced:
		n.once.Do(func() { close(n.synced) })
	case *transport.AgentEvent:
		if n.Said != nil {
			n.Said(p)
		}
	case *transport.Card:
		if p.Gone != "" {
			for _, id := range n.left(p) {
				n.changed(id)
			}
		} else if p.Host != n.host && !p.IsHost() {
			n.mu.Lock()
			if n.of[p.AgentID] == nil {
				n.of[p.AgentID] = map[string]string{}
			}
			_, known := n.of[p.AgentID][p.Instance]
			n.of[p.AgentID][p.Instance] = p.Host
			n.mu.Unlock()
			if !known && p.Host == "" {
				n.changed(p.AgentID)
			}
		}
	}
	return nil
}

// left takes an instance away, and with a host all that it has announced. It returns the names that are free then.
func (n *Names) left(c *transport.Card) (free []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(id string, instances map[string]string) bool {
		if host, ok := instances[c.Instance]; !ok || id != c.AgentID && host != c.AgentID {
			return false
		}
		if delete(instances, c.Instance); len(instances) > 0 {
			return false
		}
		free = append(free, id)
		return true
	})
	return free
}
