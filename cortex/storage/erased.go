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

	"github.com/cortex-orchestrator/cortex/transport"
)

// NoteErased is the kind of the notes that say when conversations were deleted. They name a conversation only by its digest, so a store that encrypts
// notes may leave them in plain text.
const NoteErased = "erased"

// Bounds of the marks of deleted conversations. A digest of the conversation chooses one of erasedNotes notes.
const (
	erasedNotes = 1024
	maxErased   = 256            // in a note; beyond it the oldest is dropped
	erasedFor   = 24 * time.Hour // a server that was killed is behind by minutes
	erasedTries = 16             // at a note that others change at the same time
)

// erasedMark says that a conversation was deleted.
type erasedMark struct {
	Of string    `json:"of"` // digest of the conversation
	At time.Time `json:"at"` // by the clock of the store
}

// erasedOf returns the key of the note for a conversation's mark, and its digest.
func erasedOf(contextID string) (key, of string) {
	sum := sha256.Sum256([]byte(contextID))
	return strconv.Itoa(int(binary.BigEndian.Uint16(sum[:])) % erasedNotes), hex.EncodeToString(sum[:16])
}

// Now returns the time by the clock of a store that is a [Clock], or else by this process's.
func Now(ctx context.Context, s Store) (time.Time, error) {
	if c, ok := s.(Clock); ok {
		if now, _, err := c.Clock(ctx); err != nil || !now.IsZero() {
			return now, err
		}
	}
	return time.Now(), nil
}

// KeepErased stores that a conversation is being deleted now, for [ErasedAt]. It is called before the conversation's events are erased, so that it is
// about none that comes later.
func KeepErased(ctx context.Context, s Store, tenant, contextID string) error {
	notes, ok := s.(Notes)
	if !ok {
		return nil
	}
	now, err := Now(ctx, s)
	if err != nil {
		return err
	}
	key, of := erasedOf(contextID)
	for range erasedTries {
		n, err := notes.Note(ctx, tenant, NoteErased, key)
		if err != nil {
			return err
		}
		var kept []erasedMark
		_ = json.Unmarshal(n.Value, &kept) // an unreadable note is replaced
		kept = slices.DeleteFunc(kept, func(k erasedMark) bool { return k.Of == of || now.Sub(k.At) > erasedFor })
		kept = append(kept, erasedMark{of, now.UTC()})
		kept = kept[max(0, len(kept)-maxErased):]
		if n.Value, err = json.Marshal(kept); err != nil {
			return err
		}
		if _, err = notes.PutNote(ctx, tenant, NoteErased, n); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("note %s of deleted conversations: %w", key, ErrConflict)
}

// ErasedAt returns when a conversation was deleted last, by the clock of the store; the zero time if that is unknown. Stores that implement [Notes]
// remember it for a day, and of many deletions the latest.
func ErasedAt(ctx context.Context, s Store, tenant, contextID string) (time.Time, error) {
	notes, ok := s.(Notes)
	if !ok {
		return time.Time{}, nil
	}
	key, of := erasedOf(contextID)
	n, err := notes.Note(ctx, tenant, NoteErased, key)
	if err != nil {
		return time.Time{}, transport.Temporary(err)
	}
	var kept []erasedMark
	_ = json.Unmarshal(n.Value, &kept) // nothing is known from an unreadable one, which must not stop anything
	if i := slices.IndexFunc(kept, func(k erasedMark) bool { return k.Of == of }); i >= 0 {
		return kept[i].At, nil
	}
	return time.Time{}, nil
}
