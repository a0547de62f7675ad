package memory

import (
	"container/heap"
	"container/list"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// agentPart is the fraction of the orchestrator's limit that the inbox of an agent has.
const agentPart = 20

// inbox is one work queue. An event in it waits to be taken, rests after a failure, or is being handled; it leaves when it is acknowledged. Every
// step takes constant or logarithmic time. Guarded by w.mu.
type inbox struct {
	w       *world
	topic   transport.Topic
	size    int // unacknowledged events
	convs   map[string]*conversation
	ready   *list.List // of *item: what an unordered subscriber may take
	heads   *list.List // of *conversation: those whose first event an ordered subscriber may take, while there is none
	free    *list.List // of *worker: those that can take another event, in turn
	delayed map[string]*alarm
	serving int // number of serving workers

	owners owners
}

// conversation has the events of one contextID in an inbox.
type conversation struct {
	id        string
	waiting   queue[*item] // including resting ones; the earliest published first
	running   int
	partition int
	heads     *list.List    // the list with head: its owner's, or the inbox's
	head      *list.Element // in heads

	handling map[*item]struct{} // the running ones
}

// item is an event in an inbox.
type item struct {
	in       *inbox
	conv     *conversation
	r        *record
	seq      uint64
	since    time.Time // when it was put into the inbox
	delivery int
	epoch    uint64 // of the delivery
	resting  bool
	index    int           // in conversation.waiting
	ready    *list.Element // in inbox.ready

	withdrawn bool // to be removed, whatever its handler returns
}

func (it *item) before(other *item) bool { return it.seq < other.seq }
func (it *item) place() *int             { return &it.index }

func (w *world) inbox(t transport.Topic) *inbox {
	in := w.inboxes[t]
	if in == nil {
		in = &inbox{
			w: w, topic: t, convs: map[string]*conversation{}, delayed: map[string]*alarm{},
			ready: list.New(), heads: list.New(), free: list.New(),
		}
		w.inboxes[t] = in
	}
	return in
}

// tidy removes in from the world when it is empty.
func (in *inbox) tidy() {
	if in.size == 0 && in.serving == 0 && len(in.delayed) == 0 {
		delete(in.w.inboxes, in.topic)
	}
}

// post publishes to an inbox.
func (w *world) post(t transport.Topic, r *record) error {
	id := seenID(t, &r.envelope)
	if w.seen.has(id) {
		return nil
	}
	in := w.inbox(t)
	switch holds := in.size + len(in.delayed); {
	case t.ID != transport.Cortex && holds >= max(w.o.MaxInbox/agentPart, 1):
		return fmt.Errorf("%w: %d events wait for %s, which gets more when it has fetched some", transport.ErrFull, holds, t.ID)
	case holds >= w.o.MaxInbox && r.newWork(t):
		return fmt.Errorf("%w: the inbox of %s holds %d events: try again later", transport.ErrFull, t.ID, holds)
	case holds >= 2*w.o.MaxInbox:
		return fmt.Errorf("%w: the inbox of %s holds %d events", transport.ErrUnavailable, t.ID, holds)
	}
	w.seen.add(id)
	if r.envelope.DeliverAt.IsZero() {
		in.add(r)
	} else {
		in.delay(r)
	}
	return nil
}

// delay stores r until it is due, replacing the one that its conversation waits for.
func (in *inbox) delay(r *record) {
	contextID := r.envelope.ContextID
	in.w.agenda.remove(in.delayed[contextID])
	delete(in.delayed, contextID)
	if !time.Now().Before(r.envelope.DeliverAt) {
		in.add(r)
		return
	}
	in.delayed[contextID] = in.w.agenda.add(r.envelope.DeliverAt, func() {
		delete(in.delayed, contextID)
		in.add(r)
	})
	in.delayed[contextID].r = r
}

// add appends a new event to its conversation.
func (in *inbox) add(r *record) {
	c := in.convs[r.envelope.ContextID]
	if c == nil {
		c = &conversation{
			id: r.envelope.ContextID, partition: transport.Partition(in.topic.Tenant, r.envelope.ContextID), handling: map[*item]struct{}{},
		}
		in.convs[c.id] = c
	}
	in.w.seq++
	it := &item{in: in, conv: c, r: r, seq: in.w.seq, since: time.Now()}
	in.size++
	heap.Push(&c.waiting, it)
	it.ready = in.ready.PushBack(it)
	in.update(c)
	in.dispatch()
	for watch := range in.w.watches[in.topic] {
		watch.rouse(in.topic)
	}
}

// update adds c to the heads, or removes it: an ordered subscriber may take the first event of a conversation if none is being handled and the first
// does not rest.
func (in *inbox) update(c *conversation) {
	may := c.running == 0 && len(c.waiting) > 0 && !c.waiting[0].resting
	switch {
	case may && c.head == nil:
		c.heads = in.headsOf(c.partition)
		c.head = c.heads.PushBack(c)
	case !may && c.head != nil:
		c.heads.Remove(c.head)
		c.head = nil
	}
}

// take removes and returns the next event that s may have, or nil.
func (in *inbox) take(s *worker) *item {
	var it *item
	if s.unordered {
		front := in.ready.Front()
		if front == nil {
			return nil
		}
		it = front.Value.(*item)
	} else {
		front := s.heads.Front()
		if front == nil {
			return nil
		}
		c := front.Value.(*conversation)
		it = c.waiting[0]
		it.epoch = in.owners.epochs[c.partition]
	}
	in.ready.Remove(it.ready)
	it.ready = nil
	heap.Remove(&it.conv.waiting, it.index)
	it.conv.running++
	it.conv.handling[it] = struct{}{}
	it.delivery++
	in.update(it.conv)
	return it
}

// dispatch starts handlers while there are events and workers for them, in turn.
func (in *inbox) dispatch() {
	for el := in.free.Front(); el != nil && in.ready.Len() > 0; {
		s, next := el.Value.(*worker), el.Next()
		it := s.take()
		if it == nil {
			el = next
			continue
		}
		s.handlers.Add(1)
		go s.work(it)
		el = in.free.Front()
	}
}

// settle ends the handling of it: acknowledged, a dead letter, or back in its place. now says that a failed event need not rest, since the failure
// was not its fault.
func (in *inbox) settle(it *item, err error, now bool) {
	c := it.conv
	c.running--
	delete(c.handling, it)
	switch {
	case err == nil, it.withdrawn:
		in.size--
	case transport.IsPermanent(err):
		in.size--
		in.w.addDeadLetter(it, err)
	case now:
		heap.Push(&c.waiting, it)
		it.ready = in.ready.PushFront(it)
	default:
		heap.Push(&c.waiting, it)
		it.resting = true
		in.w.agenda.add(time.Now().Add(in.w.backoff(it.delivery)), func() {
			if it.withdrawn {
				return
			}
			it.resting = false
			it.ready = in.ready.PushBack(it)
			in.update(c)
			in.dispatch()
		})
	}
	in.update(c)
	if c.running == 0 && len(c.waiting) == 0 {
		delete(in.convs, c.id)
	}
	in.dispatch()
	in.tidy()
}

// backoff returns how long an event rests after its n-th delivery.
func (w *world) backoff(n int) time.Duration {
	limit := 100 * w.o.Backoff
	if n > 7 {
		return limit
	}
	return min(w.o.Backoff<<(n-1), limit)
}
