package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	learnEvery   = time.Second // evidence is collected for this long, so that the cost hardly depends on the number of turns
	learnTimeout = 10 * time.Second
	maxLessons   = 4096 // waiting changes of evidence, and agents to read again

	// A note is written whole, so evidence of an agent that has much is collected until it is more than one part in this many, or for longer.
	learnShare = 16
	learnLate  = 15 * time.Second

	rereadAgain = 15 * time.Second // after notes that could not be read again
)

// Learner learns from delegations: it teaches the router which agents are good for what, and stores the evidence. It may lose evidence when the store
// is unavailable or the process is killed; then the router judges a few more requests by the cards alone.
type Learner struct {
	notes     storage.Notes // nil: nothing is learned
	transport transport.Transport
	router    *router.Index
	tenant    string
	log       *slog.Logger
	now       func() time.Time

	learned chan struct{} // has an element when evidence is pending
	told    chan struct{} // has an element when changed or erased is not empty

	mu      sync.Mutex
	pending map[string]*lesson // by agent
	size    int                // of all pending lessons
	changed map[string]bool    // agents whose notes have to be read again
	erased  map[string]bool    // hashes of evidenceOf
	agents  map[string]known
	records map[string]skills // by agent
	dropped int
	unused  int // lessons for which the router had no room
	unread  int // changes that are not read again
	unnoted int // outcomes of agents for which there was no room
}

// known is what the router was taught about an agent, and the version of the note that it came from.
type known struct {
	from    []string // the conversations of the evidence; it may be there several times, or ""
	version conversation.Version
}

// Config has the dependencies of a Learner.
type Config struct {
	Notes     storage.Notes // nil: nothing is learned
	Transport transport.Transport
	Router    *router.Index
	Tenant    string
	Logger    *slog.Logger
	Now       func() time.Time
}

// New returns a Learner that has learned nothing yet.
func New(cfg Config) *Learner {
	return &Learner{
		notes: cfg.Notes, transport: cfg.Transport, router: cfg.Router, tenant: cfg.Tenant, log: cfg.Logger, now: cfg.Now,
		pending: map[string]*lesson{}, changed: map[string]bool{}, erased: map[string]bool{}, agents: map[string]known{}, records: map[string]skills{},
		learned: make(chan struct{}, 1), told: make(chan struct{}, 1),
	}
}

// offer queues a lesson. It never waits, and drops the lesson when the queue is full: a delayed turn would be worse than lost evidence.
func (s *Learner) offer(agent string, l *lesson) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+l.size() > maxLessons {
		s.drop(agent)
		return
	}
	p := s.pending[agent]
	if p == nil {
		p = &lesson{since: s.now()}
		s.pending[agent] = p
	}
	s.size -= p.size()
	p.add(l)
	s.size += p.size()
	wake(s.learned)
}

// Forget handles the event that the store has erased something; see [transport.Forget]. It does not wait.
func (s *Learner) Forget(e *transport.Event, f *transport.Forget) {
	if s.notes == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changed)+len(s.erased) >= maxLessons {
		s.tooMuch("agent", f.AgentID, "context_id", e.ContextID)
		return
	}
	if f.AgentID != "" {
		if transport.CheckID(f.AgentID) != nil {
			return
		}
		if e.ID == noticeID(s.tenant, f.AgentID, s.agents[f.AgentID].version) {
			return // an event of its own, or a known version
		}
		s.changed[f.AgentID] = true
	} else {
		gone := &lesson{erased: []string{evidenceOf(s.tenant, e.ContextID)}}
		for _, p := range s.pending {
			s.size -= p.size()
			p.learned = slices.DeleteFunc(p.learned, gone.excludes)
			s.size += p.size()
		}
		s.erased[gone.erased[0]] = true // erase it from lessons that are being written, too
	}
	wake(s.told)
}

