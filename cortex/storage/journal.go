package storage

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Journal is implemented by stores that keep the entries of all conversations, of all tenants, in one sequence. It is for copies of the log elsewhere.
// Reading it leaves nothing in the store, neither a position nor a reader's name, and disturbs no other reader.
type Journal interface {
	// Journal describes the sequence as it is now.
	Journal(ctx context.Context) (JournalInfo, error)
	// Records returns the next records after version after, oldest first. It returns a bounded number of them, and none when there are no later ones
	// yet. Versions are missing where entries were erased.
	Records(ctx context.Context, after conversation.Version) ([]Record, error)
	// Record returns the record of a version, and false when there is none: it was erased, or is lost, or does not exist yet.
	Record(ctx context.Context, version conversation.Version) (Record, bool, error)
}

// JournalInfo describes a journal.
type JournalInfo struct {
	Name string
	// Created distinguishes the journal from another one of the same name, before it or elsewhere. Its versions are not those of the other.
	Created time.Time
	Last    conversation.Version // of the last record; 0: there was none
}

// Record is one record of a journal: an entry, or a note about entries that are about to be erased.
type Record struct {
	Version           conversation.Version
	Tenant, ContextID string
	Stored            time.Time // when the store stored it, by the store's clock
	Data              []byte    // the entry as it is stored
	Sum               uint32    // a checksum of the record as it is stored now
	// Entry is nil when it cannot be read, for the reason in Damage.
	Entry  *conversation.Entry
	Damage string
	// Erased are the versions of records that may be missing from here on, because they are erased. A record with a version that is still there was not
	// erased, or not yet: a store says this before it erases. With them, the record has no entry and no conversation.
	Erased []conversation.Version
}
