package memstore

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

var _ storage.Journal = (*Store)(nil)

// journalRecords bounds a batch of records.
const journalRecords = 256

// Journal implements [storage.Journal].
func (s *Store) Journal(ctx context.Context) (storage.JournalInfo, error) {
	if err := ctx.Err(); err != nil {
		return storage.JournalInfo{}, fmt.Errorf("journal: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	info := storage.JournalInfo{Name: "memory", Created: s.created}
	if n := len(s.journal); n > 0 {
		info.Last = s.journal[n-1].version
	}
	return info, nil
}

// Records implements [storage.Journal].
func (s *Store) Records(ctx context.Context, after conversation.Version) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("records after version %d: %w", after, err)
	}
	s.mu.RLock()
	first := s.find(after + 1)
	found := slices.Clone(s.journal[first:min(first+journalRecords, len(s.journal))])
	s.mu.RUnlock()
	var all []storage.Record
	for i := range found {
		all = append(all, found[i].read())
	}
	return all, nil
}

// Record implements [storage.Journal].
func (s *Store) Record(ctx context.Context, version conversation.Version) (storage.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, false, fmt.Errorf("record of version %d: %w", version, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i := s.find(version); i < len(s.journal) && s.journal[i].version == version {
		return s.journal[i].read(), true, nil
	}
	return storage.Record{}, false, nil
}

// find returns the place of the first record from a version on.
func (s *Store) find(v conversation.Version) int {
	i, _ := slices.BinarySearchFunc(s.journal, v, func(r *record, v conversation.Version) int { return cmp.Compare(r.version, v) })
	return i
}

// erase removes the records of a conversation from the journal, and adds one that says so.
func (s *Store) erase(k key) {
	c := s.logs[k]
	if c == nil {
		return
	}
	gone := &record{}
	for _, r := range c.records {
		gone.erased = append(gone.erased, r.version)
	}
	s.journal = slices.DeleteFunc(s.journal, func(r *record) bool { return r.erased == nil && r.key == k })
	s.last++
	gone.version = s.last
	s.journal = append(s.journal, gone)
}

// read returns the record as others get it.
func (r *record) read() storage.Record {
	out := storage.Record{
		Version: r.version, Tenant: r.tenant, ContextID: r.contextID, Data: r.data, Sum: crc32.ChecksumIEEE(r.data), Erased: slices.Clone(r.erased),
	}
	if r.erased != nil {
		return out
	}
	e := &conversation.Entry{}
	if err := e.UnmarshalJSON(r.data); err != nil {
		out.Damage = err.Error()
		return out
	}
	e.Version, out.Entry, out.Stored = r.version, e, e.Time
	return out
}
