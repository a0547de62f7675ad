package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// The bounds of the conversations that are kept folded. Another one is folded again when it goes on.
const (
	maxFolds  = 10_000
	maxWeight = 64 << 20 // bytes of their entries
)

// fold is a conversation, as the rows have it.
type fold struct {
	conv    *conversation.Conversation
	began   time.Time
	tasks   map[a2a.TaskID]taskRow // that the conversation still has
	damaged string                 // why the entries do not go on; "" if they do
	weight  int
}

// projection is what follows from entries: rows that are new or have changed, by their keys.
type projection struct {
	conversations map[conversation.Key]conversationRow
	turns         map[turnKey]turnRow
	tasks         map[turnKey]taskRow
	spending      []spendingRow
}

// turnKey identifies a turn or a task.
type turnKey struct {
	conversation.Key
	id string
}

func newProjection() *projection {
	return &projection{map[conversation.Key]conversationRow{}, map[turnKey]turnRow{}, map[turnKey]taskRow{}, nil}
}

// folder folds conversations. It is not safe for concurrent use.
type folder struct {
	store   storage.Store
	content bool
	folds   recent.Cache[conversation.Key, *fold]
}

// forget drops all folds, which may be ahead of the rows.
func (f *folder) forget() { f.folds = recent.Cache[conversation.Key, *fold]{} }

// add folds a record, and adds what changes to p.
func (f *folder) add(ctx context.Context, r *storage.Record, p *projection) error {
	key := conversation.Key{Tenant: r.Tenant, ContextID: r.ContextID}
	c, ok := f.folds.Take(key)
	switch {
	case r.Entry != nil && r.Entry.Seq == 1:
		c = newFold(key) // one that was there before is erased, or is being erased
	case !ok:
		var err error
		if c, err = f.load(ctx, key, r.Version, nil); err != nil {
			return err
		}
	}
	c.apply(r, p, f.content)
	c.weight += len(r.Data) + 512
	f.folds.Put(key, c, c.weight)
	for f.folds.Len() > maxFolds || f.folds.Size() > maxWeight && f.folds.Len() > 1 {
		f.folds.Drop()
	}
	return nil
}

// load folds the entries of a conversation below a version, and adds what follows from them to p, unless that is nil.
func (f *folder) load(ctx context.Context, key conversation.Key, below conversation.Version, p *projection) (*fold, error) {
	c := newFold(key)
	if p == nil {
		p = newProjection()
	}
	for e, err := range f.store.Load(ctx, key.Tenant, key.ContextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) {
			c.damaged = err.Error()
			break
		}
		if err != nil {
			return nil, err
		}
		if e.Version >= below {
			break
		}
		c.apply(&storage.Record{Version: e.Version, Tenant: key.Tenant, ContextID: key.ContextID, Entry: e}, p, f.content)
	}
	return c, nil
}

func newFold(key conversation.Key) *fold {
	return &fold{conv: conversation.NewConversation(key.Tenant, key.ContextID), tasks: map[a2a.TaskID]taskRow{}}
}

// apply folds the next record.
func (c *fold) apply(r *storage.Record, p *projection, content bool) {
	e := r.Entry
	key := rowKey(c.conv.Key())
	if e != nil {
		p.spending = append(p.spending, spendingOf(key, e)...)
	}
	if c.damaged == "" {
		c.damaged = c.step(r)
	}
	row := conversationRow{
		key: key, life: clean(c.conv.Life, maxText), owner: clean(c.conv.Owner, maxText), entries: int64(c.conv.Seq), turns: int64(c.conv.Begun), //nolint:gosec // a length
		began: when(c.began), updated: when(c.conv.Updated()), usage: conversation.Credible(c.conv.Usage), version: int64(r.Version), //nolint:gosec // a sequence
	}
	if c.damaged != "" {
		row.damage = words(c.damaged)
	}
	p.conversations[key] = row
	if c.damaged != "" {
		return
	}
	for _, t := range c.conv.Turns {
		if t.ID == e.Turn || t.Seq == e.Seq || t.AnswerSeq == e.Seq {
			row := c.turnRow(t, e, content)
			p.turns[turnKey{key, row.id}] = row
		}
	}
	for id, t := range c.conv.Tasks {
		was, known := c.tasks[id]
		if row := c.taskRow(t, e, was, content); !known || !row.equal(was) {
			c.tasks[id] = row
			p.tasks[turnKey{key, row.id}] = row
		}
	}
	for id := range c.tasks {
		if c.conv.Tasks[id] == nil {
			delete(c.tasks, id)
		}
	}
}

// step applies a record's entry, and returns why that is not possible. A fold that refuses an entry is not used again, as in Cortex.
func (c *fold) step(r *storage.Record) (why string) {
	defer func() {
		if cause := recover(); cause != nil {
			why = fmt.Sprintf("entry at version %d: %v", r.Version, cause)
		}
	}()
	if r.Entry == nil {
		return r.Damage
	}
	if err := c.conv.Apply(r.Entry); err != nil {
		return err.Error()
	}
	if r.Entry.Seq == 1 {
		c.began = r.Entry.Time
	}
	return ""
}

func (c *fold) turnRow(t *conversation.Turn, e *conversation.Entry, content bool) turnRow {
	row := turnRow{
		key: rowKey(c.conv.Key()), id: clean(t.ID, maxText), message: clean(t.Message, maxText), user: clean(t.From, maxText), asked: dated(t.Began), answered: when(t.Answered),
		outcome: "open", failed: t.Failed, model: clean(t.Model, maxText), steps: int64(t.Decisions), usage: conversation.Credible(t.Usage),
		trace: traceOf(t.Trace.Parent), version: int64(e.Version), //nolint:gosec // a sequence
	}
	for _, s := range t.Steps {
		row.tasks += int64(len(s.Tasks))
	}
	switch {
	case t.Open():
	case t.Kind != "":
		row.outcome = clean(string(t.Kind), maxText)
	case t.Answer == conversation.AnswerCanceled:
		row.outcome = "canceled"
	default:
		row.outcome = "failed"
	}
	if t.Failed && content {
		row.problem = words(t.Answer)
	}
	return row
}

func (c *fold) taskRow(t *conversation.Task, e *conversation.Entry, was taskRow, content bool) taskRow {
	row := taskRow{
		key: rowKey(c.conv.Key()), id: clean(string(t.ID), maxText), turn: clean(t.Turn, maxText), agent: clean(t.Agent, maxText), skill: clean(t.Skill, maxText), state: string(t.State()),
		attempts: int64(t.Attempt), created: was.created, sent: when(t.Sent), deadline: when(t.Deadline), version: int64(e.Version), //nolint:gosec // a sequence
	}
	if row.created.IsZero() {
		row.created = dated(e.Time)
	}
	if t.Phase.Over() {
		row.ended = when(t.Settled)
		if t.Phase != conversation.Completed && content {
			row.reason = words(t.Result)
		}
	}
	return row
}

// equal reports whether two rows of a task differ only in their versions.
func (r taskRow) equal(o taskRow) bool {
	same := func(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }
	return r.turn == o.turn && r.agent == o.agent && r.skill == o.skill && r.state == o.state && r.attempts == o.attempts &&
		same(r.sent, o.sent) && same(r.ended, o.ended) && same(r.deadline, o.deadline)
}

// rowKey returns the key that a conversation's rows have.
func rowKey(k conversation.Key) conversation.Key {
	return conversation.Key{Tenant: clean(k.Tenant, maxText), ContextID: clean(k.ContextID, maxText)}
}
