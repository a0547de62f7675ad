package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

// ownershipLog records what the ordered subscribers of the orchestrator's inbox report as owned, and what they handle: at any time a partition has one
// owner, and a conversation one handler.
type ownershipLog struct {
	e *env

	mu      sync.Mutex
	owned   map[string][]int    // by label
	killed  map[string]bool     // by label
	running map[string]string   // by conversation: the label of the subscriber that handles it
	next    map[string]int      // by conversation: the number of the next event
	last    map[string]string   // by conversation: the subscriber that handled the last event
	epochs  map[string]uint64   // by conversation: the epoch of the last event
	used    map[string][]uint64 // by conversation: all epochs
	calm    bool                // no subscriber joins or leaves
	moved   int                 // conversations that changed their handler
}

func newOwnershipLog(e *env) *ownershipLog {
	return &ownershipLog{
		e: e, owned: map[string][]int{}, killed: map[string]bool{}, running: map[string]string{}, next: map[string]int{}, last: map[string]string{},
		epochs: map[string]uint64{}, used: map[string][]uint64{},
	}
}

// orderedSubscriber is a subscriber.
type orderedSubscriber struct {
	*server
	tr    transport.Transport
	label string
}

// join makes another client serve the inbox.
func (d *ownershipLog) join(label string) *orderedSubscriber {
	d.e.Helper()
	tr := d.e.dial()
	sub := d.e.subscribe(tr, orchestrator, &transport.SubscribeOptions{Label: label, OnOwned: func(parts []int) { d.tell(label, parts) }})
	return &orderedSubscriber{d.e.serve(sub, func(_ context.Context, ev *transport.Event) error { return d.handle(label, ev) }), tr, label}
}

// tell is the OnOwned of a subscriber.
func (d *ownershipLog) tell(label string, parts []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.IsSorted(parts) || len(parts) > 0 && (parts[0] < 0 || parts[len(parts)-1] >= transport.Partitions) {
		d.e.Errorf("%s was told to own %v, want partitions in their order", label, parts)
	}
	if d.killed[label] {
		return
	}
	d.owned[label] = slices.Clone(parts)
	for other, theirs := range d.owned {
		for _, p := range theirs {
			if other != label && slices.Contains(parts, p) {
				d.e.Errorf("%s and %s were told to own partition %d", label, other, p)
			}
		}
	}
}

// forget removes a subscriber that is about to be killed. What it is told after that counts no more: it still runs, and learns late what others own.
func (d *ownershipLog) forget(label string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killed[label] = true
	delete(d.owned, label)
}

func (d *ownershipLog) handle(label string, ev *transport.Event) error {
	c := ev.ContextID
	d.mu.Lock()
	if other, ok := d.running[c]; ok {
		d.e.Errorf("%s handles an event of %s beside %s", label, c, other)
	}
	d.running[c] = label
	d.mu.Unlock()
	runtime.Gosched() // let other goroutines run
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, c)
	n, err := strconv.Atoi(words(ev))
	if want := d.next[c]; err != nil || n > want {
		d.e.Errorf("%s: %s got %q, want %d", c, label, words(ev), want)
	}
	switch {
	case ev.Epoch == 0:
		d.e.Errorf("%s: event %d has no epoch", c, n)
	case d.calm && d.last[c] == label && ev.Epoch != d.epochs[c]:
		d.e.Errorf("%s: event %d of %s has epoch %d after %d, want the same: nobody else owned it", c, n, label, ev.Epoch, d.epochs[c])
	case d.last[c] != "" && d.last[c] != label && slices.Contains(d.used[c], ev.Epoch):
		d.e.Errorf("%s: event %d has epoch %d at %s, which was used before it was at %s", c, n, ev.Epoch, label, d.last[c])
	}
	if ev.Epoch != d.epochs[c] {
		d.used[c] = append(d.used[c], ev.Epoch)
	}
	if d.last[c] != "" && d.last[c] != label {
		d.moved++
	}
	d.last[c], d.epochs[c] = label, ev.Epoch
	d.next[c] = max(d.next[c], n+1)
	return nil
}

// quiet sets whether no subscriber joins or leaves.
func (d *ownershipLog) quiet(calm bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calm = calm
}

// shared waits until these subscribers own all partitions, each at least one.
func (d *ownershipLog) shared(labels ...string) {
	d.e.Helper()
	d.e.eventually(fmt.Sprintf("%v own everything", labels), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		n := 0
		for _, label := range labels {
			if len(d.owned[label]) == 0 {
				return false
			}
			n += len(d.owned[label])
		}
		return n == transport.Partitions
	})
}

