package jetstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

const (
	// commitTimeout is how long an append is tried, when its ctx does not end before: a cluster that has lost a server needs
	// some seconds to elect another.
	commitTimeout = 10 * time.Second
	// attemptTimeout is how long the first attempt waits for its answer, and each further one twice as long as the one before: a server
	// that is killed does not say that none will come, and one that has too much to do is not helped by more work.
	attemptTimeout = time.Second
	retryPause     = 50 * time.Millisecond
)

var errOvertaken = errors.New("the server did not answer, and the conversation has gone on: whether the entry is in it, loading it tells")

// commit publishes m if after is still the last sequence of its subject, and returns its own.
//
// It is published again when no answer comes. If the first was stored after all, that is a conflict with itself: the
// last message is then this one.
func (s *Store) commit(ctx context.Context, m *nats.Msg, after uint64) (uint64, error) {
	m.Header[jetstream.ExpectedStreamHeader] = []string{Stream}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(after, 10)}
	end := time.Now().Add(commitTimeout)
	unanswered := false
	for wait := attemptTimeout; ; {
		seq, err := s.publish(ctx, m, min(wait, time.Until(end)))
		switch {
		case err == nil:
			return seq, nil
		case isConflict(err) && !unanswered:
			return 0, fmt.Errorf("%w: %w", storage.ErrConflict, err)
		case isConflict(err):
			asking, done := context.WithDeadline(ctx, end)
			last, lerr := s.last(asking, m.Subject)
			done()
			switch {
			case lerr != nil:
				return 0, lerr
			case last.seq > after && bytes.Equal(last.data, m.Data):
				return last.seq, nil
			case last.seq != after:
				return 0, errOvertaken
			}
			// The first one is on its way to the other servers.
		case !passes(err):
			return 0, err
		default:
			unanswered = true
			if errors.Is(err, context.DeadlineExceeded) {
				wait *= 2
			}
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return 0, err
		}
		if !time.Now().Before(end) {
			return 0, err
		}
	}
}

// isConflict reports that another message is the last one of the subject, or will be in a moment.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// passes reports that a server is there, and that the stream is not for now: a cluster elects its leader.
func passes(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case 10008, // JetStream system temporarily unavailable
			10009, // JetStream cluster can not handle request
			10023, // insufficient resources
			10163, // expected last sequence per subject temporarily unavailable
			10167: // too many requests
			return true
		}
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse)
}
