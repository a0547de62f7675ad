package a2a

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Metadata of a message in Cortex: what its client said.
const (
	metaMessage  = "a2a_message_id"
	metaContext  = "a2a_context_id" // when the client has chosen it
	metaMetadata = "a2a_metadata"
)

// record is what the log says of a task.
type record struct {
	id        a2a.TaskID
	place     string               // the conversation
	version   conversation.Version // of its log; 0 when the task is in no log
	exchanges []*exchange
	changes   []change
	local     int        // how many of the last changes are not in the log yet: what this process has just sent
	waiting   []question // what waits for the user
	held      bool       // for a yes, which is Cortex's question and not an agent's
	brief     bool       // texts of it are left out
	size      int        // bytes of what it refers to, as estimated
}

// exchange is a message of a task, and its answer.
type exchange struct {
	id        string // of the message in Cortex
	turn      string
	said      *a2a.Message
	at        time.Time
	answer    *a2a.Message // nil while the turn is open
	answered  time.Time
	asked     bool // the answer is a question
	failed    bool
	canceled  bool
	artifacts []*a2a.Artifact // of the agents
}

// change is a change of a task's state.
type change struct {
	state   a2a.TaskState
	at      time.Time
	version conversation.Version // of the entry that made it; 0 when it is in no log
}

func (r *record) first() *exchange { return r.exchanges[0] }
func (r *record) last() *exchange  { return r.exchanges[len(r.exchanges)-1] }
func (r *record) now() change      { return r.changes[len(r.changes)-1] }

// state returns the state of the task.
func (r *record) state() a2a.TaskState { return r.now().state }

// context returns the id of the task's context, as the client knows it.
func (r *record) context() string {
	return cmp.Or(transport.MetaString(r.first().said, metaContext), r.place)
}

// settled reports whether nothing changes the task but another message.
func (r *record) settled() bool {
	return len(r.changes) > 0 && r.state().Terminal() && r.open() == nil
}

// open returns the first exchange without an answer, or nil.
func (r *record) open() *exchange {
	for _, x := range r.exchanges {
		if x.answer == nil {
			return x
		}
	}
	return nil
}

// exchange returns the one of a message, or nil.
func (r *record) exchange(messageID string) *exchange {
	if r == nil {
		return nil
	}
	for _, x := range r.exchanges {
		if x.id == messageID {
			return x
		}
	}
	return nil
}

// find returns a task of the caller, or an error that wraps a2a.ErrTaskNotFound.
func (s *Server) find(ctx context.Context, c *caller, id a2a.TaskID) (*record, error) {
	contextID, messageID, ok := c.locate(id)
	if !ok {
		return nil, errNoTask(id)
	}
	r, err := s.stored(ctx, c, id)
	if r != nil || err != nil {
		return r, err
	}
	now := c.Clock()
	sent := s.pending.get(id, now)
	if sent != nil && now.Sub(sent.first().at) < storeTime {
		return sent, nil
	}
	// Another replica, or one before a restart, may have taken the message, which nobody has handled since. One that this replica took long ago may have
	// been deleted unread.
	search, ok := c.Transport.(transport.InboxSearch)
	switch {
	case !ok && sent != nil:
		return sent, nil
	case !ok:
		return nil, errNoTask(id)
	}
	waits, err := search.Holds(ctx, transport.Inbox(c.Tenant, transport.Cortex), &transport.Event{ID: messageID, From: c.user(), Tenant: c.Tenant, ContextID: contextID})
	if err != nil {
		return nil, s.away(err)
	}
	switch {
	case waits && sent != nil:
		return sent, nil
	case waits:
		return s.unread(c, id, contextID, messageID), nil
	}
	if r, err = s.stored(ctx, c, id); r == nil && err == nil { // it may have been handled just now
		s.pending.drop(id)
		err = errNoTask(id)
	}
	return r, err
}

// stored returns a task that the store knows, or nil.
func (s *Server) stored(ctx context.Context, c *caller, id a2a.TaskID) (*record, error) {
	contextID, messageID, _ := c.locate(id)
	all, err := s.read(ctx, c, contextID, id)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 && all[0].brief {
		if all, err = s.readWhole(ctx, c, contextID, id); err != nil {
			return nil, err
		}
	}
	for _, r := range all {
		if r.id == id {
			s.pending.drop(id)
			return r, nil
		}
	}
	why, refused, err := storage.RefusalOf(ctx, s.cfg.Store, c.Tenant, contextID, c.user(), messageID)
	if err != nil {
		return nil, s.away(err)
	}
	if refused {
		return s.refused(c, id, contextID, messageID, why), nil
	}
	return nil, nil
}

