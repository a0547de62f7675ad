package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxKeptInstances = 100           // of an agent, so that a note stays small
	maxMarked        = 2 * maxAgents // agents that wait to be kept
	keepRetry        = 5 * time.Second
	flushTimeout     = 2 * time.Second
	catchUpTimeout   = time.Second // of it
)

// Keeper keeps one small note for each agent, at most 256 KiB. Its methods may block, and need not be safe for concurrent use:
// they are called one at a time.
type Keeper interface {
	// Load yields what is kept, in any order.
	Load(ctx context.Context) iter.Seq2[Kept, error]
	// Save replaces the note of an agent. data is not written to afterwards.
	Save(ctx context.Context, id string, data []byte) error
	// Delete removes it. One that is not there is no error.
	Delete(ctx context.Context, id string) error
}

// Kept is the note of an agent.
type Kept struct {
	ID   string
	Data []byte
}

// keptAgent is the content of a note. The card is the one that held: an instance that announced another one does so again.
type keptAgent struct {
	Card         json.RawMessage `json:"card"`
	RegisteredAt time.Time       `json:"registeredAt"`
	LastSeen     time.Time       `json:"lastSeen"`
	Instances    []keptInstance  `json:"instances"`
}

type keptInstance struct {
	ID        string        `json:"id"`
	Since     time.Time     `json:"since"`
	TTL       time.Duration `json:"ttl,omitempty"`
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	Draining  bool          `json:"draining,omitempty"`
}

// notes are the agents whose note is not what it should be.
type notes struct {
	wake    chan struct{}
	failing bool // only for who writes

	mu     sync.Mutex
	marked map[string]struct{}
}

// mark asks for an agent's note to be written. When too much waits already, the note stays as it is, which is corrected when the
// agent changes again or, after a restart, is silent.
func (n *notes) mark(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.marked) >= maxMarked {
		return
	}
	n.marked[id] = struct{}{}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns what was marked, in order.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := slices.Sorted(maps.Keys(n.marked))
	clear(n.marked)
	return ids
}

// keep writes notes until ctx ends.
func (r *Registry) keep(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.notes.wake:
		}
		if r.write(ctx) == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(keepRetry):
		}
	}
}

// flush writes what is left when a Run ends, if that is soon done.
func (r *Registry) flush(ctx context.Context, tr transport.Transport) {
	if r.cfg.Keep == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if r.cfg.Announce {
		r.catchUp(ctx, tr)
	}
	_ = r.write(ctx) // it was logged
}

// catchUp finds out who has left just before the end: goodbyes may be on their way, of the agents in this process above all, and
// who is kept in spite of one is given work by the next Run.
func (r *Registry) catchUp(ctx context.Context, tr transport.Transport) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	cards, err := tr.Subscribe(ctx, transport.Cards(r.cfg.Tenant), &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		return
	}
	type key struct{ agent, instance string }
	there, synced := map[key]bool{}, false
	_ = cards.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		switch p := e.Payload.(type) {
		case *transport.Card:
			there[key{p.AgentID, p.Instance}] = p.Gone == ""
		case *transport.Synced:
			synced = true
			cancel()
		}
		return nil
	})
	_ = cards.Close()
	if !synced {
		return
	}
	r.applying.Lock()
	defer r.applying.Unlock()
	r.report(r.removeAll(func(a *agent, in *instance) bool { return !in.grace && !in.lost && !there[key{a.id, in.id}] }))
}

// write writes the notes that are marked. Those that could not be written are marked again, and one of the errors is returned.
func (r *Registry) write(ctx context.Context) error {
	var first error
	for _, id := range r.notes.take() {
		err := ctx.Err()
		if err == nil {
			if data := r.note(id); data != nil {
				err = r.cfg.Keep.Save(ctx, id, data)
			} else {
				err = r.cfg.Keep.Delete(ctx, id)
			}
		}
		if err != nil {
			r.notes.mark(id)
			if first == nil && !r.notes.failing && ctx.Err() == nil { // now: thousands that wait for the store take hours
				r.cfg.Logger.Warn("agents are not remembered for now", "agent", id, "err", err)
			}
			first = cmp.Or(first, fmt.Errorf("keep %s: %w", id, err))
		}
	}
	r.notes.failing = first != nil
	return first
}

