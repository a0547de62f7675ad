package cortex

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// NoteRefusal is the kind of the notes that say what became of messages that are in no log, since they were refused. They name no
// message but by its digest, and hold Cortex's own words only: everybody of the tenant may read them.
const NoteRefusal = "refusal"

// Bounds of the refusals that are kept. A digest says which of the notes has its refusal, so that there are no more than so many.
const (
	refusalNotes = 1024
	maxRefusals  = 32             // in a note; when more, the oldest is forgotten
	refusalFor   = 24 * time.Hour // nobody waits for longer
	refusalTries = 16             // at a note that others change, too
)

// refusalNote says what became of a message.
type refusalNote struct {
	Of   string    `json:"of"` // the message's digest
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// refusalOf returns the key of the note with the refusal of a message, and the message's digest.
func refusalOf(contextID, from, id string) (key, of string) {
	var name []byte
	for _, part := range []string{contextID, from, id} {
		name = strconv.AppendQuote(name, part)
	}
	sum := sha256.Sum256(name)
	return strconv.Itoa(int(binary.BigEndian.Uint16(sum[:])) % refusalNotes), hex.EncodeToString(sum[2:18])
}

// givenUp tells who waits for an event that it is a dead letter, and why. A turn whose agent's result it is goes on at once; who asked
// gets a failed answer. It is called again when it was not done, or the orchestrator was killed: all that it sends has derived ids.
func (o *Orchestrator) givenUp(ctx context.Context, e *transport.Event, reason error) error {
	var err error
	switch {
	case e.From == "" || e.ContextID == "": // the transport cannot say whose it is
	case e.From == transport.Cortex: // nobody waits
	default:
		if task := resultFor(e); task != "" {
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
	if r, ok := resultOf(e); ok && r.settles() {
		return r.TaskID
	}
	if p, ok := e.Payload.(*transport.Opaque); ok && isAgent(e.From) && slices.Contains(resultKinds, p.Kind) {
		return e.TaskID
	}
	return ""
}

// asks reports whether e wants an answer, as far as that is known.
func asks(e *transport.Event) bool {
	if _, ok := userMessage(e); ok {
		return true
	}
	p, ok := e.Payload.(*transport.Opaque)
	return ok && (p.Kind == "message" || !isAgent(e.From) && !transport.KnownKind(p.Kind)) // a newer client may wait for anything
}

// inWords tells who sent e why it is given up. What e says is not in it.
func inWords(e *transport.Event, reason error) string {
	var words *failure
	p, opaque := e.Payload.(*transport.Opaque)
	switch {
	case errors.As(reason, &words):
		return words.text
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
	id := deriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+eventKey(e), 0)
	if e.ID == "" { // it could not be read
		id = deriveID(o.cfg.Tenant, e.ContextID, 0, "given up:"+e.From+" "+string(task)+" "+oneLine(reason.Error()), 0)
	}
	return o.tell(ctx, transport.Inbox(o.cfg.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: now, From: transport.Cortex, To: transport.Cortex, Tenant: o.cfg.Tenant, ContextID: e.ContextID, TaskID: task,
		Payload: &a2a.Task{
			ID: task, ContextID: e.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Timestamp: &now, Message: &a2a.Message{
				ID: id, ContextID: e.ContextID, TaskID: task, Role: a2a.MessageRoleAgent,
				Parts: a2a.ContentParts{a2a.NewTextPart("Cortex cannot take what the agent sent: " + oneLine(reason.Error()))},
			}},
			Metadata: map[string]any{transport.MetaAgentID: e.From},
		},
	})
}

// speaksFor returns the agent in whose place Cortex says how a task ended, or "".
func speaksFor(e *transport.Event) string {
	if t, ok := e.Payload.(*a2a.Task); ok && e.From == transport.Cortex {
		return transport.MetaString(t, transport.MetaAgentID)
	}
	return ""
}

// refuse tells who asked why a message was not even taken: there is no place in the log where it could be answered. A person who
// misses that on the live topic finds it in a note, see [RefusalOf].
func (o *Orchestrator) refuse(ctx context.Context, e *transport.Event, why string) error {
	now := o.cfg.Now()
	if notes, ok := o.cfg.Store.(Notes); ok && !isAgent(e.From) {
		if err := o.keepRefusal(ctx, notes, e, refusalNote{Time: now, Text: why}); err != nil {
			return err
		}
	}
	for _, out := range refused(o.cfg.Tenant, e, why, now) {
		err := o.tell(ctx, out.Topic, out.Event)
		if err != nil && out.Topic.Kind != transport.KindLive {
			return err
		}
	}
	return nil
}

// refused returns the answer to a message that is in no log.
func refused(tenant string, e *transport.Event, why string, at time.Time) []Output {
	m, ok := userMessage(e)
	if !ok {
		m = &a2a.Message{}
	}
	turn := newTurn(&Entry{Cause: e, Time: at, Turn: transport.TurnID(tenant, e.ContextID, e.From, e.ID)}, m)
	turn.Failed, turn.Answer, turn.Answered = true, why, at
	var out []Output
	outputter{c: NewConversation(tenant, e.ContextID), out: &out}.answer(turn)
	return out
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

// keepRefusal puts r among the refusals that are kept.
func (o *Orchestrator) keepRefusal(ctx context.Context, notes Notes, e *transport.Event, r refusalNote) error {
	var key string
	key, r.Of = refusalOf(e.ContextID, e.From, e.ID)
	for range refusalTries {
		n, err := notes.Note(ctx, o.cfg.Tenant, NoteRefusal, key)
		if err != nil {
			return transport.Temporary(err)
		}
		var kept []refusalNote
		_ = json.Unmarshal(n.Value, &kept) // what nobody can read is of no use to anybody
		kept = slices.DeleteFunc(kept, func(k refusalNote) bool { return k.Of == r.Of || r.Time.Sub(k.Time) > refusalFor })
		kept = append(kept[max(0, len(kept)-maxRefusals+1):], r)
		if n.Value, err = json.Marshal(kept); err != nil {
			return err
		}
		if _, err = notes.PutNote(ctx, o.cfg.Tenant, NoteRefusal, n); !errors.Is(err, ErrConflict) {
			return transport.Temporary(err)
		}
	}
	return transport.Temporary(fmt.Errorf("note %s of refusals: %w", key, ErrConflict))
}

// RefusalOf returns the answer to a message of a person that was refused, and so is in no log. It is kept for a day, in a store that
// is a [Notes].
func RefusalOf(ctx context.Context, s Store, tenant, contextID, from, messageID string) (*a2a.Message, bool, error) {
	notes, ok := s.(Notes)
	if !ok {
		return nil, false, nil
	}
	key, of := refusalOf(contextID, from, messageID)
	n, err := notes.Note(ctx, tenant, NoteRefusal, key)
	if err != nil || len(n.Value) == 0 {
		return nil, false, err
	}
	var kept []refusalNote
	if err := json.Unmarshal(n.Value, &kept); err != nil {
		return nil, false, fmt.Errorf("note %s of refusals: %w", key, err)
	}
	i := slices.IndexFunc(kept, func(k refusalNote) bool { return k.Of == of })
	if i < 0 {
		return nil, false, nil
	}
	out := refused(tenant, &transport.Event{ID: messageID, From: from, ContextID: contextID}, kept[i].Text, kept[i].Time)
	return out[len(out)-1].Event.Payload.(*a2a.Message), true, nil
}
