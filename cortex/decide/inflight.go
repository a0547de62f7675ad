package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// MaxDecisions is the maximum number of concurrent decisions.
	MaxDecisions = 2048

	// An undecided event occupies a handler, while it is being decided or waits for that. The rest of the [transport.DefaultConcurrency] handlers, and
	// of the bytes that a transport holds, is for events that need no decision.
	maxUndecided      = 3072
	maxUndecidedBytes = 40 << 20

	// heldShare is the part of a conversation's bytes that counts as bytes of its undecided event, which holds it, if it is more than those of the event: so about
	// 640 MiB of conversations are held.
	heldShare = 16

	// oneShare bounds each sender's part of these, as a multiple of what is free: a single sender gets at most three quarters. So there is always room
	// for a new sender, and the parts shrink as senders become more.
	oneShare = 3

	inFlightTold = 10 * time.Second // between two warnings of the same kind
)

// inFlight bounds the concurrent decisions, since each may need a connection to a model. The others wait in the handlers of their events, which keep
// the order of their conversations and hold no files. When one ends, the next is of the sender with the fewest decisions, and among equals of the one whose last
// decision began before those of the others: nobody waits for all that another asked before. It is safe for concurrent use.
type inFlight struct {
	most    int
	affords func(deciding int) bool // whether the day's budget may hold one more decision
	refuses bool                    // refuse senders above their share. Not without keys, when anybody could use up another's share: then they only wait
	counts  bool                    // count bytes although nobody is refused here

	log           *slog.Logger
	waits, refuse rate.Sometimes // limit the rate of warnings

	mu        sync.Mutex
	bySender  map[string]*share
	deciding  int
	undecided int
	bytes     int    // of the undecided events, and a part of those of their conversations
	begun     uint64 // decisions
}

// share is what one sender has in flight.
type share struct {
	sender    string
	deciding  int
	undecided int
	bytes     int
	last      uint64    // of the decisions that have begun, its last one; at first, the last one of all
	waiting   []*flight // in order of arrival
}

// flight is a turn that needs a decision.
type flight struct {
	of    *share
	bytes int
	since time.Time
	begun chan struct{} // closed when it may begin
}

func newInFlight(cfg *Config) *inFlight {
	told := func() rate.Sometimes { return rate.Sometimes{First: 1, Interval: inFlightTold} }
	return &inFlight{most: cfg.Decisions, affords: cfg.Spending.Affords, refuses: cfg.Authenticated, log: cfg.Logger, waits: told(), refuse: told(), bySender: map[string]*share{}}
}

// newComputing bounds the decisions that are being computed in this process, to half of its processors: all else in it, such as the store, would wait behind
// hundreds of them, each of which can take a tenth of a second. It returns nil for a decider that waits for a model.
func newComputing(cfg *Config) *inFlight {
	if c, ok := cfg.Decider.(llm.Computing); !ok || !c.Computes() {
		return nil
	}
	return newPlaces()
}

// newChecking bounds the results that are checked at a time, by rules or by schemas. They cannot be refused: while too much of a requester's waits, new requests are, see
// [Maker.Decide].
func newChecking() *inFlight {
	f := newPlaces()
	f.counts = true
	return f
}

// newPlaces bounds what is computed at a time, and refuses nobody.
func newPlaces() *inFlight {
	return &inFlight{
		most: max(1, runtime.GOMAXPROCS(0)/2), affords: func(int) bool { return true }, log: slog.New(slog.DiscardHandler), bySender: map[string]*share{},
	}
}

// enter waits until a decision about the event e may be made, in a turn whose chain sender began. The caller then calls leave when the decision is
// made; waited reports that time has passed. enter returns the cause of ctx when ctx ends first, and a [conversation.Failure] when the sender has too
// much in flight, except for a redelivered event, which was admitted before. Whoever waits holds this many bytes of the conversation.
func (f *inFlight) enter(ctx context.Context, sender string, e *transport.Event, held int, now time.Time) (leave func(), waited bool, err error) {
	t, err := f.ask(sender, e, held, now)
	if err != nil {
		return nil, false, err
	}
	waited = !t.hasBegun()
	if err := f.wait(ctx, t); err != nil {
		return nil, waited, err
	}
	return func() { f.leave(t) }, waited, nil
}

// ask is enter, but returns at once, whether or not the decision may be made already.
func (f *inFlight) ask(sender string, e *transport.Event, held int, now time.Time) (*flight, error) {
	t := &flight{since: now, begun: make(chan struct{})}
	if f.refuses || f.counts {
		b, _ := json.Marshal(e.Payload)                                 // as the transport holds it
		t.bytes = max(len(b), min(held/heldShare, maxUndecidedBytes/8)) // a single one leaves room for those of others
	}
	return t, f.add(t, sender, e.Delivery > 1)
}

// hasBegun reports whether t has its place.
func (t *flight) hasBegun() bool {
	select {
	case <-t.begun:
		return true
	default:
		return false
	}
}

