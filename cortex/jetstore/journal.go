package jetstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

var _ storage.Journal = (*Store)(nil)

// The limits of a batch of records. While the server collects one, nobody can append: a batch is small, so that turns do not notice.
const (
	journalMessages = 256
	journalBytes    = 512 << 10
)

// Journal implements [storage.Journal].
func (s *Store) Journal(ctx context.Context) (storage.JournalInfo, error) {
	ctx, done := context.WithTimeout(ctx, s.timeout)
	defer done()
	stream, err := s.js.Stream(ctx, Stream)
	if err != nil {
		return storage.JournalInfo{}, fmt.Errorf("stream %s: %w", Stream, away(ctx, err))
	}
	info := stream.CachedInfo()
	if info.Cluster != nil && info.Cluster.Leader == "" { // another server may have more
		return storage.JournalInfo{}, fmt.Errorf("stream %s: %w: the servers have not chosen its leader yet", Stream, transport.ErrUnavailable)
	}
	return storage.JournalInfo{Name: Stream, Created: info.Created.UTC(), Last: conversation.Version(info.State.LastSeq)}, nil
}

// Records implements [storage.Journal]. It uses direct gets, for which the server keeps nothing.
func (s *Store) Records(ctx context.Context, after conversation.Version) ([]storage.Record, error) {
	r := &reader{s: s, stream: Stream, all: true, next: uint64(after) + 1}
	if err := r.listen(); err != nil {
		return nil, err
	}
	defer r.close()
	msgs, _, err := r.batch(ctx)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("records after version %d: %w", after, away(ctx, err))
	}
	all := make([]storage.Record, len(msgs))
	for i := range msgs {
		all[i] = recordOf(&msgs[i], msgs[i].when(jetstream.TimeStampHeaer))
	}
	return all, nil
}

// Record implements [storage.Journal].
func (s *Store) Record(ctx context.Context, version conversation.Version) (storage.Record, bool, error) {
	m, err := s.getFromLeader(ctx, Stream, msgGet{Seq: uint64(version)})
	if err != nil || m.seq == 0 {
		return storage.Record{}, false, away(ctx, err)
	}
	m.sum = headerOf(m.header, sumHeader)
	return recordOf(&m, m.at), true, nil
}

// recordOf reads a message of the log.
func recordOf(m *stored, at time.Time) storage.Record {
	r := storage.Record{
		Version: conversation.Version(m.seq), Stored: at.UTC(), Data: m.data,
		Sum: crc32.Update(crc32.Checksum([]byte(m.subject), castagnoli), castagnoli, m.data),
	}
	if m.subject == erasedSubject {
		all, err := parseErased(m.data)
		if err != nil {
			r.Damage = err.Error()
		}
		for _, seq := range all {
			r.Erased = append(r.Erased, conversation.Version(seq))
		}
		if len(r.Erased) > 0 {
			return r
		}
	}
	var err error
	if r.Tenant, r.ContextID, err = conversationOf(m.subject); err != nil {
		r.Damage = fmt.Sprintf("%.200q: %v", m.subject, err)
		return r
	}
	c := chain{started: true} // whether it follows its predecessor is for a fold to find out
	if r.Entry, err = c.next(m); err != nil {
		r.Entry, r.Damage = nil, err.Error()
	}
	return r
}
