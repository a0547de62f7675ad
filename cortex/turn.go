package cortex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxRounds bounds how often one delivery of an event starts over after a conflict. After that the transport delivers the event again.
const maxRounds = 16

// tooLarge is why an event is refused whose entry no store accepts.
const tooLarge = conversation.Failure("The message is too large to be kept.")

// delivery is the state of handling one delivery of an event.
type delivery struct {
	event        *transport.Event
	forcedAnswer string               // the answer of the turn in place of a decision; "": decide
	conflictAt   conversation.Version // the version after which an entry for the event could not be appended; 0: no conflict yet
	lost         *decide.Lost         // the entry that came second then; its decision is kept if it still fits
	spent        llm.Usage            // on decisions of entries that were not stored
	unstored     cache.EventKey       // the key in o.unstored for an entry of an earlier delivery
	place        decide.Place         // to check a result
	judged       *conversation.Entry  // the entry whose Cause, Rejected and Verdicts say what became of a result; nil: not checked yet
	came         time.Time            // when the event was handled first, if it had to wait for its place
}

// handle handles one event: load the conversation, plan what the event does, apply the event (Begin), decide
// if its turn waits for nothing else, append the entry to the log, apply the decision (Finish), dispatch the effects. It returns nil, which
// acknowledges the event, only after all effects have been sent.
func (o *Orchestrator) handle(ctx context.Context, e *transport.Event) error {
	return o.handleWith(ctx, e, "")
}

// handleWith is handle. If forcedAnswer is not empty, it is the turn's answer, and nothing is decided.
func (o *Orchestrator) handleWith(ctx context.Context, e *transport.Event, forcedAnswer string) error {
	if err := transport.ForCortex(e); err != nil {
		return transport.Permanent(err) // see givenUp
	}
	e = transport.Original(e)
	if _, ok := e.Payload.(*transport.Cancel); ok {
		o.maker.Canceled(conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID}, e)
	}
	d := &delivery{event: e, forcedAnswer: forcedAnswer, unstored: cache.EventKey{Tenant: o.cfg.Tenant, ContextID: e.ContextID, Event: conversation.EventKey(e)}}
	ctx = storage.WithRequester(ctx, e.From)
	defer d.place.Leave() // also behind a panic
	for range maxRounds {
		if done, err := o.round(ctx, d); done {
			return err
		}
	}
	if d.lost != nil { // its cost counts when the event is delivered again
		o.unstored.Put(d.lost.Conv, d.conflictAt, d.lost.Entry, o.cfg.Now())
	}
	return transport.Temporary(fmt.Errorf("handle %s in %s: %w, again and again", e.ID, e.ContextID, storage.ErrConflict))
}

