package memory

import (
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/cortex-orchestrator/cortex/transport"
)

var (
	_ transport.Withdrawer  = (*Bus)(nil)
	_ transport.InboxSearch = (*Bus)(nil)
)

// Withdraw implements [transport.Withdrawer].
func (b *Bus) Withdraw(ctx context.Context, t transport.Topic, contextID, from, id string) error {
	if t.Kind != transport.KindInbox {
		return fmt.Errorf("%w: withdraw from %s, which is no inbox", transport.ErrInvalid, t.Kind)
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	if in := b.w.inboxes[t]; in != nil {
		in.withdraw(contextID, func(r *record) bool { return r.envelope.From == from && r.envelope.ID == id })
		in.tidy()
	}
	return nil
}

// withdraw removes the events of a conversation for which gone is true. One that is being handled is acknowledged when its handler ends, whatever the
// handler returns.
func (in *inbox) withdraw(contextID string, gone func(*record) bool) {
	if a := in.delayed[contextID]; a != nil && gone(a.r) {
		in.w.agenda.remove(a)
		delete(in.delayed, contextID)
	}
	c := in.convs[contextID]
	if c == nil {
		return
	}
	for it := range c.handling {
		if gone(it.r) {
			it.withdrawn = true
		}
	}
	for i := 0; i < len(c.waiting); {
		it := c.waiting[i]
		if !gone(it.r) {
			i++
			continue
		}
		heap.Remove(&c.waiting, i) // another one has its index now
		i = 0
		if it.ready != nil {
			in.ready.Remove(it.ready)
			it.ready = nil
		}
		it.withdrawn = true // it may be resting
		in.size--
	}
	in.update(c)
	if c.running == 0 && len(c.waiting) == 0 {
		delete(in.convs, c.id)
	}
	in.dispatch()
}

// Holds implements [transport.InboxSearch].
func (b *Bus) Holds(ctx context.Context, t transport.Topic, e *transport.Event) (bool, error) {
	found := false
	_, err := b.count(ctx, t, func(in *inbox) int {
		c := in.convs[e.ContextID]
		if c == nil {
			return 0
		}
		is := func(it *item) bool {
			r := &it.r.envelope
			return !it.withdrawn && r.From == e.From && r.TaskID == e.TaskID && (e.ID == "" || r.ID == e.ID)
		}
		found = slices.ContainsFunc(c.waiting, is)
		for it := range c.handling {
			found = found || is(it)
		}
		return 0
	})
	return found, err
}
