package cortex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxRounds bounds how often one delivery of an event starts over because the log has gone on. After that the transport delivers it again.
const maxRounds = 16

// delivery is what one delivery of an event has come to so far.
type delivery struct {
	event      *transport.Event
	instead    string               // what the turn ends with instead of a decision; "": it is decided
	conflictAt conversation.Version // behind which an entry came second; 0: none has
	lost       *decide.Lost         // that came second
	spent      llm.Usage            // on decisions of entries that were not stored
	kept       unstoredKey          // of an entry that could not be stored at an earlier delivery
}

// handle takes one event of a conversation through a turn: load, plan, decide, append, apply, dispatch. It returns nil, which
// acknowledges the event, only after everything that follows from it has been sent.
func (o *Orchestrator) handle(ctx context.Context, e *transport.Event) error {
	return o.take(ctx, e, "")
}

// take is handle. If instead is not empty, the turn is answered with it, and nothing is decided.
func (o *Orchestrator) take(ctx context.Context, e *transport.Event, instead string) error {
	if err := transport.ForCortex(e); err != nil {
		return transport.Permanent(err) // see givenUp
	}
	e = original(e)
	d := &delivery{event: e, instead: instead, kept: unstoredKey{o.cfg.Tenant, e.ContextID, conversation.EventKey(e)}}
	for range maxRounds {
		if done, err := o.round(ctx, d); done {
			return err
		}
	}
	if d.lost != nil { // what it cost counts when the event comes again
		o.unstored.put(d.lost.Conv, d.conflictAt, d.lost.Entry, o.cfg.Now())
	}
	return transport.Temporary(fmt.Errorf("handle %s in %s: %w, again and again", e.ID, e.ContextID, storage.ErrConflict))
}

