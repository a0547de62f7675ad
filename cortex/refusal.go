package cortex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// givenUp tells who waits for an event that it is a dead letter, and why. A turn whose agent's result it is goes on at once; who asked
// gets a failed answer. It is called again when it was not done, or the orchestrator was killed: all that it sends has derived ids.
func (o *Orchestrator) givenUp(ctx context.Context, e *transport.Event, reason error) error {
	var err error
	e = original(e)
	switch {
	case e.From == "" || e.ContextID == "": // the transport cannot say whose it is
	case e.From == transport.Cortex:
		err = o.endWithout(ctx, e, reason)
	default:
		task := resultFor(e)
		if task == "" {
			task, err = o.guess(ctx, e)
		}
		if err != nil {
			return err
		}
		if task != "" {
			err = o.failTask(ctx, e, task, reason)
		} else if e.ID != "" && asks(e) {
			err = o.refuse(ctx, e, inWords(e, reason))
		}
	}
	if err == nil {
		o.stats.Refused.Add(1)
	}
	return err
}

// resultKinds are the kinds of what an agent sends of a task, and what cannot be read may be: without a piece of a result the rest is
// another one, and a kind is missing where the rest is damaged. A kind that nobody knows may be a newer agent's progress.
var resultKinds = []string{"task", "status-update", "artifact-update", "message", ""}

// resultFor returns the task that e is the result of, also when it cannot be read; empty when it is none.
func resultFor(e *transport.Event) a2a.TaskID {
	if r, ok := conversation.ResultOf(e); ok && r.Settles() {
		return r.TaskID
	}
	if p, ok := e.Payload.(*transport.Opaque); ok && conversation.IsAgent(e.From) && slices.Contains(resultKinds, p.Kind) {
		return e.TaskID
	}
	return ""
}

// guess returns the task that e, an agent's, is most likely about, when e cannot be read and nothing beside it says so: of those that the
// agent has in the conversation the one that e has the id of, or the only one, if e is of a kind that is always about a task.
func (o *Orchestrator) guess(ctx context.Context, e *transport.Event) (a2a.TaskID, error) {
	p, ok := e.Payload.(*transport.Opaque)
	if !ok || !conversation.IsAgent(e.From) || !slices.Contains(resultKinds, p.Kind) {
		return "", nil
	}
	conv, err := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	if errors.Is(err, conversation.ErrDamaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	has := slices.DeleteFunc(conv.Running(), func(t *conversation.Task) bool { return t.Agent != e.From })
	named := slices.DeleteFunc(slices.Clone(has), func(t *conversation.Task) bool { return !bytes.Contains(p.Data, []byte(t.ID)) })
	switch {
	case len(named) == 1:
		return named[0].ID, nil
	case len(named) == 0 && len(has) == 1 && p.Kind != "message" && p.Kind != "":
		return has[0].ID, nil
	}
	return "", nil
}

// asks reports whether e wants an answer, as far as that is known.
func asks(e *transport.Event) bool {
	if _, ok := transport.Request(e); ok {
		return true
	}
	p, ok := e.Payload.(*transport.Opaque)
	return ok && (p.Kind == "message" || !conversation.IsAgent(e.From) && !transport.KnownKind(p.Kind)) // a newer client may wait for anything
}

// inWords tells who sent e why it is given up. What e says is not in it.
func inWords(e *transport.Event, reason error) string {
	var words conversation.Failure
	p, opaque := e.Payload.(*transport.Opaque)
	switch {
	case errors.As(reason, &words):
		return string(words)
	case opaque && transport.KnownKind(p.Kind):
		return "Cortex cannot read this message, so nothing was done."
	case opaque:
		return "This Cortex does not know this kind of message, as a newer one may. Nothing was done."
	}
	return "Cortex could not handle this message and gave it up: its log and `cortex dead` say why. It can be tried again with `cortex dead replay`."
}

// failTask tells Cortex itself that a task has failed, since what its agent sent is given up: it ends with that, in the log, as with
// any result, or is tried again.
func (o *Orchestrator) failTask(ctx context.Context, e *transport.Event, task a2a.TaskID, reason error) error {
	now := o.cfg.Now()
	id := conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+conversation.EventKey(e), 0)
	if e.ID == "" { // it could not be read
		id = conversation.DeriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+e.From+" "+string(task)+" "+conversation.Explain(reason), 0)
	}
	return o.tell(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: now, From: transport.Cortex, To: transport.Cortex, Tenant: o.cfg.Tenant, ContextID: e.ContextID, TaskID: task,
		Payload: &a2a.Task{
			ID: task, ContextID: e.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Timestamp: &now, Message: &a2a.Message{
				ID: id, ContextID: e.ContextID, TaskID: task, Role: a2a.MessageRoleAgent,
				Parts: a2a.ContentParts{a2a.NewTextPart("Cortex cannot take what the agent sent: " + conversation.Explain(reason))},
			}},
			Metadata: map[string]any{transport.MetaAgentID: e.From},
		},
	})
}

// refuse tells who asked why a message was not even taken: there is no place in the log where it could be answered. A person who
// misses that on the live topic finds it in a note, see [storage.RefusalOf].
func (o *Orchestrator) refuse(ctx context.Context, e *transport.Event, why string) error {
	now := o.cfg.Now()
	return o.answerUnlogged(ctx, e, conversation.Refusal(o.cfg.Tenant, e, why, now), why, now)
}

// answerUnlogged sends the answer to message e, which is in no log, and keeps it for a person who does not hear it.
func (o *Orchestrator) answerUnlogged(ctx context.Context, e *transport.Event, answer []conversation.Effect, why string, now time.Time) error {
	if notes, ok := o.cfg.Store.(storage.Notes); ok && !conversation.IsAgent(e.From) {
		if err := storage.KeepRefusal(ctx, notes, o.cfg.Tenant, e, why, now); err != nil {
			return err
		}
	}
	for _, out := range answer {
		err := o.tell(ctx, out.Topic, out.Event)
		if err != nil && out.Topic.Kind != transport.KindLive {
			return err
		}
	}
	return nil
}

// tell publishes what there is to say of an event that is given up. What can never be said is logged.
func (o *Orchestrator) tell(ctx context.Context, t transport.Topic, e *transport.Event) error {
	err := o.cfg.Transport.Publish(ctx, t, e)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrInvalid), errors.Is(err, transport.ErrFull):
		o.log.Warn("nobody could be told", "context_id", e.ContextID, "to", t.ID, "err", err)
		return nil
	}
	return transport.Temporary(fmt.Errorf("tell %s: %w", t.ID, err))
}

// bar refuses e without keeping it as a dead letter. A replay would be refused for the same reason, and a sender who floods a conversation that is
// not theirs would push out dead letters that can still be used.
func (o *Orchestrator) bar(ctx context.Context, conv *cache.Fold, e *transport.Event, why string, now time.Time) error {
	if _, ok := transport.Request(e); !ok {
		return o.ignore(ctx, conv, e, why, now)
	}
	o.stats.Refused.Add(1)
	o.log.Info("message refused", "context_id", e.ContextID, "from", e.From, "owner", conv.Owner)
	if err := o.refuse(ctx, e, why); err != nil {
		return err
	}
	o.folds.Put(conv)
	return nil
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
