package cortex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	inheritDelay = 2 * time.Second // to collect the partitions that are taken over one after the other
	inheritRetry = time.Minute     // after an error of the store
	// inheritAge is how long ago a conversation has changed at most in which a task may run: its deadline ends it.
	inheritAge = conversation.MaxExtension * 24 * time.Hour
	// inheritWarn is how often the same trouble is a warning.
	inheritWarn = time.Hour
	// maxSeen bounds seen. What is dropped from it is loaded once more.
	maxSeen = 100_000
)

// inherited knows the conversations that another process has left with running tasks, until this one handles an event in them. No event may ever come
// if the agents have gone, so the conversations of partitions that were taken over are searched for in the store.
// It is safe for concurrent use.
type inherited struct {
	searchDue chan struct{} // receives when a partition was taken over

	mu     sync.Mutex
	owned  []int // nil: unknown
	agents map[conversation.Key][]string
	seen   map[conversation.Key]struct{} // handled since the takeover, while its search is due or runs; nil: none is due

	trouble string    // why the last search has not found all; "" when it has
	warned  time.Time // when that was a warning
}

func newInherited() *inherited {
	h := &inherited{searchDue: make(chan struct{}, 1), agents: map[conversation.Key][]string{}}
	h.requestSearch()
	return h
}

// requestSearch lets a search begin. The caller holds h.mu, or is the only user of h.
func (h *inherited) requestSearch() {
	if h.seen == nil {
		h.seen = map[conversation.Key]struct{}{}
	}
	select {
	case h.searchDue <- struct{}{}:
	default:
	}
}

// own is told which partitions are owned now.
func (h *inherited) own(parts []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(parts, func(p int) bool { return !slices.Contains(h.owned, p) }) {
		h.requestSearch()
	}
	h.owned = slices.Clone(parts)
	if h.owned == nil {
		h.owned = []int{}
	}
}

// lacks reports whether a conversation is owned, and was not handled by this process since it was taken over.
func (h *inherited) lacks(k conversation.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.seen[k]
	return !ok && (h.owned == nil || slices.Contains(h.owned, transport.Partition(k.Tenant, k.ContextID)))
}

// drop forgets a conversation, which this process handles.
func (h *inherited) drop(k conversation.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.agents, k)
	if h.seen == nil {
		return
	}
	if len(h.seen) >= maxSeen { // the search does not come to its end
		for other := range h.seen {
			delete(h.seen, other)
			break
		}
	}
	h.seen[k] = struct{}{}
}

func (h *inherited) put(k conversation.Key, agents []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.seen[k]; !ok {
		h.agents[k] = agents
	}
}

// end ends a search. After an error it is repeated.
func (h *inherited) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.requestSearch()
	case len(h.searchDue) == 0: // else a partition was taken over meanwhile
		h.seen = nil
	}
}

// note notes why a search has not found all, "" when it has, and reports whether that is new, or was not said for long.
func (h *inherited) note(trouble string, now time.Time) (warn bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	warn = trouble != "" && (h.trouble == "" || now.Sub(h.warned) >= inheritWarn)
	if h.trouble = trouble; warn {
		h.warned = now
	}
	return warn
}

// line returns a line for people while not all is found; "" else.
func (h *inherited) line() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble == "" {
		return ""
	}
	return "tasks that ran before this process began are not all known, and do not end when their agents have gone: " + h.trouble
}

// take returns the conversations with tasks of an agent, and forgets the agent in them.
func (h *inherited) take(agent string) (all []conversation.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, agents := range h.agents {
		i := slices.Index(agents, agent)
		if i < 0 {
			continue
		}
		all = append(all, k)
		if h.agents[k] = slices.Delete(agents, i, i+1); len(agents) == 1 {
			delete(h.agents, k)
		}
	}
	return all
}

// inherit searches the store after each takeover, also at the start, until ctx ends.
func (o *Orchestrator) inherit(ctx context.Context) {
	for rest.For(ctx, inheritDelay) == nil {
		select {
		case <-ctx.Done():
			return
		case <-o.inherited.searchDue:
		}
		err := o.searchInherited(ctx)
		o.inherited.end(err)
		if err != nil && ctx.Err() == nil {
			if o.inherited.note(prompt.Clean(err.Error(), maxTrouble), time.Now()) {
				o.log.Warn("running tasks of other processes are not all found, the search is repeated", "err", err)
			}
			_ = rest.For(ctx, inheritRetry)
		}
	}
}

// searchInherited searches once. The conversations that cannot be loaded although the store answers, such as damaged ones, are left out and told.
func (o *Orchestrator) searchInherited(ctx context.Context) error {
	unread, first := 0, ""
	oldest := o.cfg.Now().Add(-inheritAge)
	for info, err := range o.cfg.Store.Contexts(ctx, o.cfg.Tenant) {
		if err != nil {
			return err
		}
		k := conversation.Key{Tenant: o.cfg.Tenant, ContextID: info.ContextID}
		if info.Outline != nil && info.Outline.Idle || info.Updated.Before(oldest) || !o.inherited.lacks(k) {
			continue
		}
		began := time.Now()
		conv, err := storage.Load(ctx, o.cfg.Store, k.Tenant, k.ContextID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, transport.ErrUnavailable):
			return err
		case err != nil:
			if unread++; unread == 1 {
				first = prompt.Clean(fmt.Sprintf("%s: %v", k.ContextID, err), maxTrouble)
			}
			continue
		}
		o.loaded(conv)
		if agents := o.missing(conv); len(agents) > 0 {
			o.inherited.put(k, agents)
		}
		if !conv.NextDeadline().IsZero() {
			if err := o.remind(ctx, k); err != nil {
				return err
			}
		}
		if err := rest.For(ctx, time.Since(began)); err != nil { // turns have priority at the store
			return err
		}
	}
	trouble := ""
	if unread > 0 {
		trouble = fmt.Sprintf("conversations that cannot be read: %d, such as %s", unread, first)
	}
	if o.inherited.note(trouble, time.Now()) {
		o.log.Warn("running tasks are unknown: conversations cannot be read", "conversations", unread, "such_as", first)
	}
	return nil
}

// remind sends a deadline to a conversation, which settles what is late or sets its timer again: damage or a power cut may have taken the timer and left
// the log, and then nothing would end its turn.
func (o *Orchestrator) remind(ctx context.Context, k conversation.Key) error {
	now := o.cfg.Now()
	return o.cfg.Transport.Publish(ctx, transport.Inbox(k.Tenant, transport.Cortex), &transport.Event{
		ID: o.cfg.NewID(), Time: now, From: transport.Cortex, To: transport.Cortex, Tenant: k.Tenant, ContextID: k.ContextID,
		Payload: &transport.Deadline{At: now},
	})
}