// round takes the event once from load to dispatch. It returns false when the log has gone on, and the event is to be looked at anew.
func (o *Orchestrator) round(ctx context.Context, d *delivery) (done bool, err error) {
	e := d.event
	conv, err := o.load(ctx, e)
	if err == nil && d.conflictAt != 0 && conv.Version == d.conflictAt {
		// Nothing new to load, and yet a conflict: the snapshot is not of this log.
		conv.Conversation, err = loadLog(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
		conv.fresh = true
	}
	if err != nil {
		return true, unreadable(err)
	}
	if _, ok := e.Payload.(*transport.Deadline); ok {
		conv.timer = time.Time{} // it has fired
	}
	now := o.cfg.Now() // one reading: a clock may step back between two
	plan := conv.Plan(e, now, o.cfg.Authenticated)
	if plan.Passive() && !conv.fresh {
		// Nothing may be acknowledged on the strength of a cache that could be stale.
		if conv, err = o.reload(ctx, e, conv); err != nil {
			return true, unreadable(err)
		}
		plan = conv.Plan(e, now, o.cfg.Authenticated)
	}
	switch plan.Do {
	case conversation.Repeat:
		o.unstored.take(d.kept) // it was stored after all, or another one was
		return true, o.repeat(ctx, conv, e, plan.Seq)
	case conversation.Full:
		o.cache.put(conv)
		return true, transport.Permanent(fmt.Errorf("it has %d entries: %w", conv.Seq, conversation.Failure(plan.Why)))
	case conversation.Refuse:
		return true, o.bar(ctx, conv, e, plan.Why, now)
	case conversation.Ignore:
		o.unstored.take(d.kept)
		return true, o.ignore(ctx, conv, e, plan.Why, now)
	}
	entry := &conversation.Entry{Seq: conv.Seq + 1, Time: now, Turn: plan.Turn, Cause: e, Failure: d.instead, Usage: d.spent}
	if entry.Seq == 1 {
		entry.Life = transport.TurnID(o.cfg.Tenant, e.ContextID, e.From, e.ID)
	}
	if kept := o.unstored.take(d.kept); kept != nil && kept.after == conv.Version && d.instead == "" {
		entry = kept.entry // only to be stored
	} else if kept != nil {
		entry.Usage = entry.Usage.Add(kept.entry.Spent())
	} else if d.lost == nil && d.instead == "" { // else it was let through before
		if why := o.maker.OverRate(conv.Conversation, e); why != "" {
			return true, o.bar(ctx, conv, e, why, now)
		}
	}
	after := conv.Version
	err = o.advance(ctx, conv, entry, now, d.lost)
	d.spent = entry.Spent()
	var left *decide.LeftBehind
	switch {
	case errors.Is(err, storage.ErrConflict):
		o.stats.Conflicts.Add(1)
		d.conflictAt, d.lost = after, &decide.Lost{Entry: entry, Conv: conv.Conversation}
		return false, nil // conv is not in the cache: the next round loads it
	case errors.As(err, &left):
		d.instead = left.Text
		return false, nil // with another conv: what was left behind has this one
	case errors.Is(err, errUnstorable) && d.instead == "":
		o.log.Error("entry not stored", "context_id", e.ContextID, "err", err)
		d.instead = "What came of this does not fit into the conversation's log."
		return false, nil
	case errors.Is(err, errUnstorable):
		return true, transport.Permanent(fmt.Errorf("%w: %w", err, conversation.Failure("The message is too large to be kept."))) // it will not fit the next time either
	}
	return true, err
}

// unreadable returns the error of a conversation that cannot be read: for good, when its log is damaged.
func unreadable(err error) error {
	if errors.Is(err, conversation.ErrDamaged) {
		return transport.Permanent(fmt.Errorf("%w: %w", err, conversation.Failure(saidOfDamaged))) // it can be replayed when the store is repaired
	}
	return err
}

// saidOfDamaged is what a user is told whose conversation cannot be read.
const saidOfDamaged = "The record of this conversation is damaged, so that it cannot go on. Begin another one with /new, and say it again there. " +
	"`cortex doctor` tells whoever runs Cortex what is lost, and repairs the rest."

// repeat sends once more what an event led to that came again.
func (o *Orchestrator) repeat(ctx context.Context, conv *loaded, e *transport.Event, seq uint64) error {
	err := o.resend(ctx, conv, seq)
	if answered := conv.AnsweredIn(e); err == nil && answered != 0 && answered != seq { // an agent that was restarted asks again
		err = o.resend(ctx, conv, answered)
	}
	o.cache.put(conv)
	return err
}

// resend sends what follows from an earlier entry, with the files that its answer had then.
func (o *Orchestrator) resend(ctx context.Context, conv *loaded, seq uint64) error {
	if conv.Trimmed(seq) {
		then, err := loadTo(ctx, o.cfg.Store, conv.Tenant, conv.ContextID, seq)
		switch {
		case err == nil:
			defer conv.Restore(then)()
		case !errors.Is(err, conversation.ErrDamaged): // else nobody has them
			return err
		}
	}
	return o.send(ctx, conv, seq)
}

// original returns e, or what it is once more.
func original(e *transport.Event) *transport.Event {
	id := transport.MessageEventID(e)
	if id == e.ID {
		return e
	}
	first := *e
	first.ID = id
	return &first
}

// errUnstorable marks an entry that no store will keep.
var errUnstorable = errors.New("entry cannot be stored")

// advance completes the entry for an event, adds it to the log and sends what follows from it. With a failure nothing is
// decided: the turn ends with it. Nor with a decision, which an entry has that could not be stored at first.
// now is later than entry.Time if an earlier attempt to store the entry failed. lost is an entry for the same event whose append conflicted, or nil.
func (o *Orchestrator) advance(ctx context.Context, conv *loaded, entry *conversation.Entry, now time.Time, lost *decide.Lost) error {
	after, e := conv.Version, entry.Cause
	entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
	if r, ok := conversation.ResultOf(e); ok && r.State == a2a.TaskStateInputRequired {
		entry.ReplyBy = now.Add(o.cfg.ReplyTimeout)
	}
	if entry.Decision == nil && entry.Failure == "" { // else it is complete already
		o.maker.Judge(conv.Conversation, entry)
	}
	if err := conv.Begin(entry); err != nil {
		return err
	}
	var shown []a2a.TaskID
	if turn := conv.Turn(entry.Turn); turn != nil && turn.Open() && !conv.Outstanding(turn) {
		shown = o.show(ctx, conv.Conversation, entry.Seq)
		if entry.Failure == "" && entry.Decision == nil {
			if o.unstored.full(now) {
				return transport.Temporary(fmt.Errorf("nothing is decided in %s: too many entries wait for the store", conv.ContextID))
			}
			if err := o.maker.Decide(ctx, conv.Conversation, turn, entry, lost); err != nil {
				return err
			}
			// A decision takes its time, which is not the agents'. What is decided about has sent nothing yet.
			if decided := o.cfg.Now(); decided.After(now) {
				now = decided
			}
			entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
		}
	}
	entry.Due(now, o.cfg.ReplyTimeout)
	version, err := o.cfg.Store.Append(ctx, conv.Tenant, conv.ContextID, after, entry)
	switch {
	case errors.Is(err, transport.ErrTooLarge), errors.Is(err, transport.ErrInvalid):
		return fmt.Errorf("%w: %w", errUnstorable, err)
	case err != nil:
		if !errors.Is(err, storage.ErrConflict) {
			o.unstored.put(conv.Conversation, after, entry, now)
		}
		return transport.Temporary(fmt.Errorf("append to %s: %w", conv.ContextID, err))
	}
	entry.Version = version
	conv.Finish(entry)
	conv.Version = version
	o.stats.Entries.Add(1)
	o.maker.Track(conv.Conversation)
	o.count(conv.Conversation, entry)
	if err := o.send(ctx, conv, entry.Seq, shown...); err != nil {
		o.cache.put(conv) // it stands for the log, and the event comes again
		return err
	}
	o.learner.Learn(conv.Conversation, entry) // behind what others wait for
	o.keep(ctx, conv)
	return nil
}
