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
	"github.com/cortex-orchestrator/cortex/internal/puback"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	// commitTimeout bounds an append unless its ctx ends before: a cluster that has lost a server needs some seconds to elect another leader.
	commitTimeout = 10 * time.Second
	// attemptTimeout bounds the first attempt; each further one gets twice the time of the one before. A killed server does not say that no answer
	// will come, and more requests do not help an overloaded one.
	attemptTimeout = time.Second
	retryPause     = 50 * time.Millisecond
)

var errOvertaken = errors.New("the server did not answer, and the conversation has gone on: load it to see whether it has the entry")

// commit publishes m if after is still the last sequence of its subject, and returns the new sequence.
//
// It publishes again when no answer comes. If the first publish was stored after all, the second conflicts with it: the last message then equals m.
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
			// The first publish is being replicated.
		case !passes(err):
			return 0, err
		case errors.Is(err, puback.ErrUnsent): // the server has not seen this attempt
		default:
			unanswered = true
			if errors.Is(err, context.DeadlineExceeded) {
				wait *= 2
			}
		}
		if rest.For(ctx, retryPause) != nil {
			return 0, err
		}
		if !time.Now().Before(end) {
			return 0, err
		}
	}
}

// isConflict reports whether err says that another message is the subject's last one, or is about to be.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// passes reports whether err is temporary: the server is running, but the stream is not available now, for example while a cluster elects a leader.
func passes(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
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
