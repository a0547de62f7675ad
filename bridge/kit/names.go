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

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// renewPause is the pause before a lost subscription is renewed.
const renewPause = time.Second

// keyedEach is how often the folder of keys is looked at.
const keyedEach = 2 * time.Second

// Names are the names that agents of a bridge cannot have: two agents of one name would get each other's work, so a bridge leaves out an agent whose
// name is taken. It is taken by an agent with a key for it, which may be away, since the agents of a bridge have no keys, and by one that others have
// announced. One that was let in gives way to an agent that gets a key, or comes later and announces itself. Between hosts, such as two bridges, the first
// stays. They are safe for concurrent use.
type Names struct {
	// Said, if not nil, is called with each event of Cortex's directory. It must not block. It is set before Run.
	Said func(*transport.AgentEvent)

	host    string
	hasKeys func() ([]string, error)
	changed func(id string)

	synced chan struct{}
	once   sync.Once

	mu    sync.Mutex
	of    map[string]map[string]string // by agent: the hosts of its instances, by instance
	again map[[2]string]bool           // agents and instances that a subscription has announced that is not synced yet; else nil
	keyed map[string]bool              // agents with keys of their own
}

// NewNames returns the names that are announced by others than the host of that name, in this process or another replica, or have keys. changed is called
// with each name that is free, and with each of an agent that has got a key, or has come and announces itself; it must not block. keyed returns who has
// keys, as role.Site.Keyed does; nil: nobody.
func NewNames(host string, keyed func() ([]string, error), changed func(id string)) *Names {
	return &Names{host: host, hasKeys: keyed, changed: changed, synced: make(chan struct{}), of: map[string]map[string]string{}}
}

// Synced waits until all names are known, or ctx has ended, and returns ctx's error then.
func (n *Names) Synced(ctx context.Context) error {
	select {
	case <-n.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Taken returns an error that says whose the name is that an agent of the bridge has in Cortex, nil if it is free. To an agent that was let in, of those
// who are announced only one that announces itself counts. instead says how both get a name.
func (n *Names) Taken(id string, letIn bool, instead string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keyed[id] {
		return fmt.Errorf("the name %s is that of an agent that has keys of its own, which may be away: %s", id, instead)
	}
	if by := n.by(id, letIn); by != "" {
		return fmt.Errorf("another agent called %s is there (%s): %s", id, shorten.Line(by, 100), instead)
	}
	return nil
}

// Announced reports whether others than the bridge's host have announced an agent with that id. All that is announced besides is the bridge's, also by a
// process that led before this one.
func (n *Names) Announced(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.by(id, false) != ""
}

// by returns who has announced an agent with that id, a host or an instance; "" if nobody has. n.mu is held.
func (n *Names) by(id string, letIn bool) string {
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

// Run follows the announcements of the tenant, and its keys, until ctx ends, and returns ctx's error.
func (n *Names) Run(ctx context.Context, tr transport.Transport, tenant string) error {
	n.look()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.follow(ctx, tr, tenant) })
	g.Go(func() error {
		tick := time.NewTicker(keyedEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n.look()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

// look reads whose names have keys. While that cannot be read, which the service logs, those are known that were read last.
func (n *Names) look() {
	if n.hasKeys == nil {
		return
	}
	ids, err := n.hasKeys()
	if err != nil {
		return
	}
	keyed := make(map[string]bool, len(ids))
	for _, id := range ids {
		keyed[id] = true
	}
	n.mu.Lock()
	before := n.keyed
	n.keyed = keyed
	n.mu.Unlock()
	for id := range keyed {
		if !before[id] {
			n.changed(id)
		}
	}
	for id := range before {
		if !keyed[id] {
			n.changed(id)
		}
	}
}

func (n *Names) follow(ctx context.Context, tr transport.Transport, tenant string) error {
	for {
		s, err := tr.Subscribe(ctx, transport.Cards(tenant), &transport.SubscribeOptions{Concurrency: 1})
		if err == nil {
			n.mu.Lock()
			n.again = map[[2]string]bool{} // a subscription begins with all cards: until then, those count that were known
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
		n.mu.Lock()
		again := n.again
		n.again = nil
		n.mu.Unlock()
		if again != nil {
			for _, id := range n.without(func(id, instance, _ string) bool { return !again[[2]string{id, instance}] }) {
				n.changed(id)
			}
		}
		n.once.Do(func() { close(n.synced) })
	case *transport.AgentEvent:
		if n.Said != nil {
			n.Said(p)
		}
	case *transport.Card:
		if p.Gone != "" {
			// with a host all is gone that it has announced
			for _, id := range n.without(func(id, instance, host string) bool {
				return instance == p.Instance && (id == p.AgentID || host == p.AgentID)
			}) {
				n.changed(id)
			}
		} else if p.Host != n.host && !p.IsHost() {
			n.mu.Lock()
			if n.of[p.AgentID] == nil {
				n.of[p.AgentID] = map[string]string{}
			}
			_, known := n.of[p.AgentID][p.Instance]
			n.of[p.AgentID][p.Instance] = p.Host
			if n.again != nil {
				n.again[[2]string{p.AgentID, p.Instance}] = true
			}
			n.mu.Unlock()
			if !known && p.Host == "" {
				n.changed(p.AgentID)
			}
		}
	}
	return nil
}

// without takes instances of agents away. It returns the names that are free then.
func (n *Names) without(gone func(id, instance, host string) bool) (free []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(id string, instances map[string]string) bool {
		maps.DeleteFunc(instances, func(instance, host string) bool { return gone(id, instance, host) })
		if len(instances) > 0 {
			return false
		}
		free = append(free, id)
		return true
	})
	return free
}
