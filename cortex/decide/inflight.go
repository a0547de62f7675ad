package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// MaxDecisions is how many decisions can be made at a time.
	MaxDecisions = 2048

	// What is undecided is being decided or waits for that, in a handler of its event. Of the [transport.DefaultConcurrency] handlers, and
	// of the bytes that a transport holds, the rest is for events that nothing is decided about.
	maxUndecided      = 3072
	maxUndecidedBytes = 40 << 20

	// oneShare bounds what one sender may have of each, as a multiple of what is free: it is three quarters when nobody else has any. So there
	// is always room for somebody who has nothing, and the more have something, the less is each one's.
	oneShare = 3

	inFlightTold = 10 * time.Second // between two warnings of the same kind
)

// inFlight bounds the decisions that are made at a time, since each may have a connection to a model. The others wait in the handlers of
// their events, which keep the order of their conversations and hold no file. What is free goes to who has the fewest, and among equals to
// who has waited longest. It is safe for concurrent use.
type inFlight struct {
	most    int
	refuses bool // who has too much. Without keys anybody can use up another's share, and everybody only waits

	log           *slog.Logger
	waits, refuse rate.Sometimes // to be told

	mu        sync.Mutex
	bySender  map[string]*share
	deciding  int
	undecided int
	bytes     int // of the events that are undecided
}

// share is what one sender has in flight.
type share struct {
	sender    string
	deciding  int
	undecided int
	bytes     int
	waiting   []*flight // in the order of their coming
}

// flight is a turn that something is to be decided about.
type flight struct {
	of    *share
	bytes int
	since time.Time
	begun chan struct{} // closed when it need not wait any more
}

func newInFlight(cfg *Config) *inFlight {
	told := func() rate.Sometimes { return rate.Sometimes{First: 1, Interval: inFlightTold} }
	return &inFlight{most: cfg.Decisions, refuses: cfg.Authenticated, log: cfg.Logger, waits: told(), refuse: told(), bySender: map[string]*share{}}
}

// enter waits until a decision may be made that e has asked for, of a turn whose chain sender began. The caller then ends it with leave; waited
// says that time has gone by. It returns the cause of ctx when that ends before, or a [conversation.Failure] when the sender has too much: not for an
// event that comes again, since it was let in before.
func (f *inFlight) enter(ctx context.Context, sender string, e *transport.Event, now time.Time) (leave func(), waited bool, err error) {
	t := &flight{since: now, begun: make(chan struct{})}
	if f.refuses {
		b, _ := json.Marshal(e.Payload) // as it is held
		t.bytes = len(b)
	}
	if err := f.add(t, sender, e.Delivery > 1); err != nil {
		return nil, false, err
	}
	leave = func() { f.leave(t) }
	select {
	case <-t.begun:
		return leave, false, nil
	default:
	}
	select {
	case <-t.begun:
		return leave, true, nil
	case <-ctx.Done():
	}
	if !f.remove(t) {
		leave()
	}
	return nil, true, context.Cause(ctx)
}

// add lets t begin, or wait.
func (f *inFlight) add(t *flight, sender string, again bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.of = cmp.Or(f.bySender[sender], &share{sender: sender})
	s := t.of
	full := s.undecided >= oneShare*(maxUndecided-f.undecided) || s.bytes >= oneShare*(maxUndecidedBytes-f.bytes)
	if f.refuses && full && !again && s.undecided > 0 {
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
		f.begin(s)
		return nil
	}
	f.waits.Do(func() {
		f.log.Warn("turns wait for a decision: the model is slow, or somebody asks for much", "waiting", f.undecided-f.deciding, "deciding", f.deciding,
			"at_most", f.most, "sender", prompt.Clean(sender, maxAsked), "of_sender", s.deciding)
	})
	return nil
}

// may reports whether a sender may have one more decision made.
func (f *inFlight) may(s *share) bool { return s.deciding < oneShare*(f.most-f.deciding) }

// begin lets the first one that waits begin.
func (f *inFlight) begin(s *share) {
	s.deciding, f.deciding = s.deciding+1, f.deciding+1
	close(s.waiting[0].begun)
	s.waiting = s.waiting[1:]
}

// remove takes out t, which does not want to wait any more. It reports false when it has begun.
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

// leave ends the decision about t, and lets those begin that may now.
func (f *inFlight) leave(t *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.of.deciding, f.deciding = t.of.deciding-1, f.deciding-1
	f.end(t)
	for f.deciding < f.undecided {
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

// before reports whether s, rather than o, is the next one to have a decision made.
func (s *share) before(o *share) bool {
	return cmp.Or(cmp.Compare(s.deciding, o.deciding), s.waiting[0].since.Compare(o.waiting[0].since)) < 0
}

// trouble tells people of turns that wait, or returns "".
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
	return fmt.Sprintf("%d turns wait for a decision since %s, while %d of at most %d are made; most are of %s: %d wait, %d are made", waiting,
		oldest.UTC().Format(time.RFC3339), f.deciding, f.most, prompt.Clean(most.sender, 64), len(most.waiting), most.deciding)
}