// round takes the event once from load to dispatch. It returns false to start over: another entry was appended, or the turn must end with
// d.forcedAnswer, since its decision cannot be used.
func (o *Orchestrator) round(ctx context.Context, d *delivery) (done bool, err error) {
	e := d.event
	conv, err := o.load(ctx, d)
	if err != nil {
		return true, o.unreadable(ctx, e, err)
	}
	if _, ok := e.Payload.(*transport.Deadline); ok {
		conv.Timer = time.Time{} // it has fired
	}
	now := cmp.Or(d.came, o.now()) // one reading: a clock may step back between two
	plan := conv.Plan(e, now, o.cfg.Authenticated)
	if plan.Passive() && !conv.Fresh {
		// Do not acknowledge an event based on a cached fold that could be stale.
		if conv, err = o.reload(ctx, e, conv); err != nil {
			return true, o.unreadable(ctx, e, err)
		}
		plan = conv.Plan(e, now, o.cfg.Authenticated)
	}
	switch plan.Do {
	case conversation.Repeat:
		o.countLate(ctx, conv, plan.Seq, o.unstored.Take(d.unstored), d.lost) // the entry was stored after all, or another one was
		o.stats.Redelivered.Add(1)
		return true, o.repeat(ctx, conv, e, plan.Seq)
	case conversation.Refuse:
		return true, o.bar(ctx, conv, e, plan.Why, now)
	case conversation.Ignore:
		o.unstored.Take(d.unstored)
		return true, o.ignore(ctx, conv, e, plan.Why, now)
	}
	entry := &conversation.Entry{Seq: conv.Seq + 1, Time: now, Turn: plan.Turn, Cause: e, Failure: d.forcedAnswer, Usage: d.spent}
	if d.forcedAnswer == "" {
		entry.Heard = plan.Heard
	}
	if entry.Seq == 1 {
		entry.Life = transport.TurnID(o.cfg.Tenant, e.ContextID, e.From, e.ID)
	}
	if why, err := o.outlived(ctx, conv, e); err != nil { // also after a conflict: it may be deleted during the decision
		return true, err
	} else if why != "" {
		o.unstored.Take(d.unstored)
		return true, o.bar(ctx, conv, e, why, now)
	}
	if kept := o.unstored.Take(d.unstored); kept != nil && kept.After == conv.Version && d.forcedAnswer == "" {
		entry = kept.Entry // only to be stored
	} else if kept != nil {
		entry.Usage = entry.Usage.Add(kept.Entry.Spent())
	} else if d.lost == nil && d.forcedAnswer == "" { // else it was admitted before
		why, err := o.inadmissible(ctx, conv.Conversation, e)
		if err != nil {
			return true, err
		}
		if why != "" {
			return true, o.bar(ctx, conv, e, why, now)
		}
	}
	after := conv.Version
	err = o.advance(ctx, conv, entry, now, d)
	d.spent = entry.Spent()
	var left *decide.LeftBehind
	switch {
	case errors.Is(err, decide.ErrWaits): // nothing has changed conv
		d.came = now
		o.folds.Put(conv)
		err := d.place.Wait(ctx)
		return err != nil, err
	case errors.Is(err, storage.ErrConflict):
		o.stats.Conflicts.Add(1)
		d.conflictAt, d.lost = after, &decide.Lost{Entry: entry, Conv: conv.Conversation}
		return false, nil // conv is not in the cache: the next round loads it
	case errors.As(err, &left):
		d.forcedAnswer = left.Text
		return false, nil // the abandoned decision may still use conv, so start over with another
	case errors.Is(err, errUnstorable) && d.forcedAnswer == "":
		o.log.ErrorContext(ctx, "entry not stored", "context_id", e.ContextID, "err", err)
		d.forcedAnswer = "The result of this does not fit into the conversation's log."
		return false, nil
	case errors.Is(err, errUnstorable) && isRequest(e):
		return true, o.turnAway(ctx, e, string(tooLarge), err)
	case errors.Is(err, errUnstorable) && !o.letters.allow(e, o.cfg.Now()):
		o.log.WarnContext(ctx, "result dropped: it cannot be stored, and its agent has enough dead letters", "context_id", e.ContextID, "task_id", e.TaskID, "from", e.From, "err", err)
		return true, o.givenUp(ctx, e, fmt.Errorf("%w: %w", err, tooLarge))
	case errors.Is(err, errUnstorable):
		return true, transport.Permanent(fmt.Errorf("%w: %w", err, tooLarge)) // it will not fit the next time either
	}
	return true, err
}

// inadmissible returns a text that says why a request is refused, or "": an agent asks too often, or a file cannot be used.
func (o *Orchestrator) inadmissible(ctx context.Context, conv *conversation.Conversation, e *transport.Event) (why string, err error) {
	if conversation.IsAgent(e.From) {
		why = o.maker.OverRate(conv, e)
	}
	if m, ok := transport.Request(e); ok && why == "" && slices.ContainsFunc(m.Parts, transport.IsFileRef) {
		if why, err = o.unusableFiles(ctx, e); why != "" {
			why = "Nothing was done: " + why + "."
		}
	}
	return why, err
}

// repeat sends the effects of an event that was delivered again.
func (o *Orchestrator) repeat(ctx context.Context, conv *cache.Fold, e *transport.Event, seq uint64) error {
	err := o.resend(ctx, conv, seq)
	if answered := conv.AnsweredIn(e); err == nil && answered != 0 && answered != seq { // a restarted agent asks again
		err = o.resend(ctx, conv, answered)
	}
	if err == nil && seq == conv.Seq { // it may have been stored without a word to this process
		o.maker.Release(ctx, conv.Conversation, seq)
	}
	o.folds.Put(conv)
	return err
}

