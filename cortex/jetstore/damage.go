package jetstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// sumHeader carries the checksum of an entry. The server's own checksum does not cover where the parts of a message begin. Entries of older
// versions have none.
const sumHeader = "Cortex-Sum"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of an entry of a conversation. The entry's number is part of data.
func sumOf(subject string, data []byte) string {
	sum := crc32.Update(crc32.Checksum([]byte(subject), castagnoli), castagnoli, data)
	return strconv.FormatUint(uint64(sum), 16)
}

// damage is the error for an entry that was changed or is missing.
type damage struct {
	at  uint64 // sequence
	why string
}

// Error implements error.
func (d *damage) Error() string { return d.why }

// chain checks that the entries of a conversation are consecutive. The zero chain begins with the first entry.
type chain struct {
	seq     uint64 // number of the last entry
	started bool   // it begins after an entry whose number is unknown
}

// next returns the entry in m, which must be the next one; otherwise it returns a *damage.
func (c *chain) next(m *stored) (*conversation.Entry, error) {
	if m.sum != "" && m.sum != sumOf(m.subject, m.data) {
		return nil, &damage{m.seq, fmt.Sprintf("the checksum of what is behind entry %d, at version %d, does not fit", c.seq, m.seq)}
	}
	e := &conversation.Entry{}
	if err := e.UnmarshalJSON(m.data); err != nil {
		return nil, &damage{m.seq, fmt.Sprintf("what is behind entry %d, at version %d, cannot be read: %v", c.seq, m.seq, err)}
	}
	if err := c.follow(m.seq, e.Seq); err != nil {
		return nil, err
	}
	e.Version = conversation.Version(m.seq)
	return e, nil
}

// follow adds the number of the entry at a version.
func (c *chain) follow(version, seq uint64) error {
	if seq != c.seq+1 && (!c.started || c.seq > 0) {
		return &damage{version, fmt.Sprintf("behind entry %d comes entry %d, at version %d", c.seq, seq, version)}
	}
	c.seq = seq
	return nil
}

// broken records the damaged conversations.
type broken struct {
	mu  sync.Mutex
	all map[string]Damaged
}

// Damaged describes a damaged conversation.
type Damaged struct {
	Account   string `json:"account,omitempty"` // of the server, if known
	Tenant    string `json:"tenant,omitempty"`
	ContextID string `json:"context_id"`
	Why       string `json:"why"`
	Good      int    `json:"good"` // entries before the damage, if counted
	Rest      int    `json:"rest"` // entries after it
}

// maxBroken bounds the recorded damaged conversations.
const maxBroken = 10_000

// Damaged returns the known damaged conversations: those passed to NoteDamaged, and those whose loading has failed.
func (s *Store) Damaged() []Damaged {
	s.broken.mu.Lock()
	defer s.broken.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.broken.all), func(a, b Damaged) int {
		return strings.Compare(a.Tenant+"\x00"+a.ContextID, b.Tenant+"\x00"+b.ContextID)
	})
}

// NoteDamaged records that a conversation is damaged, and logs it once. It drops the conversation's outline, which does not show the damage, so
// that listing the conversation reads its log.
func (s *Store) NoteDamaged(ctx context.Context, d Damaged) {
	subject := subjectOf(d.Tenant, d.ContextID)
	s.broken.mu.Lock()
	_, known := s.broken.all[subject]
	if !known && len(s.broken.all) < maxBroken {
		if s.broken.all == nil {
			s.broken.all = map[string]Damaged{}
		}
		s.broken.all[subject] = d
	}
	s.broken.mu.Unlock()
	if !known {
		if err := s.DeleteNote(ctx, d.Tenant, storage.NoteOutline, d.ContextID, 0); err != nil && !errors.Is(err, errSealed) {
			s.log.Warn("outline not dropped", "context_id", d.ContextID, "err", err)
		}
		s.log.Error("a conversation is damaged: see cortex doctor", "context_id", d.ContextID, "tenant", d.Tenant, "why", d.Why)
	}
}

// confirm returns the error for a conversation that seems to be damaged. It reads the conversation again from its beginning, since one that is
// erased during a load looks the same.
func (s *Store) confirm(ctx context.Context, tenant, contextID string, first *damage) error {
	subject := subjectOf(tenant, contextID)
	good := 0
	err := s.load(ctx, subject, 0, func(*conversation.Entry) bool { good++; return true })
	var again *damage
	switch {
	case err != nil && !errors.As(err, &again):
		return err
	case err == nil || again.at != first.at:
		return fmt.Errorf("%w: it was replaced while it was read: %s", transport.ErrUnavailable, first.why)
	}
	s.NoteDamaged(ctx, Damaged{Tenant: tenant, ContextID: contextID, Why: again.why, Good: good})
	return fmt.Errorf("%w: %w: `cortex doctor` tells more", conversation.ErrDamaged, again)
}

// Repair truncates a damaged conversation after its last good entry. It passes the later messages to keep, the oldest first, calls kept, and then
// erases them. It returns the number of remaining entries.
func (s *Store) Repair(ctx context.Context, tenant, contextID string, keep func(version uint64, data []byte) error, kept func() error) (good int, err error) {
	subject := subjectOf(tenant, contextID)
	var c chain
	var rest []uint64
	var kerr error
	err = s.readAll(ctx, Stream, subject, func(m *stored) {
		if len(rest) == 0 {
			if _, err := c.next(m); err == nil {
				good++
				return
			}
		}
		rest = append(rest, m.seq)
		if kerr == nil {
			kerr = keep(m.seq, m.data)
		}
	})
	if err == nil {
		err = kerr
	}
	if err == nil {
		err = kept()
	}
	if err == nil {
		err = s.recordErased(ctx, rest...)
	}
	for _, seq := range slices.Backward(rest) {
		if err == nil {
			err = s.eraseMessage(ctx, Stream, seq)
		}
	}
	if err == nil { // the snapshot may cover erased entries
		err = s.purge(ctx, "KV_"+Bucket, "$KV."+Bucket+"."+keyOf(tenant, contextID))
	}
	if err != nil {
		return 0, fmt.Errorf("repair %q: %w", contextID, away(ctx, err))
	}
	s.broken.mu.Lock()
	delete(s.broken.all, subject)
	s.broken.mu.Unlock()
	return good, nil
}

// erasedSubject is the subject of messages that list sequences that are about to be erased. All other missing sequences are lost. It is no subject
// of a conversation, since those also contain a tenant.
const erasedSubject = subject + "erased"

// maxErased bounds the sequences in one message.
const maxErased = 50_000

// recordErased records in the log's stream that messages are about to be erased.
func (s *Store) recordErased(ctx context.Context, all ...uint64) error {
	for some := range slices.Chunk(all, maxErased) {
		m := nats.NewMsg(erasedSubject)
		m.Data = formatErased(some)
		m.Header.Set(sumHeader, sumOf(m.Subject, m.Data))
		if _, err := s.js.PublishMsg(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// formatErased formats sequences: the first one, then the difference of each to its predecessor.
func formatErased(all []uint64) []byte {
	var b []byte
	before := uint64(0)
	for i, seq := range all {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendUint(b, seq-before, 10)
		before = seq
	}
	return b
}

// parseErased parses the output of formatErased.
func parseErased(b []byte) (all []uint64, err error) {
	seq := uint64(0)
	for word := range strings.FieldsSeq(string(b)) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil, err
		}
		seq += n
		all = append(all, seq)
	}
	return all, nil
}
