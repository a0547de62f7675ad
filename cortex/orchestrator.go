package cortex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Limits of a turn.
const (
	MaxSteps     = 8  // decisions; the last one may only answer
	MaxParallel  = 8  // tasks of one decision
	MaxOpenTurns = 32 // unanswered messages of one conversation
	MaxHops      = 4  // agents that hand a request on to each other
	MaxAgents    = 40 // agents that a prompt shows all of; of more, a shortlist

	// MaxEntries is how long the log of a conversation can get: then new messages are refused, and what is open ends.
	MaxEntries = 100_000
)

// Config is what an Orchestrator needs. The first four fields are required.
type Config struct {
	Transport transport.Transport
	Store     Store
	Decider   llm.Decider
	// Agents returns the agents that may be given work now, in the order of their ids. It is called once a decision, and when
	// work is tried again. What it returned is not changed afterwards, nor are the cards.
	Agents func(tenant string) []prompt.Agent
	// Router finds the agents that fit a request; it has to know the agents that Agents returns. nil: prompts show all agents,
	// however many there are.
	Router *router.Index
	// Shortlist is how many agents a prompt shows when there are more than [MaxAgents], beside those that are in use or named;
	// 0 is 20.
	Shortlist int
	// NoLearning says that delegations teach the Router nothing. Else what they teach is kept by a Store that is a [Notes].
	NoLearning bool
	// Policy returns the rules in force: who may ask which agents, and how often. nil, or a nil Policy, allows everything.
	Policy func() *policy.Policy

	Tenant string // "" is the default tenant
	// Authenticated says that senders have proven who they are. A conversation then belongs to whoever began it, see
	// [Conversation.Admits]. Else everybody may speak everywhere.
	Authenticated bool
	// Label says in the list of replicas which process this is, see [transport.SubscribeOptions].
	Label string
	// TaskTimeout is how long an agent may take for a task; 0 is 5 minutes.
	TaskTimeout time.Duration
	// GoneGrace is how long an agent that has gone may take to come back before its tasks are given to others; 0 is 10 seconds.
	GoneGrace time.Duration
	// ReplyTimeout is how long an agent's question waits for the user; 0 is 24 hours.
	ReplyTimeout time.Duration
	// DecideTimeout is how long a decision may take, with the summaries made for it; 0 is 2 minutes. A Decider that goes on though its
	// context has ended is left behind a little later; when too many are, nothing is decided any more.
	DecideTimeout time.Duration
	// Budget bounds what is spent on models. A Budget.Day needs a Store that is a [Ledger].
	Budget Budget

	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is time.Now
	NewID  func() string    // names what is not derived from a log; nil is a random UUID
}

// Orchestrator runs the turns of a tenant's conversations. Make one with New and let it work with Run.
type Orchestrator struct {
	cfg        Config
	log        *slog.Logger
	cache      *cache
	unstored   *unstored
	book       *book
	places     *places
	departures *departures
	stats      counters
	owned      atomic.Pointer[[]int]
	offers     offers
	school     *school
	interrupts *interrupts
	stuck      stuck
	rates      *rates
	inbox      atomic.Pointer[transport.Subscription]
}

// New returns an Orchestrator. It does no I/O. An error names the field that is missing or wrong.
func New(cfg Config) (*Orchestrator, error) {
	switch {
	case cfg.Transport == nil:
		return nil, errors.New("cortex: Config.Transport is missing")
	case cfg.Store == nil:
		return nil, errors.New("cortex: Config.Store is missing")
	case cfg.Decider == nil:
		return nil, errors.New("cortex: Config.Decider is missing")
	case cfg.Agents == nil:
		return nil, errors.New("cortex: Config.Agents is missing")
	case cfg.TaskTimeout < 0, cfg.GoneGrace < 0, cfg.ReplyTimeout < 0, cfg.DecideTimeout < 0:
		return nil, errors.New("cortex: Config.TaskTimeout, GoneGrace, ReplyTimeout or DecideTimeout is negative")
	}
	if err := cfg.Budget.check(); err != nil {
		return nil, err
	}
	if _, ok := cfg.Store.(Ledger); !ok && cfg.Budget.Day != (llm.Budget{}) {
		return nil, errors.New("cortex: Config.Budget.Day is set, but the Store keeps no account of a day")
	}
	if cfg.TaskTimeout == 0 {
		cfg.TaskTimeout = 5 * time.Minute
	}
	if cfg.GoneGrace == 0 {
		cfg.GoneGrace = 10 * time.Second
	}
	if cfg.ReplyTimeout == 0 {
		cfg.ReplyTimeout = 24 * time.Hour
	}
	if cfg.DecideTimeout == 0 {
		cfg.DecideTimeout = 2 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = uuid.NewString
	}
	return &Orchestrator{
		cfg: cfg, log: cfg.Logger, cache: newCache(), unstored: newUnstored(), book: newBook(&cfg), places: newPlaces(),
		departures: newDepartures(cfg.Now), school: newSchool(&cfg), interrupts: newInterrupts(), rates: newRates(),
	}, nil
}