// advance completes the entry for an event, appends it to the log and sends its effects. It does not decide for an entry with a Failure, which
// ends the turn, or with a Decision, which was made at an earlier delivery and not stored. now is later than entry.Time if an earlier attempt to
// store the entry failed.
func (o *Orchestrator) advance(ctx context.Context, conv *cache.Fold, entry *conversation.Entry, now time.Time, d *delivery) error {
	after, e := conv.Version, entry.Cause
	if _, ok := transport.Request(e); !ok {
		switch {
		case entry.Decision == nil && entry.Failure == "": // else the entry is complete already
			if err := o.judge(ctx, conv.Conversation, entry, d.lost, &d.place); err != nil {
				return err
			}
		case d.forcedAnswer != "" && d.judged != nil: // how the turn ends changes nothing about the result
			entry.Cause, entry.Rejected, entry.Verdicts = d.judged.Cause, d.judged.Rejected, d.judged.Verdicts
		}
		d.judged = entry
		now = later(now, o.now()) // a model that judges may take minutes, and a place hours: they do not count as those of tasks that are sent now
	}
	entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
	if r, ok := conversation.ResultOf(e); ok && r.State == a2a.TaskStateInputRequired {
		entry.ReplyBy = now.Add(o.cfg.ReplyTimeout)
	}
	if err := conv.Begin(entry); err != nil {
		return err
	}
	ctx = o.within(ctx, conv.Conversation, entry.Turn, "")
	var shown []a2a.TaskID
	if turn := conv.Turn(entry.Turn); turn != nil && turn.Open() && !conv.Outstanding(turn) {
		shown = o.show(ctx, conv.Conversation, entry.Seq)
		if entry.Failure == "" && entry.Decision == nil {
			if o.unstored.Full(now) {
				return transport.Temporary(fmt.Errorf("nothing is decided in %s: too many entries wait for the store", conv.ContextID))
			}
			if err := o.maker.Decide(ctx, conv.Conversation, turn, entry, d.lost); err != nil {
				return err
			}
			if err := o.erasedMeanwhile(ctx, conv, entry); err != nil {
				return err
			}
			// The time of the decision does not count as the agents'. Tasks that it decides about have not been sent yet.
			now = later(now, o.now())
			entry.Sent, entry.Deadline = now, now.Add(o.cfg.TaskTimeout)
		}
	}
	entry.Due(now, o.cfg.ReplyTimeout)
	began := time.Now()
	version, err := o.cfg.Store.Append(ctx, conv.Tenant, conv.ContextID, after, entry)
	entry.Measured.Appending = time.Since(began)
	switch {
	case errors.Is(err, transport.ErrTooLarge), errors.Is(err, transport.ErrInvalid):
		return fmt.Errorf("%w: %w", errUnstorable, err)
	case err != nil:
		if !errors.Is(err, storage.ErrConflict) {
			o.unstored.Put(conv.Conversation, after, entry, now)
		}
		return transport.Temporary(fmt.Errorf("append to %s: %w", conv.ContextID, err))
	}
	entry.Version = version
	conv.Finish(entry)
	conv.Version = version
	return o.dispatch(ctx, conv, entry, shown)
}

// later returns the later one of two times: the clock may step back.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// show publishes on the live topic how the tasks ended that the cause of entry seq settled. It does so before the decision, which may take long.
// It returns the tasks that it has shown.
func (o *Orchestrator) show(ctx context.Context, conv *conversation.Conversation, seq uint64) (shown []a2a.TaskID) {
	for _, out := range conv.Settled(seq) {
		if err := o.cfg.Transport.Publish(ctx, out.Topic, out.Event); err != nil {
			o.log.DebugContext(ctx, "live event not sent", "context_id", conv.ContextID, "err", err)
			continue
		}
		shown = append(shown, out.Event.TaskID)
	}
	return shown
}