// unread returns the record of a task whose message is in the inbox. What it says, and the context id that its client has chosen, is known when it is
// handled.
func (s *Server) unread(c *caller, id a2a.TaskID, contextID, messageID string) *record {
	turn := c.ID(client.Turn{ContextID: contextID, From: c.user(), MessageID: messageID})
	return &record{
		id: id, place: contextID, exchanges: []*exchange{{id: messageID, turn: turn, said: &a2a.Message{ID: messageID, Role: a2a.MessageRoleUser}}},
		changes: []change{{state: a2a.TaskStateSubmitted}}, local: 1,
	}
}

// refused returns the record of a task whose message was refused.
func (s *Server) refused(c *caller, id a2a.TaskID, contextID, messageID string, why *a2a.Message) *record {
	said := &a2a.Message{ID: messageID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("")}}
	at := time.Time{}
	if r := s.pending.get(id, c.Clock()); r != nil {
		said, at = r.first().said, r.first().at
	}
	return &record{
		id: id, place: contextID, exchanges: []*exchange{{id: messageID, said: said, at: at, answer: why, answered: at}},
		changes: []change{{state: a2a.TaskStateRejected, at: at}},
	}
}

// apply takes note of what entry e, the last of conv, means for the task.
func (r *record) apply(conv *conversation.Conversation, e *conversation.Entry, user string) {
	if r.settled() {
		return
	}
	r.waiting, r.held = r.waiting[:0], false
	for _, t := range slices.Concat(conv.Held(), conv.Asking()) {
		if slices.ContainsFunc(r.exchanges, func(x *exchange) bool { return x.turn == t.Turn }) {
			q := questionOf(t)
			r.waiting, r.held = append(r.waiting, q), r.held || q.held
		}
	}
	for _, x := range r.exchanges {
		if x.answer != nil {
			continue
		}
		if p, ok := e.Cause.Payload.(*a2a.Task); ok {
			if t := conv.Tasks[p.ID]; t != nil && t.Turn == x.turn && t.Agent == e.Cause.From && p.Status.State == a2a.TaskStateCompleted {
				x.artifacts = append(x.artifacts, p.Artifacts...)
				for _, of := range p.Artifacts {
					if of != nil {
						r.size += recordSize + 2*weigh(of.Parts)
					}
				}
			}
		}
		turn := conv.Turn(x.turn)
		if turn == nil || turn.Open() {
			continue
		}
		if said, ok := conv.AnswerOf(user, x.id); ok {
			x.answer, x.answered, x.failed, x.asked = said, e.Time, turn.Failed, len(r.waiting) > 0
			x.canceled = turn.Failed && turn.Answer == conversation.AnswerCanceled
			r.size += 2 * weigh(said.Parts)
		}
	}
	to := a2a.TaskStateCompleted
	last := r.last()
	switch {
	case r.open() != nil:
		to = a2a.TaskStateWorking
	case len(r.waiting) > 0:
		to = a2a.TaskStateInputRequired
	case last.canceled, last.asked:
		to = a2a.TaskStateCanceled
	case last.failed:
		to = a2a.TaskStateFailed
	}
	if len(r.changes) == 0 || r.state() != to {
		r.changes = append(r.changes, change{to, e.Time, e.Version})
	}
}

// weigh returns what parts take in memory, in bytes.
func weigh(parts a2a.ContentParts) int {
	n := int(partsSize(parts))
	for _, p := range parts {
		if p == nil {
			continue
		}
		n += recordSize
		if b, ok := p.Content.(a2a.Raw); ok {
			n += len(b)
		}
	}
	return n
}

// away returns the error for a call while the store cannot be read.
func (s *Server) away(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	s.cfg.Logger.Warn("a task cannot be read", "err", err)
	if errors.Is(err, conversation.ErrDamaged) {
		return a2a.NewError(a2a.ErrInternalError, "the log of the conversation is damaged: `cortex doctor` says more")
	}
	return a2a.NewError(a2a.ErrServerError, "the store of Cortex cannot be read now: try again later")
}

func errNoTask(id a2a.TaskID) error {
	return a2a.NewError(a2a.ErrTaskNotFound, "there is no task "+quoted(string(id)))
}