// Run takes events from the inbox of the orchestrator until ctx ends, and returns nil then. Events that are being handled
// go back to the inbox. It returns an error when the transport gives up. Run is called once.
func (o *Orchestrator) Run(ctx context.Context) error {
	if err := o.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func (o *Orchestrator) run(ctx context.Context) error {
	if err := o.school.remember(ctx); err != nil {
		return err
	}
	inbox, err := o.cfg.Transport.Subscribe(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.SubscribeOptions{
		Label: o.cfg.Label, OnOwned: func(p []int) { o.owned.Store(&p) }, OnGivenUp: o.givenUp,
	})
	if err != nil {
		return fmt.Errorf("subscribe to the inbox: %w", err)
	}
	defer inbox.Close()
	o.inbox.Store(&inbox)
	control, err := o.cfg.Transport.Subscribe(ctx, transport.Control(o.cfg.Tenant, transport.Cortex), nil)
	if err != nil {
		return fmt.Errorf("subscribe to control: %w", err)
	}
	defer control.Close()

	var writer sync.WaitGroup
	defer writer.Wait()
	handled := make(chan struct{}) // everything, so that nothing more will be spent
	defer close(handled)
	writer.Go(func() { o.book.serve(ctx, handled) })
	writer.Go(func() { o.school.serve(ctx, handled) })

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return inbox.Serve(gctx, o.handle) })
	g.Go(func() error { return control.Serve(gctx, o.interrupt) })
	g.Go(func() error {
		o.departures.serve(gctx, o.tellGone)
		return nil
	})
	return g.Wait()
}

// Owned returns the [transport.Partitions] whose conversations this orchestrator handles now, in their order; nil before Run, or
// when the transport does not tell. It is safe for concurrent use.
func (o *Orchestrator) Owned() []int {
	if p := o.owned.Load(); p != nil {
		return *p
	}
	return nil
}

// handle takes one event of a conversation through a turn's steps: fold, recognise, decide, append, send. It returns nil,
// which acknowledges the event, only after everything that follows from it has been sent.
func (o *Orchestrator) handle(ctx context.Context, e *transport.Event) error {
	return o.take(ctx, e, "")
}

// take is handle, with what to end the turn with instead of a decision, or "".
func (o *Orchestrator) take(ctx context.Context, e *transport.Event, instead string) error {
	if err := transport.ForCortex(e); err != nil {
		return transport.Permanent(err) // see givenUp
	}
	var conflictAt Version
	var spent llm.Usage // on decisions of entries that were not stored
	var lost *lostEntry // that came second
	var left *stuckError
	key := unstoredKey{o.cfg.Tenant, e.ContextID, eventKey(e)}
	for range maxRounds {
		conv, fresh, err := o.fold(ctx, e)
		if errors.Is(err, ErrDamaged) {
			return transport.Permanent(fmt.Errorf("%w: %w", err, &failure{saidOfDamaged})) // it can be replayed when the store is repaired
		}
		if err != nil {
			return err
		}
		now := o.cfg.Now() // one reading: a clock may step back between two
		if _, ok := e.Payload.(*transport.Deadline); ok {
			conv.timer = time.Time{}
		}
		if conflictAt != 0 && conv.Version == conflictAt {
			// Nothing new to load, and yet a conflict: the snapshot is not of this log.
			if conv, err = loadLog(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID); err != nil {
				return err
			}
			conv.epoch = e.Epoch
		}
		if seq, ok := conv.SeenEntry(e); ok {
			o.unstored.take(key) // it was stored after all, or another one was
			err := o.send(ctx, conv, seq)
			o.cache.put(conv)
			return err
		}
		if _, ok := userMessage(e); ok && conv.Seq >= MaxEntries {
			if !fresh { // nor on that of one which was erased
				continue // it is not in the cache: the next round loads it
			}
			o.cache.put(conv)
			return transport.Permanent(fmt.Errorf("it has %d entries: %w", conv.Seq,
				&failure{"This conversation is full. Begin another one with /new, and say it again there."}))
		}
		if why := o.bars(conv, e); why != "" {
			if !fresh { // it may have been shared since, or be another one
				continue
			}
			return o.bar(ctx, conv, e, why, now)
		}
		if why := conv.overrun(e); why != "" {
			return o.bar(ctx, conv, e, why, now)
		}
		if why := conv.idle(e, now); why != "" {
			// Nothing may be acknowledged on the strength of a cache that could be stale.
			cached := conv.Version
			if !fresh {
				if err := catchUp(ctx, o.cfg.Store, conv); err != nil {
					return err
				}
			}
			if conv.Version == cached {
				o.unstored.take(key)
				return o.ignore(ctx, conv, e, why, now)
			}
			o.cache.put(conv)
			continue
		}
		after := conv.Version
		entry := &Entry{Seq: conv.Seq + 1, Time: now, Cause: e, Failure: instead, Usage: spent}
		if entry.Seq == 1 {
			entry.Life = transport.TurnID(o.cfg.Tenant, e.ContextID, e.From, e.ID)
		}
		if kept := o.unstored.take(key); kept != nil && kept.after == after && instead == "" {
			entry = kept.entry // only to be stored
		} else if kept != nil {
			entry.Usage = entry.Usage.Add(kept.entry.spent())
		} else if lost == nil && instead == "" { // else it was let through before
			if why := o.overRate(conv, e); why != "" {
				return o.bar(ctx, conv, e, why, now)
			}
		}
		err = o.advance(ctx, conv, entry, now, lost)
		spent = entry.spent()
		switch {
		case errors.Is(err, ErrConflict):
			o.stats.Conflicts.Add(1)
			conflictAt, lost = after, &lostEntry{entry, conv}
			continue // conv is not in the cache: the next round loads it
		case errors.As(err, &left):
			instead = left.text
			continue // with another conv: what was left behind has this one
		case errors.Is(err, errUnstorable) && instead == "":
			o.log.Error("entry not stored", "context_id", e.ContextID, "err", err)
			instead = "What came of this does not fit into the conversation's log."
			continue
		case errors.Is(err, errUnstorable):
			return transport.Permanent(fmt.Errorf("%w: %w", err, &failure{"The message is too large to be kept."})) // it will not fit the next time either
		}
		return err
	}
	if lost != nil { // what it cost counts when the event comes again
		o.unstored.put(lost.conv, conflictAt, lost.entry, o.cfg.Now())
	}
	return transport.Temporary(fmt.Errorf("handle %s in %s: %w, again and again", e.ID, e.ContextID, ErrConflict))
}

