package jetstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

const (
	// eraseTries bounds the entries that Erase removes in addition to those that existed when it began.
	eraseTries = 1000
	// eraseAhead is how many sequences are recorded as erased at a time while other processes append.
	eraseAhead = 256
)

var _ storage.Eraser = (*Store)(nil)

// Erase implements [storage.Eraser]. It overwrites each entry in the server's files, on all replicas. The first entry has the key of the
// conversation's snapshots, so that no snapshot can be read after that, including copies elsewhere. It first records the sequences in the stream,
// so that they do not count as lost, see [erasedSubject]. Two things are out of reach: a stream that denies deletion, made by an older version, is
// only purged, and its files contain the bytes until the server rewrites them; and the servers of a cluster keep the bytes in their replication
// logs until they compact those.
//
// Erase deletes the outline first, since nobody would delete what is left of it once the log is gone. It deletes the outline again after the log,
// since another process may put it until then.
func (s *Store) Erase(ctx context.Context, tenant, contextID string) error {
	if err := s.DeleteNote(ctx, tenant, storage.NoteOutline, contextID, 0); err != nil {
		return fmt.Errorf("erase the outline of %q: %w", contextID, err)
	}
	if err := s.erase(ctx, subjectOf(tenant, contextID)); err != nil {
		return fmt.Errorf("erase %q: %w", contextID, away(ctx, err))
	}
	if err := s.DeleteNote(ctx, tenant, storage.NoteOutline, contextID, 0); err != nil {
		return fmt.Errorf("erase the outline of %q: %w", contextID, err)
	}
	err := s.purge(ctx, "KV_"+Bucket, "$KV."+Bucket+"."+keyOf(tenant, contextID))
	if err != nil {
		return fmt.Errorf("erase the snapshot of %q: %w", contextID, away(ctx, err))
	}
	return nil
}

func (s *Store) erase(ctx context.Context, subject string) error {
	end, err := s.lastOf(ctx, subject)
	if err != nil {
		return err
	}
	if end == 0 {
		if n, err := s.unread(ctx, subject); err != nil || n == 0 {
			return err
		}
	}
	var all []uint64 // the sequences of the conversation's entries
	if err := s.readAll(ctx, Stream, subject, func(m *stored) { all = append(all, m.seq) }); err != nil {
		return err
	}
	if err := s.recordErased(ctx, all...); err != nil {
		return err
	}
	if s.stream.CachedInfo().Config.DenyDelete {
		s.log.Warn("stream denies deleting: the server's files keep erased messages for a while", "stream", Stream)
		return s.purge(ctx, Stream, subject)
	}
	// The newest first: concurrent appends then conflict, and what is left after an interruption is the beginning of a log.
	for _, seq := range slices.Backward(all) {
		if err := s.eraseMessage(ctx, Stream, seq); err != nil {
			return err
		}
	}
	// Erase what was appended meanwhile, and what the answering replica did not have. A writer that goes on must not be faster, so some sequences are
	// recorded as erased before any message gets them.
	said := uint64(0)
	for range eraseTries {
		last, err := s.lastOf(ctx, subject)
		if err != nil {
			return err
		}
		if last == 0 {
			return s.unerased(ctx, subject)
		}
		if last > end {
			first, err := s.getFromLeader(ctx, Stream, msgGet{Seq: 1, Next: subject})
			if err != nil {
				return err
			}
			if place, _ := placeOf(first.data); place == 1 && first.seq > end {
				return nil // the conversation was begun anew
			}
		}
		if last > said {
			some := make([]uint64, eraseAhead)
			for i := range some {
				some[i] = last + uint64(i)
			}
			if err := s.recordErased(ctx, some...); err != nil {
				return err
			}
			said = some[len(some)-1]
		}
		if err := s.eraseMessage(ctx, Stream, last); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: others appended %d entries in the meantime", storage.ErrConflict, eraseTries)
}

// unerased returns an error if entries are left that the server cannot read, and so does not name: it leaves them out when it starts again.
func (s *Store) unerased(ctx context.Context, subject string) error {
	n, err := s.unread(ctx, subject)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d entries cannot be read and are not erased: start the service with the store again, then delete again", conversation.ErrDamaged, n)
	}
	return err
}

// eraseMessage removes a message from a stream and overwrites it.
func (s *Store) eraseMessage(ctx context.Context, stream string, seq uint64) error {
	req, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		return err
	}
	m, err := s.request(ctx, s.nc, "STREAM.MSG.DELETE.", stream, req)
	if err != nil {
		return err
	}
	var resp struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return err
	}
	if resp.Error == nil {
		return nil
	}
	if m, err := s.getFromLeader(ctx, stream, msgGet{Seq: seq}); err == nil && m.seq == 0 {
		return nil // another process erased it; the server has several errors for that
	}
	return resp.Error
}

// purge removes a subject's messages from a stream without overwriting them.
func (s *Store) purge(ctx context.Context, name, subject string) error {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
