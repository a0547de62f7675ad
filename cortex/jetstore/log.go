package jetstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// timeHeader carries Entry.Time, so that conversations can be listed from headers alone.
const timeHeader = "Cortex-Time"

// lagStep is the pause before a replica that is behind the leader is asked again.
const lagStep = 10 * time.Millisecond

// Append implements [storage.Store]. It returns [transport.ErrTooLarge] for an entry above the server's maximum message size. After any other error
// but ErrConflict, e may have been stored.
func (s *Store) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	v, err := s.append(ctx, subjectOf(tenant, contextID), after, e)
	if err != nil {
		return 0, fmt.Errorf("append to %q after version %d: %w", contextID, after, err)
	}
	return v, nil
}

func (s *Store) append(ctx context.Context, subject string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	data, err := e.MarshalJSON()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", transport.ErrInvalid, err)
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{timeHeader: {e.Time.Format(time.RFC3339Nano)}, sumHeader: {sumOf(subject, data)}}}
	if after == 0 {
		m.Header[keyHeader] = []string{newKey()}
		defer s.dropStale(ctx, subject)()
	}
	// The expected sequence alone prevents a second append. A message id would do so only within its window.
	seq, err := s.commit(ctx, m, uint64(after))
	if errors.Is(err, nats.ErrMaxPayload) {
		return 0, fmt.Errorf("%w: the entry is %d bytes, a message on this server at most %d; raise its max_payload (Cortex uses up to 8 MB)",
			transport.ErrTooLarge, len(data), s.nc.MaxPayload())
	}
	return conversation.Version(seq), err
}

// Load implements [storage.Store]. It reads in batches of bounded size as the caller iterates.
//
// A load ends without an error only when the server has said that no message is left. On a stream with one replica that is enough: the server reads
// its own writes. On several, a follower that is behind may answer a direct get, so Load first asks the leader for the conversation's last sequence
// and reads up to that; if the follower does not catch up in time, Load returns an error.
func (s *Store) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		subject := subjectOf(tenant, contextID)
		err := s.load(ctx, subject, uint64(after), func(e *conversation.Entry) bool { return yield(e, nil) })
		if d, ok := errors.AsType[*damage](err); ok {
			err = s.confirm(ctx, tenant, contextID, d)
		}
		if err != nil {
			yield(nil, fmt.Errorf("load %q after version %d: %w", contextID, after, away(ctx, err)))
		}
	}
}

// load calls each for the entries until it returns false, which is no error. For an entry that does not follow its predecessor it returns a
// *damage.
func (s *Store) load(ctx context.Context, subject string, after uint64, each func(*conversation.Entry) bool) error {
	var want uint64 // the sequence that must be reached
	if s.replicated {
		var err error
		if want, err = s.lastOf(ctx, subject); err != nil || want <= after {
			return err
		}
	} else if _, err := s.get(ctx, subject, after+1); errors.Is(err, errNotFound) {
		return nil // a new conversation, or nothing new: a batch has the server read blocks of the log to say so
	} else if err != nil {
		return err
	}
	r, err := s.newReader(Stream, subject, after+1)
	if err != nil {
		return err
	}
	defer r.close()
	chain := chain{started: after > 0}
	left := uint64(0)
	for lag := time.Duration(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		msgs, more, err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotFound) && left > 0 && !s.replicated:
			// Messages are being removed, or one cannot be read: the server gives the same answer in both cases. With several replicas, one that is behind
			// may have answered.
			return &damage{at: r.next, why: fmt.Sprintf("%d entries that were there cannot be read any more", left)}
		case errors.Is(err, errNotFound):
			more = 0
		case err != nil:
			return err
		}
		for i := range msgs {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := chain.next(&msgs[i])
			if err != nil {
				return err
			}
			if !each(e) {
				return nil
			}
		}
		left = more
		if left > 0 {
			continue
		}
		if r.next > want {
			return nil
		}
		if lag += lagStep; lag > s.timeout {
			return fmt.Errorf("the replica that answers is behind: it has nothing from %d on, the last is %d", r.next, want)
		}
		_ = rest.For(ctx, lagStep)
	}
}

var _ storage.Ends = (*Store)(nil)

// End implements [storage.Ends]. With several replicas it asks the leader, since another one may be behind.
func (s *Store) End(ctx context.Context, tenant, contextID string) (*conversation.Entry, error) {
	subject := subjectOf(tenant, contextID)
	last := s.lastHere
	if s.replicated {
		last = s.last
	}
	m, err := last(ctx, subject)
	if err != nil && !errors.Is(err, errNotFound) {
		return nil, fmt.Errorf("the end of %q: %w", contextID, away(ctx, err))
	}
	if m.seq == 0 {
		return nil, nil
	}
	c := chain{started: true}
	e, err := c.next(&m)
	if err != nil {
		return nil, nil //nolint:nilerr // a load says what is damaged
	}
	return e, nil
}