// done waits until the first n events of these conversations were handled.
func (d *ownershipLog) done(contexts []string, n int) {
	d.e.Helper()
	d.e.eventually("all events are handled", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !slices.ContainsFunc(contexts, func(c string) bool { return d.next[c] < n })
	})
}

// asked checks that Owners reports the same as OnOwned.
func (d *ownershipLog) asked() {
	d.e.Helper()
	o, ok := d.e.tr.(transport.Owners)
	if !ok {
		return
	}
	d.e.eventually("Owners says what the owners were told", func() bool {
		list, err := o.Owners(context.Background(), orchestrator)
		if err != nil {
			d.e.Fatalf("Owners = %v, want nil", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		serving := 0
		for _, parts := range d.owned {
			if len(parts) > 0 {
				serving++
			}
		}
		if len(list) != serving {
			return false
		}
		for i, v := range list {
			if v.ID == "" || i > 0 && v.ID <= list[i-1].ID || v.Since.IsZero() || !slices.Equal(v.Partitions, d.owned[v.Label]) {
				return false
			}
		}
		return true
	})
}

// conversations returns names of conversations in every partition.
func conversations(each int) []string {
	var all []string
	var count [transport.Partitions]int
	for i := 0; len(all) < each*transport.Partitions; i++ {
		c := "c" + strconv.Itoa(i)
		if p := transport.Partition("", c); count[p] < each {
			count[p]++
			all = append(all, c)
		}
	}
	return all
}

var ownershipCases = []testCase{
	{name: "ownership is shared", run: func(e *env) {
		d := newOwnershipLog(e)
		all := conversations(16)
		n := 0
		say := func() {
			for _, c := range all {
				e.say(orchestrator, c, strconv.Itoa(n))
			}
			n++
		}
		a := d.join("a")
		d.shared("a")
		d.asked()
		d.quiet(true)
		for range 3 {
			say()
			d.done(all, n)
		}
		d.quiet(false)
		b := d.join("b")
		d.shared("a", "b")
		d.join("c")
		d.shared("a", "b", "c")
		d.asked()
		say()
		d.done(all, n)
		if d.moved == 0 {
			e.Error("no conversation has another handler now")
		}
		_ = b.sub.Close()
		say()
		d.done(all, n)
		d.shared("a", "c")
		_ = a.tr.Close()
		d.shared("c")
		say()
		d.done(all, n)
		d.asked()
	}},
	{
		name:  "ownership after a death",
		needs: func(n Node, _ transport.Transport) bool { _, ok := n.(Killer); return ok },
		run: func(e *env) {
			d := newOwnershipLog(e)
			all := conversations(16)
			a := d.join("a")
			d.shared("a")
			d.join("b")
			d.shared("a", "b")
			d.forget("a")
			e.node.(Killer).Kill(e.T, a.tr)
			for _, c := range all {
				e.say(orchestrator, c, "0")
			}
			d.done(all, 1)
			d.shared("b")
			d.asked()
		},
	},
	{name: "ownership while others come and go", run: func(e *env) {
		d := newOwnershipLog(e)
		all := conversations(6)
		const each = 40
		d.join("stays")
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range each {
				for _, c := range all {
					if err := e.tr.Publish(context.Background(), orchestrator, e.message(orchestrator, c, strconv.Itoa(i))); err != nil {
						e.Errorf("Publish = %v, want nil", err)
						return
					}
				}
			}
		})
		for i := range 3 {
			label := "guest" + strconv.Itoa(i)
			s := d.join(label)
			d.shared("stays", label)
			if i%2 == 0 {
				_ = s.sub.Close()
			} else {
				s.cancel()
			}
			s.returned()
			d.shared("stays")
		}
		wg.Wait()
		d.done(all, each)
	}},
	{name: "ownership of nothing", run: func(e *env) {
		o, ok := e.tr.(transport.Owners)
		if !ok {
			return
		}
		if list, err := o.Owners(context.Background(), orchestrator); len(list) > 0 || err != nil {
			e.Errorf("Owners = %v, %v of an inbox that nobody serves, want none", list, err)
		}
		e.desk(e.dial(), worker, unordered).nothing("nothing was published")
		if list, err := o.Owners(context.Background(), worker); len(list) > 0 || err != nil {
			e.Errorf("Owners = %v, %v of an inbox without order, want none", list, err)
		}
		for _, t := range []transport.Topic{transport.Cards(""), transport.Live("", "c1")} {
			e.wantIs(errOf(o.Owners(context.Background(), t)), transport.ErrInvalid, "Owners(%v)", t)
		}
		_ = e.tr.Close()
		e.wantIs(errOf(o.Owners(context.Background(), orchestrator)), transport.ErrClosed, "Owners after Close")
	}},
}
