package learn

import (
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
	learnEvery   = time.Second // what turns teach is gathered for so long, so that however many there are cost about the same
	learnTimeout = 10 * time.Second
	maxLessons   = 4096 // things to be learned or taken back that wait, and agents to be read again
)

// Learner keeps what delegations teach: it lets the router know which agents are good for what, and writes it down. What it misses,
// when the store is away or the process is killed, is a request more that the router has to judge by the cards alone.
type Learner struct {
	notes     storage.Notes // nil: nothing is learned
	transport transport.Transport
	router    *router.Index
	tenant    string
	log       *slog.Logger
	now       func() time.Time

	learned chan struct{} // has a value when something is pending
	told    chan struct{} // the same for changed and erased

	mu      sync.Mutex
	pending map[string]*lesson // by agent
	size    int                // of all of them
	changed map[string]bool    // agents whose notes are to be read again
	erased  map[string]bool    // conversations, as evidenceOf names them
	agents  map[string]known
	dropped int
}

// known is what the router was taught of an agent, and the version of the note that it is from.
type known struct {
	evidence []router.Evidence
	version  conversation.Version
}

// Config is what a Learner needs.
type Config struct {
	Notes     storage.Notes // nil: nothing is learned
	Transport transport.Transport
	Router    *router.Index
	Tenant    string
	Logger    *slog.Logger
	Now       func() time.Time
}

// New returns a Learner that knows nothing yet.
func New(cfg Config) *Learner {
	return &Learner{
		notes: cfg.Notes, transport: cfg.Transport, router: cfg.Router, tenant: cfg.Tenant, log: cfg.Logger, now: cfg.Now,
		pending: map[string]*lesson{}, changed: map[string]bool{}, erased: map[string]bool{}, agents: map[string]known{},
		learned: make(chan struct{}, 1), told: make(chan struct{}, 1),
	}
}

// offer never waits: a lesson more or less matters little, a turn that is held up does.
func (s *Learner) offer(agent string, l *lesson) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+l.size() > maxLessons {
		s.drop(agent)
		return
	}
	p := s.pending[agent]
	if p == nil {
		p = new(lesson)
		s.pending[agent] = p
	}
	s.size -= p.size()
	p.add(l)
	s.size += p.size()
	wake(s.learned)
}

// Forget is told what the store has no longer, see [transport.Forget]. It does not wait either.
func (s *Learner) Forget(e *transport.Event, f *transport.Forget) {
	if s.notes == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changed)+len(s.erased) >= maxLessons {
		s.drop(f.AgentID)
		return
	}
	if f.AgentID != "" {
		if transport.CheckID(f.AgentID) != nil {
			return
		}
		if e.ID == noticeID(s.tenant, f.AgentID, s.agents[f.AgentID].version) {
			return // its own, or nothing new
		}
		s.changed[f.AgentID] = true
	} else {
		gone := &lesson{erased: []string{evidenceOf(s.tenant, e.ContextID)}}
		for _, p := range s.pending {
			s.size -= p.size()
			p.learned = slices.DeleteFunc(p.learned, gone.excludes)
			s.size += p.size()
		}
		s.erased[gone.erased[0]] = true // what is being written now has to go, too
	}
	wake(s.told)
}

// wake leaves a value in c for who waits for it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop notes, with mu held, that there is no room for what is to be known of an agent.
func (s *Learner) drop(agent string) {
	s.dropped++
	if s.dropped%100 == 1 {
		s.log.Warn("what a delegation teaches is lost: the store is slow", "agent", agent, "lost", s.dropped)
	}
}

// Remember teaches the router what is in the store.
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
	return nil
}

// Serve takes what is offered until last is closed, when nothing more can come, and then what is left. What others did is read again at once, what
// turns teach is written once in learnEvery.
func (s *Learner) Serve(ctx context.Context, last <-chan struct{}) {
	learned, pause := s.learned, (<-chan time.Time)(nil)
	for {
		select {
		case <-s.told:
			s.reread(ctx)
		case <-learned:
			learned = nil
			s.write(ctx)
			pause = time.After(learnEvery)
		case <-pause:
			learned = s.learned
		case <-last:
			s.write(ctx)
			s.reread(ctx)
			return
		}
	}
}

// write writes down what is pending.
func (s *Learner) write(ctx context.Context) {
	s.mu.Lock()
	pending := s.pending
	s.pending, s.size = map[string]*lesson{}, 0
	s.mu.Unlock()
	s.each(ctx, pending)
}

// reread takes in what others did.
func (s *Learner) reread(ctx context.Context) {
	s.mu.Lock()
	todo := map[string]*lesson{}
	for agent := range s.changed {
		todo[agent] = new(lesson)
	}
	gone := &lesson{erased: slices.Collect(maps.Keys(s.erased))}
	if len(gone.erased) > 0 {
		for agent, k := range s.agents {
			if slices.ContainsFunc(k.evidence, gone.excludes) {
				todo[agent] = gone
			}
		}
	}
	clear(s.changed)
	clear(s.erased)
	s.mu.Unlock()
	s.each(ctx, todo)
}

// each does one lesson of each agent, as far as there is time.
func (s *Learner) each(ctx context.Context, lessons map[string]*lesson) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), learnTimeout)
	defer cancel()
	for i, agent := range slices.Sorted(maps.Keys(lessons)) {
		err := s.do(ctx, agent, lessons[agent])
		if ctx.Err() != nil {
			s.log.Warn("not learned: the store is slow", "agents", len(lessons)-i, "err", err)
			return
		}
		if err != nil {
			s.log.Warn("not learned", "agent", agent, "err", err)
		}
	}
}

// do brings a lesson into an agent's note, teaches the router what the note has then, and tells other orchestrators.
func (s *Learner) do(ctx context.Context, agent string, l *lesson) error {
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
			continue // it was forgotten, or another orchestrator learned something
		}
		if err != nil {
			return err
		}
		s.teach(agent, after, n.Version)
		return s.tell(ctx, agent, n.Version)
	}
	return errors.New("others were faster at changing it")
}

// tell lets other orchestrators of the tenant know that an agent's note has changed. One that misses it learns the same at its next
// own lesson, or when it begins.
func (s *Learner) tell(ctx context.Context, agent string, v conversation.Version) error {
	err := s.transport.Publish(ctx, transport.Control(s.tenant, transport.Cortex), &transport.Event{
		ID: noticeID(s.tenant, agent, v), Time: s.now(), From: transport.Cortex, Tenant: s.tenant, Payload: &transport.Forget{AgentID: agent},
	})
	if err != nil {
		return fmt.Errorf("learned, but other processes could not be notified: %w", err)
	}
	return nil
}

// noticeID is the id of the event that tells of a version of an agent's note, so that who has it finds nothing to do.
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

// teach lets the router know what an agent's note has.
func (s *Learner) teach(agent string, all []router.Evidence, v conversation.Version) {
	s.mu.Lock()
	if v == 0 {
		delete(s.agents, agent)
	} else {
		s.agents[agent] = known{all, v}
	}
	s.mu.Unlock()
	s.router.Learn(agent, all)
}