// wake puts an element into c, unless it has one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop counts lost lessons, and logs some. mu is held.
func (s *Learner) drop(agent string) {
	s.dropped++
	if s.dropped%100 == 1 {
		s.log.Warn("what a delegation teaches is lost: the store is slow", "agent", agent, "lost", s.dropped)
	}
}

// tooMuch says that what others have changed, or deleted, is not read again, as too much waits for the store. mu is held.
func (s *Learner) tooMuch(of ...any) {
	s.unread++
	if s.unread%100 == 1 {
		s.log.Warn("what was learned and has changed, or was deleted, is used until a restart: the store is slow", append(of, "so_far", s.unread)...)
	}
}

// Remember teaches the router the evidence in the store.
func (s *Learner) Remember(ctx context.Context) error {
	if s.notes == nil {
		return nil
	}
	for n, err := range s.notes.Notes(ctx, s.tenant, storage.NoteEvidence) {
		if err != nil {
			return fmt.Errorf("what was learned about agents: %w", err)
		}
		s.teach(n.Key, s.read(&n), n.Version)
	}
	if err := s.rememberRecords(ctx); err != nil {
		return fmt.Errorf("how agents have done their tasks: %w", err)
	}
	return nil
}

// Serve handles queued lessons until last is closed, after which no more may be queued, and then handles the rest. It rereads notes that others
// changed at once, and writes lessons once in learnEvery.
func (s *Learner) Serve(ctx context.Context, last <-chan struct{}) {
	learned, pause, again := s.learned, (<-chan time.Time)(nil), (<-chan time.Time)(nil)
	reread := func() {
		if again = nil; !s.reread(ctx) {
			again = time.After(rereadAgain)
		}
	}
	for {
		select {
		case <-s.told:
			reread()
		case <-again:
			reread()
		case <-learned:
			learned = nil
			s.write(ctx, false)
			pause = time.After(learnEvery)
		case <-pause:
			learned = s.learned
		case <-last:
			s.write(ctx, true)
			s.reread(ctx)
			return
		}
	}
}

// write writes the pending lessons: all, or those that are worth it.
func (s *Learner) write(ctx context.Context, all bool) {
	s.mu.Lock()
	pending, later := s.pending, map[string]*lesson{}
	all = all || s.size > maxLessons/2
	s.size = 0
	for agent, l := range pending {
		if !all && l.waits(len(s.agents[agent].from)) && s.now().Sub(l.since) < learnLate {
			rest := *l
			rest.outcomes = nil
			later[agent] = &rest
			s.size += rest.size()
			pending[agent] = &lesson{outcomes: l.outcomes} // of a note that is small
		}
		if pending[agent].size() == 0 { // each would read its notes
			delete(pending, agent)
		}
	}
	s.pending = later
	if len(later) > 0 {
		wake(s.learned)
	}
	s.mu.Unlock()
	s.each(ctx, pending)
}

// reread reads the notes that others changed. It reports whether it has read all; what it has not is due again, since it may be what people have deleted.
func (s *Learner) reread(ctx context.Context) (all bool) {
	s.mu.Lock()
	todo := map[string]*lesson{}
	for agent := range s.changed {
		todo[agent] = new(lesson)
	}
	gone := &lesson{erased: slices.Collect(maps.Keys(s.erased))}
	if len(gone.erased) > 0 {
		for agent, k := range s.agents {
			if slices.ContainsFunc(k.from, func(from string) bool { return from != "" && s.erased[from] }) {
				todo[agent] = gone
			}
		}
	}
	clear(s.changed)
	clear(s.erased)
	s.mu.Unlock()
	left := s.each(ctx, todo)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, agent := range left {
		if todo[agent] == gone {
			for _, from := range gone.erased {
				s.erased[from] = true
			}
			continue
		}
		s.changed[agent] = true
	}
	return len(left) == 0
}

