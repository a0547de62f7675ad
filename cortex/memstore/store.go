// Package memstore keeps conversations in memory: for tests, for scripts that ask once, and for programs that use
// Cortex as a library and keep nothing when they end. It is the reference implementation for package storetest.
package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Snapshots = (*Store)(nil)
	_ storage.SpendLog  = (*Store)(nil)
	_ storage.Notes     = (*Store)(nil)
	_ storage.Eraser    = (*Store)(nil)
)

// Store is a [storage.Store], a [storage.Snapshots], a [storage.SpendLog], a [storage.Notes], a [storage.Eraser] and a [storage.Journal] in memory. It
// grows without bound. Make one with [New].
type Store struct {
	mu    sync.RWMutex
	last  conversation.Version // of all conversations, so that a version belongs to only one of them
	logs  map[key]*history
	snaps map[key]snapshot
	spent map[account]llm.Usage
	notes map[shelf]map[string]note

	created time.Time
	journal []*record // of all logs, the oldest first
}

type (
	key     struct{ tenant, contextID string }
	account struct{ tenant, day string }
)

// history is the log of one conversation. Its records are only appended to, so a reader may keep using an old slice of them.
type history struct {
	records []*record
	title   string
	titled  bool
	updated time.Time
}

// record is an entry of a conversation's log, or in the journal what was erased. It is immutable.
type record struct {
	key
	version conversation.Version
	data    []byte                 // the entry as JSON, so that nothing is shared with its writers and readers
	erased  []conversation.Version // nil: it is an entry
}

type snapshot struct {
	version conversation.Version
	data    []byte
}

// New returns an empty Store.
func New() *Store {
	return &Store{logs: map[key]*history{}, snaps: map[key]snapshot{}, spent: map[account]llm.Usage{}, notes: map[shelf]map[string]note{}, created: time.Now().UTC()}
}

// Load implements [storage.Store]. It yields the log as it was when the iteration began.
func (s *Store) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		for _, r := range s.since(tenant, contextID, after) {
			e := &conversation.Entry{}
			err := ctx.Err()
			if err == nil {
				err = e.UnmarshalJSON(r.data)
			}
			if err != nil {
				yield(nil, fmt.Errorf("load %q at version %d: %w", contextID, r.version, err))
				return
			}
			e.Version = r.version
			if !yield(e, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, fmt.Errorf("load %q: %w", contextID, err))
		}
	}
}

// End implements [storage.Ends].
func (s *Store) End(ctx context.Context, tenant, contextID string) (*conversation.Entry, error) {
	all := s.since(tenant, contextID, 0)
	if err := ctx.Err(); err != nil || len(all) == 0 {
		return nil, err
	}
	e, last := &conversation.Entry{}, all[len(all)-1]
	if err := e.UnmarshalJSON(last.data); err != nil {
		return nil, fmt.Errorf("the end of %q at version %d: %w", contextID, last.version, err)
	}
	e.Version = last.version
	return e, nil
}

func (s *Store) since(tenant, contextID string, after conversation.Version) []*record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.logs[key{tenant, contextID}]
	if c == nil {
		return nil
	}
	first, _ := slices.BinarySearchFunc(c.records, after+1, func(r *record, v conversation.Version) int { return cmp.Compare(r.version, v) })
	return c.records[first:]
}

// Append implements [storage.Store].
func (s *Store) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("append to %q: %w", contextID, err)
	}
	data, err := e.MarshalJSON()
	if err != nil {
		return 0, fmt.Errorf("append to %q: %w: %w", contextID, transport.ErrInvalid, err)
	}
	title, titled := e.Title()

	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{tenant, contextID}
	c := s.logs[k]
	var last conversation.Version
	if c != nil {
		last = c.records[len(c.records)-1].version
	}
	if after != last {
		return 0, fmt.Errorf("append to %q after version %d, the last is %d: %w", contextID, after, last, storage.ErrConflict)
	}
	if c == nil {
		c = &history{}
		s.logs[k] = c
	}
	s.last++
	r := &record{key: k, version: s.last, data: data}
	c.records = append(c.records, r)
	s.journal = append(s.journal, r)
	c.updated = e.Time
	if titled && !c.titled {
		c.title, c.titled = title, true
	}
	return s.last, nil
}

// Contexts implements [storage.Store]. It yields the conversations as they were when the iteration began.
func (s *Store) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		for _, info := range s.list(tenant) {
			if err := ctx.Err(); err != nil {
				yield(storage.ContextInfo{}, fmt.Errorf("list conversations: %w", err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *Store) list(tenant string) []storage.ContextInfo {
	var all []storage.ContextInfo
	s.mu.RLock()
	for k, c := range s.logs {
		if k.tenant == tenant {
			last := c.records[len(c.records)-1].version
			all = append(all, storage.ContextInfo{ContextID: k.contextID, Title: c.title, Entries: len(c.records), Updated: c.updated, Version: last})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(all, func(a, b storage.ContextInfo) int { return cmp.Compare(b.Version, a.Version) })
	return all
}

// Snapshot implements [storage.Snapshots].
func (s *Store) Snapshot(ctx context.Context, tenant, contextID string) (conversation.Version, []byte, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := s.snaps[key{tenant, contextID}]
	return snap.version, slices.Clone(snap.data), nil
}

// PutSnapshot implements [storage.Snapshots].
func (s *Store) PutSnapshot(ctx context.Context, tenant, contextID string, v conversation.Version, data []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put snapshot of %q: %w", contextID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{tenant, contextID}
	if c := s.logs[k]; c == nil || v < c.records[0].version {
		return nil // the conversation was erased
	}
	s.snaps[k] = snapshot{v, slices.Clone(data)}
	return nil
}

// Erase implements [storage.Eraser].
func (s *Store) Erase(ctx context.Context, tenant, contextID string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("erase %q: %w", contextID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase(key{tenant, contextID})
	delete(s.logs, key{tenant, contextID})
	delete(s.snaps, key{tenant, contextID})
	return nil
}

// Spent implements [storage.SpendLog].
func (s *Store) Spent(ctx context.Context, tenant, day string) (llm.Usage, error) {
	if err := ctx.Err(); err != nil {
		return llm.Usage{}, fmt.Errorf("spent on %s: %w", day, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.spent[account{tenant, day}], nil
}

// Spend implements [storage.SpendLog]. No day is forgotten.
func (s *Store) Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	if err := ctx.Err(); err != nil {
		return llm.Usage{}, fmt.Errorf("spend on %s: %w", day, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := account{tenant, day}
	s.spent[k] = s.spent[k].Add(u)
	return s.spent[k], nil
}
