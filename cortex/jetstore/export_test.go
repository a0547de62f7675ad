package jetstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Redirect makes s send requests to prefix instead of the server, wait at most timeout, and treat the stream as replicated.
func (s *Store) Redirect(prefix string, timeout time.Duration, replicated bool) {
	s.api, s.timeout, s.replicated = prefix, timeout, replicated
}

// DeleteKeys does what listing notes does about the keys of a note that was not there when it looked.
func (s *Store) DeleteKeys(ctx context.Context, tenant, kind, key string) error {
	return s.deleteSealed(ctx, noteKey(tenant, kind, key), 0, true)
}

// LoseAnswers makes s miss the answers to its next n appends, which are stored. It returns the number still to be lost.
func (s *Store) LoseAnswers(n int) *int {
	publish := s.publish
	s.publish = func(ctx context.Context, m *nats.Msg, wait time.Duration) (uint64, error) {
		seq, err := publish(ctx, m, wait)
		if err == nil && n > 0 {
			n--
			return 0, context.DeadlineExceeded
		}
		return seq, err
	}
	return &n
}

// Guard makes s publish only while pass returns true.
func (s *Store) Guard(pass func() bool) {
	s.js = &guarded{s.js, pass}
	publish := s.publish
	s.publish = func(ctx context.Context, m *nats.Msg, wait time.Duration) (uint64, error) {
		if !pass() {
			return 0, errKilled
		}
		return publish(ctx, m, wait)
	}
}

var errKilled = errors.New("killed")

type guarded struct {
	jetstream.JetStream
	pass func() bool
}

func (g *guarded) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if !g.pass() {
		return nil, errKilled
	}
	return g.JetStream.PublishMsg(ctx, m, o...)
}

// Ask performs one step of Open.
func (s *Store) Ask(ctx context.Context, step func(context.Context) error) error {
	return s.ask(ctx, step)
}