// saidOfDamaged is what a user is told whose conversation cannot be read.
const saidOfDamaged = "The record of this conversation is damaged, so that it cannot go on. Begin another one with /new, and say it again there. " +
	"`cortex doctor` tells whoever runs Cortex what is lost, and repairs the rest."

// errUnstorable marks an entry that no store will keep.
var errUnstorable = errors.New("entry cannot be stored")

// advance completes the entry for an event, adds it to the log and sends what follows from it. With a failure nothing is
// decided: the turn ends with it. Nor with a decision, which an entry has that could not be stored at first.
// now is later than entry.Time when it could not be stored at first, and lost is an entry for the event that came second, or nil.
func (o *Orchestrator) advance(ctx context.Context, conv *Conversation, entry *Entry, now time.Time, lost *lostEntry) error {
	after, e := conv.Version, entry.Cause
	entry.Turn = conv.turnOf(e, entry.Time)
	entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
	if r, ok := resultOf(e); ok && r.State == a2a.TaskStateInputRequired {
		entry.ReplyBy = now.Add(o.cfg.ReplyTimeout)
	}
	if entry.Decision == nil && entry.Failure == "" { // else it is complete already
		entry.Rejected = conv.reject(e)
		entry.Withheld = o.withhold(conv, e)
		entry.Retries = o.retries(conv, entry)
	}
	if err := conv.applyCause(entry); err != nil {
		return err
	}
	var shown []string
	if turn := conv.turn(entry.Turn); turn != nil && turn.Open() && !conv.outstanding(turn) {
		shown = o.show(ctx, conv, entry.Seq)
		if entry.Failure == "" && entry.Decision == nil {
			if o.unstored.full(now) {
				return transport.Temporary(fmt.Errorf("nothing is decided in %s: too many entries wait for the store", conv.ContextID))
			}
			if err := o.decide(ctx, conv, turn, entry, lost); err != nil {
				return err
			}
			// A decision takes its time, which is not the agents'. What is decided about has sent nothing yet.
			if decided := o.cfg.Now(); decided.After(now) {
				now = decided
			}
			entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
		}
	}
	entry.due(now, o.cfg.ReplyTimeout)
	version, err := o.cfg.Store.Append(ctx, conv.Tenant, conv.ContextID, after, entry)
	switch {
	case errors.Is(err, transport.ErrTooLarge), errors.Is(err, transport.ErrInvalid):
		return fmt.Errorf("%w: %w", errUnstorable, err)
	case err != nil:
		if !errors.Is(err, ErrConflict) {
			o.unstored.put(conv, after, entry, now)
		}
		return transport.Temporary(fmt.Errorf("append to %s: %w", conv.ContextID, err))
	}
	entry.Version = version
	conv.applyDecision(entry)
	conv.Version = version
	o.stats.Entries.Add(1)
	o.track(conv)
	o.count(conv, entry)
	if err := o.send(ctx, conv, entry.Seq, shown...); err != nil {
		o.cache.put(conv) // it stands for the log, and the event comes again
		return err
	}
	o.learn(conv, entry) // behind what others wait for
	o.keep(ctx, conv)
	return nil
}