// note returns what is to be kept of an agent; nil when it is not there.
func (r *Registry) note(id string) []byte {
	r.mu.Lock()
	a := r.agents[id]
	if a == nil || a.pinned != nil || len(a.instances) == 0 {
		r.mu.Unlock()
		return nil
	}
	card := a.view().content.card
	k := keptAgent{RegisteredAt: a.registered, LastSeen: a.seen}
	for _, in := range a.instances {
		k.Instances = append(k.Instances, keptInstance{in.id, in.since, in.ttl, in.heartbeat, in.draining})
	}
	r.mu.Unlock()
	slices.SortFunc(k.Instances, func(x, y keptInstance) int { return cmp.Compare(x.ID, y.ID) })
	k.Instances = k.Instances[:min(len(k.Instances), maxKeptInstances)]
	var err error
	if k.Card, err = json.Marshal(card); err != nil {
		return nil // it was compared, which is the same
	}
	data, err := json.Marshal(k)
	if err != nil {
		return nil // a time out of this world, of which nothing need be remembered
	}
	return data
}

// restore brings in the agents that were kept. They have been silent since, and have the grace of a pause.
func (r *Registry) restore(ctx context.Context) {
	for k, err := range r.cfg.Keep.Load(ctx) {
		if err != nil {
			r.cfg.Logger.Warn("not all agents are remembered", "err", err)
			break
		}
		if err := r.recall(k); err != nil {
			r.cfg.Logger.Warn("what was kept of an agent cannot be used", "agent", k.ID, "err", err)
			if transport.CheckID(k.ID) == nil {
				r.notes.mark(k.ID) // it is replaced, or goes
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judgeAll(slices.DeleteFunc(slices.Clone(r.order), func(a *agent) bool { return a.pinned != nil }))
	r.changes.Add(1)
}

func (r *Registry) recall(kept Kept) error {
	var k keptAgent
	if err := json.Unmarshal(kept.Data, &k); err != nil {
		return err
	}
	if err := transport.CheckID(kept.ID); err != nil {
		return fmt.Errorf("its name %w", err)
	}
	switch n := len(k.Instances); {
	case transport.IsReserved(kept.ID):
		return errors.New("it is the orchestrator")
	case n == 0 || n > maxKeptInstances:
		return fmt.Errorf("it has %d instances, want 1 to %d", n, maxKeptInstances)
	case len(k.Card) > transport.MaxCard:
		return fmt.Errorf("its card is %d bytes, at most %d are allowed", len(k.Card), transport.MaxCard)
	}
	var card *a2a.AgentCard
	if err := json.Unmarshal(k.Card, &card); err != nil {
		return fmt.Errorf("its card: %w", err)
	}
	if card == nil || len(card.Skills) > transport.MaxSkills {
		return errors.New("its card is none")
	}
	hash, size, err := hashOf(card)
	if err != nil {
		return fmt.Errorf("its card: %w", err)
	}
	for _, in := range k.Instances {
		if err := transport.CheckID(in.ID); err != nil {
			return fmt.Errorf("an instance %w", err)
		}
		if in.TTL < 0 || in.Heartbeat < 0 || in.Heartbeat > transport.MaxHeartbeat {
			return fmt.Errorf("instance %s has the ttl %v and the heartbeat %v", in.ID, in.TTL, in.Heartbeat)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, now := r.agents[kept.ID], r.now()
	if a != nil {
		r.notes.mark(kept.ID) // well known by now
		return nil
	}
	if len(r.agents) >= maxAgents {
		return nil
	}
	a = r.agent(kept.ID)
	a.registered, a.seen = k.RegisteredAt, k.LastSeen
	c := newContent(card, hash, size)
	r.serial++
	for _, in := range k.Instances {
		it := &instance{
			id: in.ID, content: c, announced: r.serial, draining: in.Draining, since: in.Since, seen: k.LastSeen,
			ttl: in.TTL, heartbeat: in.Heartbeat, lost: true,
		}
		it.spare(now)
		a.instances[in.ID] = it
	}
	a.warned = a.cards()
	return nil
}