// wait waits until t may begin. It returns the cause of ctx when ctx ends first.
func (f *inFlight) wait(ctx context.Context, t *flight) error {
	if t.hasBegun() {
		return nil
	}
	select {
	case <-t.begun:
		return nil
	case <-ctx.Done():
	}
	f.drop(t)
	return context.Cause(ctx)
}

// drop removes t, whether or not it has begun.
func (f *inFlight) drop(t *flight) {
	if !f.remove(t) {
		f.leave(t)
	}
}

// add lets t begin or wait.
func (f *inFlight) add(t *flight, sender string, again bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.of = cmp.Or(f.bySender[sender], &share{sender: sender, last: f.begun}) // behind who waits already, however many new senders come
	s := t.of
	if f.refuses && f.full(s) && !again && s.undecided > 0 {
		f.refuse.Do(func() {
			f.log.Warn("turns are refused: their sender has too many that are undecided", "sender", prompt.Clean(sender, maxAsked), "undecided", s.undecided, "bytes", s.bytes)
		})
		return conversation.Failure(fmt.Sprintf("Too much at once: %d of your requests are still to be decided. Ask again when some are answered.", s.undecided))
	}
	f.bySender[sender] = s
	s.undecided, f.undecided = s.undecided+1, f.undecided+1
	s.bytes, f.bytes = s.bytes+t.bytes, f.bytes+t.bytes
	s.waiting = append(s.waiting, t)
	if len(s.waiting) == 1 && f.may(s) {
		f.admit()
	}
	if t.hasBegun() {
		return nil
	}
	f.waits.Do(func() {
		f.log.Warn("turns wait for a decision: the model is slow, somebody asks for much, or little is left of the day's budget", "waiting", f.undecided-f.deciding, "deciding", f.deciding,
			"at_most", f.most, "sender", prompt.Clean(sender, maxAsked), "of_sender", s.deciding)
	})
	return nil
}

// full reports whether a sender has as much as they may.
func (f *inFlight) full(s *share) bool {
	return s.undecided >= oneShare*(maxUndecided-f.undecided) || s.bytes >= oneShare*(maxUndecidedBytes-f.bytes)
}

// isFull is full for whoever may have nothing here. Nobody is refused here, so the bounds may be passed: then it is who has more than their part.
func (f *inFlight) isFull(sender string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, n := f.bySender[sender], len(f.bySender)
	return s != nil && f.full(s) && (s.undecided*n >= f.undecided || s.bytes*n >= f.bytes)
}

// may reports whether a sender may have one more concurrent decision.
func (f *inFlight) may(s *share) bool { return s.deciding < oneShare*(f.most-f.deciding) }

// begin lets the first waiting turn of s begin.
func (f *inFlight) begin(s *share) {
	s.deciding, f.deciding = s.deciding+1, f.deciding+1
	f.begun++
	s.last = f.begun
	close(s.waiting[0].begun)
	s.waiting = s.waiting[1:]
}

// remove removes t, which no longer waits. It returns false when t has begun.
func (f *inFlight) remove(t *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(t.of.waiting, t)
	if i < 0 {
		return false
	}
	t.of.waiting = slices.Delete(t.of.waiting, i, i+1)
	f.end(t)
	return true
}

// leave ends the decision about t, and lets other turns begin.
func (f *inFlight) leave(t *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.of.deciding, f.deciding = t.of.deciding-1, f.deciding-1
	f.end(t)
	f.admit()
}

// admit lets turns that wait begin.
func (f *inFlight) admit() {
	for f.deciding < f.undecided && f.affords(f.deciding) {
		var next *share
		for _, s := range f.bySender {
			if len(s.waiting) > 0 && f.may(s) && (next == nil || s.before(next)) {
				next = s
			}
		}
		if next == nil {
			return
		}
		f.begin(next)
	}
}

func (f *inFlight) end(t *flight) {
	s := t.of
	s.undecided, f.undecided = s.undecided-1, f.undecided-1
	s.bytes, f.bytes = s.bytes-t.bytes, f.bytes-t.bytes
	if s.undecided == 0 {
		delete(f.bySender, s.sender)
	}
}

// before reports whether s precedes o for the next free place.
func (s *share) before(o *share) bool {
	return cmp.Or(cmp.Compare(s.deciding, o.deciding), cmp.Compare(s.last, o.last), s.waiting[0].since.Compare(o.waiting[0].since)) < 0
}

// trouble describes the turns that wait, or returns "".
func (f *inFlight) trouble() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.undecided - f.deciding
	if waiting == 0 {
		return ""
	}
	var oldest time.Time
	var most *share
	for _, s := range f.bySender {
		if len(s.waiting) > 0 && (oldest.IsZero() || s.waiting[0].since.Before(oldest)) {
			oldest = s.waiting[0].since
		}
		if most == nil || s.undecided > most.undecided {
			most = s
		}
	}
	why := ""
	if !f.affords(f.deciding) {
		why = ", which may use up the day's budget"
	}
	return fmt.Sprintf("%d turns wait for a decision since %s, while %d of at most %d are made%s; most are of %s: %d wait, %d are made", waiting,
		oldest.UTC().Format(time.RFC3339), f.deciding, f.most, why, prompt.Clean(most.sender, 64), len(most.waiting), most.deciding)
}
