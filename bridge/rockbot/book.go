package rockbot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// How long tasks are remembered.
const (
	sentFor   = 10 * time.Minute // after their results were given to Cortex, which stores them
	lostFor   = 24 * time.Hour   // when nobody asks for them any more
	askedFor  = 30 * 24 * time.Hour
	sweepEach = time.Minute
	scanEach  = 200 * time.Millisecond // between two searches for tasks of other replicas, at most
	scanShare = 9                      // times as long as a search took, which is how long the next one waits
)

// maxNoted bounds what is kept of a result in a note, in bytes. Text beyond it is lost when Cortex is killed just then.
const maxNoted = 200 << 10

// errForgotten is the error of a task whose conversation was deleted: nothing of it is noted again.
var errForgotten = errors.New("the conversation of the task was deleted")

// outcome is what an agent has answered.
type outcome struct {
	State     state             `json:"state"`
	Text      string            `json:"text,omitempty"`
	Data      []json.RawMessage `json:"data,omitempty"`
	Artifacts []artifact        `json:"artifacts,omitempty"`
	Theirs    string            `json:"theirs,omitempty"` // context of the agent
	ID        string            `json:"id,omitempty"`     // of the message
}

// fit returns the outcome as it fits into a note.
func (o *outcome) fit() *outcome {
	size := func() int {
		b, _ := json.Marshal(o) // it always can
		return len(b)
	}
	if size() <= maxNoted {
		return o
	}
	few := *o
	o = &few
	if o.Artifacts = nil; size() > maxNoted {
		o.Data = nil
	}
	for most := maxNoted; size() > maxNoted; most /= 2 {
		o.Text = shorten.Marked(o.Text, most/2, "…")
	}
	return o
}

// sent is a task that an agent of RockBot has, or is about to get. The exported fields are its note.
type sent struct {
	ID        string     `json:"id"` // the task's, for the agent
	Task      a2a.TaskID `json:"task"`
	Context   string     `json:"context"`
	Message   string     `json:"message"` // that was given to the agent last: a reply is another one than the task
	Agent     string     `json:"agent"`
	Theirs    string     `json:"theirs,omitempty"`
	Asked     string     `json:"asked,omitempty"` // the message with the agent's last question
	At        time.Time  `json:"at"`
	Confirmed bool       `json:"confirmed,omitempty"` // RabbitMQ has it
	Result    *outcome   `json:"result,omitempty"`

	version conversation.Version
	task    *agents.Task  // that waits for the result; nil: nobody does
	came    chan struct{} // closed when there is a result
	over    time.Time     // when nobody waited for it any more
}

func (s *sent) key() string { return s.Context + "." + s.ID }

// book has the tasks that agents of RockBot have, with a note for each: an answer comes to whoever reads the queue then, and may come after a restart. It
// is safe for concurrent use.
type book struct {
	b     *bridge
	notes storage.Notes

	turn  *semaphore.Weighted // of who stores a note
	began time.Time           // when the notes were read last; of whoever has the turn

	mu   sync.Mutex
	by   map[string]*sent
	scan time.Time // when the notes may be read again
}

// read takes over the tasks of an earlier process, or of another replica.
func (k *book) read(ctx context.Context) error { return k.readSince(ctx, time.Now()) }

// readSince is read, unless that has begun since then.
func (k *book) readSince(ctx context.Context, then time.Time) error {
	if err := k.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.turn.Release(1)
	if k.began.After(then) {
		return nil
	}
	began := time.Now()
	for n, err := range k.notes.Notes(ctx, k.b.at.Tenant, storage.NoteSent) {
		if err != nil {
			return fmt.Errorf("read the notes of tasks: %w", err)
		}
		s := &sent{}
		if json.Unmarshal(n.Value, s) != nil || s.key() != n.Key {
			k.b.unread(storage.NoteSent, n.Key, "the task fails when Cortex asks for it")
			continue
		}
		k.mu.Lock()
		if old := k.by[s.ID]; old == nil {
			s.version, s.came = n.Version, make(chan struct{})
			if s.Result != nil {
				close(s.came)
			}
			k.by[s.ID] = s
		}
		k.mu.Unlock()
	}
	k.mu.Lock()
	now := time.Now()
	k.began, k.scan = began, now.Add(min(scanEach, scanShare*now.Sub(began)))
	k.mu.Unlock()
	return nil
}

