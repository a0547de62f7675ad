package memory

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.Owners = (*Bus)(nil)

// owners assigns the partitions of an inbox to its ordered workers. Guarded by w.mu.
type owners struct {
	workers []*worker // the serving ones, sorted by id
	epochs  [transport.Partitions]uint64
	of      [transport.Partitions]*worker // nil while there is none

	telling sync.Mutex // while onOwned is called; locked before w.mu
}

// remove assigns the partitions of s, which leaves, to the others. It does nothing when that was done before.
func (in *inbox) remove(s *worker) {
	if i := slices.Index(in.owners.workers, s); i >= 0 {
		in.owners.workers = slices.Delete(in.owners.workers, i, i+1)
		in.deal()
		in.dispatch()
	}
}

// deal assigns each partition to a worker in turn. Events that are being handled stay with their worker; the following ones go to the new owner.
func (in *inbox) deal() {
	o := &in.owners
	for p := range o.of {
		var next *worker
		if n := len(o.workers); n > 0 {
			next = o.workers[p%n]
		}
		if o.of[p] != next {
			o.of[p] = next
			in.w.seq++
			o.epochs[p] = in.w.seq
		}
	}
	var moved []*conversation
	for _, c := range in.convs {
		if c.head != nil && c.heads != in.headsOf(c.partition) {
			c.heads.Remove(c.head)
			c.head = nil
			moved = append(moved, c)
		}
	}
	slices.SortFunc(moved, func(a, b *conversation) int { return cmp.Compare(a.waiting[0].seq, b.waiting[0].seq) })
	for _, c := range moved {
		in.update(c)
	}
}

// headsOf returns the list for the conversations of a partition.
func (in *inbox) headsOf(partition int) *list.List {
	if s := in.owners.of[partition]; s != nil {
		return s.heads
	}
	return in.heads
}

// owned returns the partitions of s.
func (in *inbox) owned(s *worker) []int {
	partitions := []int{}
	for p, owner := range in.owners.of {
		if owner == s {
			partitions = append(partitions, p)
		}
	}
	return partitions
}

// tell reports to each ordered worker, and to s, which joins or leaves, the partitions that it owns. Workers that have lost a partition are told
// first, so that no two workers believe at the same time that they own one.
func (in *inbox) tell(s *worker) {
	if s.unordered {
		return
	}
	o := &in.owners
	o.telling.Lock()
	defer o.telling.Unlock()
	in.w.mu.Lock()
	all := slices.Clone(o.workers)
	if !slices.Contains(all, s) {
		all = append(all, s)
	}
	owned := map[*worker][]int{}
	for _, s := range all {
		owned[s] = in.owned(s)
	}
	in.w.mu.Unlock()
	for _, s := range all {
		s.tell(slices.DeleteFunc(slices.Clone(s.told), func(p int) bool { return !slices.Contains(owned[s], p) }))
	}
	for _, s := range all {
		s.tell(owned[s])
	}
}

// tell calls onOwned, unless nothing has changed for s.
func (s *worker) tell(owned []int) {
	if s.onOwned == nil || s.told != nil && slices.Equal(s.told, owned) || s.told == nil && owned == nil {
		return
	}
	s.told = owned
	s.onOwned(slices.Clone(owned))
}

// Owners implements [transport.Owners].
func (b *Bus) Owners(ctx context.Context, t transport.Topic) ([]transport.Owner, error) {
	if t.Kind != transport.KindInbox {
		return nil, fmt.Errorf("%w: %s is no inbox", transport.ErrInvalid, t.Kind)
	}
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.w.mu.Unlock()
	in := b.w.inboxes[t]
	if in == nil {
		return nil, nil
	}
	var all []transport.Owner
	for _, s := range in.owners.workers {
		id := fmt.Sprintf("%020s", strconv.FormatUint(s.id, 10))
		all = append(all, transport.Owner{ID: id, Label: s.label, Since: s.since, Partitions: in.owned(s)})
	}
	return all, nil
}