// each does the lessons, one for each agent, until learnTimeout. It returns the agents of those that it could not do.
func (s *Learner) each(ctx context.Context, lessons map[string]*lesson) (left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnTimeout)
	defer cancel()
	var why error
	agents := slices.Sorted(maps.Keys(lessons))
	for i, agent := range agents {
		err := s.do(ctx, agent, lessons[agent])
		if err != nil && ctx.Err() != nil {
			s.log.Warn("not learned: the store is slow", "agents", len(lessons)-i, "err", err)
			return append(left, agents[i:]...)
		}
		if err != nil {
			why = cmp.Or(why, err)
			left = append(left, agent)
		}
	}
	if len(left) > 0 {
		s.log.Warn("not learned", "agent", left[0], "agents", len(left), "err", why)
	}
	return left
}

// do applies a lesson to an agent's note, teaches the router the result, and notifies other orchestrators.
func (s *Learner) do(ctx context.Context, agent string, l *lesson) error {
	if reads := l.size() == 0; reads || len(l.outcomes) > 0 {
		if err := s.doRecords(ctx, agent, l.outcomes); err != nil {
			return err
		}
		if l.outcomes = nil; !reads && l.size() == 0 {
			return nil
		}
	}
	for range learnTries {
		n, err := s.notes.Note(ctx, s.tenant, storage.NoteEvidence, agent)
		if err != nil {
			return err
		}
		if l.size() == 0 {
			s.teach(agent, s.read(&n), n.Version)
			return nil
		}
		before := s.read(&n)
		after := l.merge(before, s.now())
		if slices.Equal(before, after) {
			s.teach(agent, after, n.Version)
			return nil
		}
		if after, err = writeEvidence(&n, after); err == nil {
			put := s.notes.PutNote
			if slices.ContainsFunc(before, (&lesson{erased: l.erased}).excludes) {
				put = s.notes.EraseNote
			}
			n.Version, err = put(ctx, s.tenant, storage.NoteEvidence, n)
		}
		if errors.Is(err, storage.ErrConflict) {
			continue // the note was erased, or another orchestrator has changed it
		}
		if err != nil {
			return err
		}
		s.teach(agent, after, n.Version)
		return s.tell(ctx, agent, n.Version)
	}
	return errors.New("others were faster at changing it")
}

// tell notifies the other orchestrators of the tenant that an agent's note has changed. One that misses the event reads the note with its own next
// lesson about the agent, or when it starts.
func (s *Learner) tell(ctx context.Context, agent string, v conversation.Version) error {
	err := s.transport.Publish(ctx, transport.Control(s.tenant, transport.Cortex), &transport.Event{
		ID: noticeID(s.tenant, agent, v), Time: s.now(), From: transport.Cortex, Tenant: s.tenant, Payload: &transport.Forget{AgentID: agent},
	})
	if err != nil {
		return fmt.Errorf("learned, but other processes could not be notified: %w", err)
	}
	return nil
}

// noticeID derives the id of the notification from the version of the note, so that an orchestrator ignores repeated ones.
func noticeID(tenant, agent string, v conversation.Version) string {
	return uuid.NewSHA1(conversation.IDSpace, fmt.Appendf(nil, "learned %q %q %d", tenant, agent, v)).String()
}

func (s *Learner) read(n *storage.Note) []router.Evidence {
	all, err := readEvidence(n)
	if err != nil {
		s.log.Warn("what was learned about an agent cannot be read", "agent", n.Key, "err", err)
	}
	return all
}

// teach teaches the router the content of an agent's note. It says from time to time that the router has no room for all of it.
func (s *Learner) teach(agent string, all []router.Evidence, v conversation.Version) {
	whole := s.router.Learn(agent, all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !whole {
		s.unused++
		if s.unused%100 == 1 {
			s.log.Warn("what was learned of an agent is not all used: there is too much of all agents", "agent", agent, "so_far", s.unused)
		}
	}
	if v == 0 {
		delete(s.agents, agent)
		return
	}
	from := make([]string, len(all))
	for i := range all {
		from[i] = all[i].Conversation
	}
	s.agents[agent] = known{from, v}
}
