package jetstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

var _ storage.Clock = (*Store)(nil)

// Clock implements [storage.Clock] by the clock of the server that leads the stream.
func (s *Store) Clock(ctx context.Context) (now, last time.Time, err error) {
	stream, err := s.js.Stream(ctx, Stream)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("ask the server for the time: %w", away(ctx, err))
	}
	info := stream.CachedInfo()
	if info.State.LastSeq > 0 {
		last = info.State.LastTime
	}
	return info.TimeStamp, last, nil
}

// Stored implements [storage.Clock].
func (s *Store) Stored(ctx context.Context, tenant, contextID string) (time.Time, error) {
	var at time.Time
	err := s.lastsOf(ctx, []string{subjectOf(tenant, contextID)}, func(m *stored) { at = m.when(jetstream.TimeStampHeaer) })
	if err != nil && !errors.Is(err, errNotFound) {
		return time.Time{}, fmt.Errorf("ask when %q was stored: %w", contextID, away(ctx, err))
	}
	return at, nil
}