// idOf returns the id that a task has for the agent: the same when the task is delivered again, and another one for its next attempt.
func idOf(t *agents.Task) string { return space.Hex("task", t.ContextID, string(t.ID), t.Message.ID) }

// begin returns what is known of a task that Cortex gives to an agent; it notes what is new. A reply continues the task with the question.
func (k *book) begin(ctx context.Context, t *agents.Task, agent string) (*sent, error) {
	if err := k.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer k.turn.Release(1)
	s := k.continued(t, agent)
	k.mu.Lock()
	if s == nil {
		s = k.by[idOf(t)]
	}
	if s != nil {
		same := s.Message == t.Message.ID || s.Result == nil // else it is worked on, and this is an older message, or another attempt
		s.task, s.over = t, time.Time{}
		if same {
			k.mu.Unlock()
			return s, nil
		}
		// The reply to a question. The question may come again, see answer.
		s.Message, s.Asked, s.Theirs, s.Result, s.Confirmed = t.Message.ID, s.Result.ID, s.Result.Theirs, nil, false
		s.came = make(chan struct{})
		k.mu.Unlock()
		return s, k.store(ctx, s)
	}
	s = &sent{
		ID: idOf(t), Task: t.ID, Context: t.ContextID, Message: t.Message.ID, Agent: agent, At: k.b.now(), task: t, came: make(chan struct{}),
	}
	k.by[s.ID] = s
	k.mu.Unlock()
	if err := k.store(ctx, s); err != nil {
		k.mu.Lock()
		delete(k.by, s.ID)
		k.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// continued returns the task whose question a message replies to, or that was given this very reply before; nil if there is none.
func (k *book) continued(t *agents.Task, agent string) *sent {
	if t.Message.Metadata[transport.MetaContinued] != true {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.by {
		if s.Task == t.ID && s.Context == t.ContextID && s.Agent == agent && (s.Message == t.Message.ID || s.Result != nil && s.Result.State == inputRequired) {
			return s
		}
	}
	return nil
}

// store writes a task's note. k.turn is held.
func (k *book) store(ctx context.Context, s *sent) error {
	for try := 0; ; try++ {
		k.mu.Lock()
		noted := *s
		if s.Result != nil {
			noted.Result = s.Result.fit()
		}
		value, err := json.Marshal(&noted)
		n := storage.Note{Key: s.key(), Value: value, Version: s.version}
		k.mu.Unlock()
		if err != nil {
			return err
		}
		v, err := k.notes.PutNote(ctx, k.b.at.Tenant, storage.NoteSent, n)
		if err == nil {
			s.version = v
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) || try == 3 {
			return fmt.Errorf("note the task: %w", err)
		}
		if err := k.merge(ctx, s); err != nil {
			return fmt.Errorf("note the task: %w", err)
		}
	}
}

// merge takes over what another replica has noted of a task. k.turn is held.
func (k *book) merge(ctx context.Context, s *sent) error {
	n, err := k.notes.Note(ctx, k.b.at.Tenant, storage.NoteSent, s.key())
	if err != nil {
		return err
	}
	other := &sent{}
	if n.Version != 0 {
		if err := json.Unmarshal(n.Value, other); err != nil {
			return err
		}
		if other.key() != n.Key { // what it said of the task is not known, such as that the agent has it
			return errors.New("it is the note of something else")
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if n.Version == 0 && s.version != 0 {
		if k.by[s.ID] == s {
			delete(k.by, s.ID)
		}
		return errForgotten
	}
	if s.version = n.Version; n.Version != 0 && other.Message == s.Message {
		s.Confirmed = s.Confirmed || other.Confirmed
		if s.Result == nil && other.Result != nil {
			s.Result = other.Result
			close(s.came)
		}
	}
	return nil
}

// confirm notes that RabbitMQ has the task.
func (k *book) confirm(ctx context.Context, s *sent) error {
	if err := k.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.turn.Release(1)
	k.mu.Lock()
	s.Confirmed = true
	done := s.Result != nil
	k.mu.Unlock()
	if done { // its note says more already
		return nil
	}
	return k.store(ctx, s)
}

// look reads what another replica may have noted of a task.
func (k *book) look(ctx context.Context, s *sent) error {
	if err := k.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.turn.Release(1)
	return k.merge(ctx, s)
}

// of returns the task with this id; nil if there is none.
func (k *book) of(id string) *sent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[id]
}

// find is of, and reads the notes of other replicas for a task that is not known. That takes a tenth of the time: anybody can answer what was never asked, and
// the answers behind wait meanwhile.
func (k *book) find(ctx context.Context, id string) (*sent, error) {
	if s := k.of(id); s != nil {
		return s, nil
	}
	came := time.Now()
	k.mu.Lock()
	pause := time.Until(k.scan)
	k.mu.Unlock()
	if pause > 0 && rest.For(ctx, pause) != nil {
		return nil, context.Cause(ctx)
	}
	if err := k.readSince(ctx, came); err != nil {
		return nil, err
	}
	return k.of(id), nil
}

// answer notes what the agent has answered, and wakes whoever waits for it. The first answer counts: it returns false for another one.
func (k *book) answer(ctx context.Context, s *sent, o *outcome) (bool, error) {
	if err := k.turn.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer k.turn.Release(1)
	k.mu.Lock()
	if s.Result != nil || o.ID != "" && o.ID == s.Asked {
		k.mu.Unlock()
		return false, nil
	}
	s.Result = o
	k.mu.Unlock()
	if err := k.store(ctx, s); err != nil {
		k.mu.Lock()
		s.Result = nil // it stays in the queue
		k.mu.Unlock()
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-s.came: // merge has closed it
	default:
		close(s.came)
	}
	if s.task == nil && s.over.IsZero() {
		s.over = time.Now()
	}
	return true, nil
}

// progress shows what an agent says while it works. Whoever has ended a task says nothing more about it.
func (k *book) progress(id, text string) {
	k.mu.Lock()
	s := k.by[id]
	var t *agents.Task
	if s != nil && s.Result == nil {
		t = s.task
	}
	k.mu.Unlock()
	if t != nil {
		t.Progress(text)
	}
}

// leave notes that nobody waits for a task any more.
func (k *book) leave(s *sent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.task, s.over = nil, time.Now()
}

// drop forgets a task.
func (k *book) drop(ctx context.Context, s *sent) {
	k.mu.Lock()
	if k.by[s.ID] == s {
		delete(k.by, s.ID)
	}
	k.mu.Unlock()
	if err := k.notes.DeleteNote(ctx, k.b.at.Tenant, storage.NoteSent, s.key(), 0); err != nil && ctx.Err() == nil {
		k.b.at.Logger.Warn("the note of a task is still stored", "task_id", s.Task, "err", err)
	}
}

// asking returns the tasks with a question of their agent that waits for its reply.
func (k *book) asking(agent string) (all []*sent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.by {
		if s.Agent == agent && s.task == nil && s.Result != nil && s.Result.State == inputRequired {
			all = append(all, s)
		}
	}
	return all
}

// waiting returns how many tasks of an agent somebody waits for.
func (k *book) waiting(agent string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.by {
		if s.Agent == agent && s.Result == nil && s.over.IsZero() && s.task != nil {
			n++
		}
	}
	return n
}

// run forgets tasks a while after their end, until ctx ends.
func (k *book) run(ctx context.Context) error {
	for rest.For(ctx, sweepEach) == nil {
		k.sweep(ctx, k.b.now())
	}
	return ctx.Err()
}

func (k *book) sweep(ctx context.Context, now time.Time) {
	var old []*sent
	k.mu.Lock()
	for _, s := range k.by {
		age := now.Sub(s.At)
		switch {
		case s.task != nil:
		case s.Result != nil && s.Result.State == inputRequired:
			if age > askedFor {
				old = append(old, s)
			}
		case s.Result != nil && !s.over.IsZero() && now.Sub(s.over) > sentFor, age > lostFor:
			old = append(old, s)
		}
	}
	k.mu.Unlock()
	for _, s := range old {
		k.drop(ctx, s)
	}
}
