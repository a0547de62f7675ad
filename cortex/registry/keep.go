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

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxKeptInstances = 100           // of an agent, to bound the size of a note
	maxMarked        = 2 * maxAgents // agents whose notes wait to be written
	keepRetry        = 5 * time.Second
	flushTimeout     = 2 * time.Second
	catchUpTimeout   = time.Second // of catchUp
)

// Keeper stores one note for each agent, at most 256 KiB. Its methods may block, and need not be safe for concurrent use: they are called one at a
// time.
type Keeper interface {
	// Load yields the stored notes, in any order.
	Load(ctx context.Context) iter.Seq2[AgentNote, error]
	// Save replaces the note of an agent. The caller does not modify data afterwards.
	Save(ctx context.Context, id string, data []byte) error
	// Delete removes the note of an agent. A missing note is no error.
	Delete(ctx context.Context, id string) error
}

// AgentNote is the note of an agent.
type AgentNote struct {
	ID   string
	Data []byte
}

// keptAgent is the content of a note. Card is the card that represented the agent: instances with another card announce it again.
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

// notes holds the agents whose notes are outdated.
type notes struct {
	wake    chan struct{}
	failing bool // used only by the writer

	mu     sync.Mutex
	marked map[string]struct{}
}

// mark requests that an agent's note be written. When too many wait, the note stays outdated until the agent changes again or, after a restart, turns
// out to be silent.
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

// take returns the marked agents, sorted, and unmarks them.
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
		if rest.For(ctx, keepRetry) != nil {
			return nil
		}
	}
}

// flush writes the remaining notes when a Run ends, within flushTimeout.
func (r *Registry) flush(ctx context.Context, tr transport.Transport) {
	if r.cfg.Keep == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if r.cfg.Announce {
		r.catchUp(ctx, tr)
	}
	_ = r.write(ctx) // write has logged it
}

// catchUp reads the latest goodbyes before the end, especially those of agents in this process: the next Run would give work to an agent that is
// stored although it has left.
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

// write writes the notes of the marked agents. It marks those again whose notes could not be written, and returns one of the errors.
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
			if first == nil && !r.notes.failing && ctx.Err() == nil { // log it now: with a slow store, thousands of notes take hours
				r.cfg.Logger.Warn("agents are not remembered for now", "agent", id, "err", err)
			}
			first = cmp.Or(first, fmt.Errorf("keep %s: %w", id, err))
		}
	}
	r.notes.failing = first != nil
	return first
}

// note returns the content of an agent's note; nil when the agent is not present. The note of a well-known agent, which is always present, only says
// when it was.
func (r *Registry) note(id string) []byte {
	r.mu.Lock()
	a := r.agents[id]
	if a == nil || len(a.instances) == 0 && (a.pinned == nil || a.seen.IsZero()) {
		r.mu.Unlock()
		return nil
	}
	card := a.view().content.card
	k := keptAgent{RegisteredAt: a.registered, LastSeen: a.seen}
	for _, in := range a.instances {
		if a.pinned != nil {
			break
		}
		k.Instances = append(k.Instances, keptInstance{in.id, in.since, in.ttl, in.heartbeat, in.draining})
	}
	r.mu.Unlock()
	slices.SortFunc(k.Instances, func(x, y keptInstance) int { return cmp.Compare(x.ID, y.ID) })
	k.Instances = k.Instances[:min(len(k.Instances), maxKeptInstances)]
	var err error
	if k.Card, err = json.Marshal(card); err != nil {
		return nil // cannot happen: the card was encoded before
	}
	data, err := json.Marshal(k)
	if err != nil {
		return nil // a time that JSON cannot encode; there is nothing to store
	}
	return data
}

// errFull is returned for a stored agent when there is no room for more.
var errFull = errors.New("there are too many agents")

// restore adds the stored agents. They have been silent since they were stored, and get the grace of a pause.
func (r *Registry) restore(ctx context.Context) {
	left := 0
	for k, err := range r.cfg.Keep.Load(ctx) {
		if err != nil {
			r.cfg.Logger.Warn("not all agents are remembered", "err", err)
			break
		}
		if err := r.recall(k); errors.Is(err, errFull) { // its note stays for when there is room
			if left++; left == 1 {
				r.cfg.Logger.Warn("agents are not remembered", "agent", k.ID, "err", err)
			}
		} else if err != nil {
			r.cfg.Logger.Warn("what was kept of an agent cannot be used", "agent", k.ID, "err", err)
			if transport.CheckID(k.ID) == nil {
				r.notes.mark(k.ID) // replace or delete it
			}
		}
	}
	if left > 1 {
		r.cfg.Logger.Warn("agents are not remembered", "agents", left, "err", errFull)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judgeAll(slices.DeleteFunc(slices.Clone(r.order), func(a *agent) bool { return a.pinned != nil }))
	r.changes.Add(1)
}

// recallPinned takes from a note when an agent was there that is well known, and reports whether it is.
func (r *Registry) recallPinned(id string, k *keptAgent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[id]
	if a == nil || a.pinned == nil {
		return false
	}
	a.registered, a.seen, a.shown = k.RegisteredAt, k.LastSeen, view{}
	if len(k.Instances) > 0 { // it became well known since
		r.notes.mark(id)
	}
	return true
}

func (r *Registry) recall(kept AgentNote) error {
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
	case r.recallPinned(kept.ID, &k):
		return nil
	case n == 0: // it was well known when this was written
		r.notes.mark(kept.ID)
		return nil
	case n > maxKeptInstances:
		return fmt.Errorf("it has %d instances, at most %d are allowed", n, maxKeptInstances)
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
	hash, err := hashOf(card)
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
	now := r.now()
	c := newContent(card, hash)
	if len(r.agents) >= maxAgents || r.bytes+c.size > maxBytes {
		return errFull
	}
	a := r.agent(kept.ID)
	a.registered, a.seen = k.RegisteredAt, k.LastSeen
	r.serial++
	for _, in := range k.Instances {
		it := &instance{
			id: in.ID, content: c, announced: r.serial, draining: in.Draining, since: in.Since, seen: k.LastSeen,
			ttl: in.TTL, heartbeat: in.Heartbeat, lost: true, recalled: now,
		}
		it.spare(now)
		a.instances[in.ID] = it
	}
	r.count(a, c.size)
	a.warned = a.cards()
	return nil
}
