package storage

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

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/locks"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the stored refusals. A digest of the conversation and the sender chooses one of refusalNotes notes, which bounds their number. A sender who is
// refused often displaces only their own refusals; without keys all people are one sender, of whom those in other conversations are mostly in other notes.
const (
	refusalNotes = 1024
	maxRefusals  = 64             // in a note; beyond it the oldest of the sender with the most is dropped
	refusalFor   = 24 * time.Hour // no sender waits longer
	refusalTries = 16             // at a note that other processes change at the same time
)

// refusalNote is the refusal of one message.
type refusalNote struct {
	Of   string    `json:"of"` // digest of the message
	By   string    `json:"by"` // digest of the sender
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// refusalOf returns the key of the note for a message's refusal, and the digests of the message and of its sender.
func refusalOf(contextID, from, id string) (key, of, by string) {
	digest := func(parts ...string) []byte {
		var name []byte
		for _, part := range parts {
			name = strconv.AppendQuote(name, part)
		}
		sum := sha256.Sum256(name)
		return sum[:16]
	}
	key = strconv.Itoa(int(binary.BigEndian.Uint16(digest(contextID, from))) % refusalNotes)
	return key, hex.EncodeToString(digest(contextID, from, id)), hex.EncodeToString(digest(from))
}

// Refusals stores why messages are refused. The zero value may be used. It is safe for concurrent use; thousands may be refused at the same time.
type Refusals struct {
	writing locks.Locks[string] // of notes, by key
}

// Keep stores why the message of e was refused, for [RefusalOf].
func (r *Refusals) Keep(ctx context.Context, notes Notes, tenant string, e *transport.Event, why string, now time.Time) error {
	key, of, by := refusalOf(e.ContextID, e.From, e.ID)
	unlock, err := r.writing.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return keep(ctx, notes, tenant, key, refusalNote{Of: of, By: by, Time: now, Text: why})
}

func keep(ctx context.Context, notes Notes, tenant, key string, r refusalNote) error {
	for range refusalTries {
		n, err := notes.Note(ctx, tenant, NoteRefusal, key)
		if err != nil {
			return transport.Temporary(err)
		}
		var kept []refusalNote
		_ = json.Unmarshal(n.Value, &kept) // an unreadable note is replaced
		kept = slices.DeleteFunc(kept, func(k refusalNote) bool { return k.Of == r.Of || r.Time.Sub(k.Time) > refusalFor })
		kept = append(kept, r)
		if len(kept) > maxRefusals {
			kept = withoutOldest(kept)
		}
		if n.Value, err = json.Marshal(kept); err != nil {
			return err
		}
		if _, err = notes.PutNote(ctx, tenant, NoteRefusal, n); !errors.Is(err, ErrConflict) {
			return transport.Temporary(err)
		}
	}
	return transport.Temporary(fmt.Errorf("note %s of refusals: %w", key, ErrConflict))
}

// withoutOldest removes the oldest refusal of the sender with the most refusals.
func withoutOldest(kept []refusalNote) []refusalNote {
	count := map[string]int{}
	most := ""
	for _, k := range kept {
		count[k.By]++
		if count[k.By] > count[most] {
			most = k.By
		}
	}
	i := slices.IndexFunc(kept, func(k refusalNote) bool { return k.By == most })
	return slices.Delete(kept, i, i+1)
}

// RefusalOf returns the answer to a person's message that was refused and so is in no log, and false if there is none. A store that
// implements [Notes] keeps refusals for a day.
func RefusalOf(ctx context.Context, s Store, tenant, contextID, from, messageID string) (*a2a.Message, bool, error) {
	notes, ok := s.(Notes)
	if !ok {
		return nil, false, nil
	}
	key, of, _ := refusalOf(contextID, from, messageID)
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
	out := conversation.Refusal(tenant, &transport.Event{ID: messageID, From: from, ContextID: contextID}, kept[i].Text, kept[i].Time)
	return out[len(out)-1].Event.Payload.(*a2a.Message), true, nil
}
