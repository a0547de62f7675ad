package jetstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Redirect makes s ask prefix instead of the server, wait for at most timeout, and treat the stream as replicated.
func (s *Store) Redirect(prefix string, timeout time.Duration, replicated bool) {
	s.api, s.timeout, s.replicated = prefix, timeout, replicated
}

// LoseAnswers makes s not hear the answers to its next n appends, which are stored. It returns how many are still to be lost.
func (s *Store) LoseAnswers(n int) *int {
	s.js = &forgetful{JetStream: s.js, left: n}
	return &s.js.(*forgetful).left
}

type forgetful struct {
	jetstream.JetStream
	left int
}

func (f *forgetful) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := f.JetStream.PublishMsg(ctx, m, o...)
	if err == nil && f.left > 0 {
		f.left--
		return nil, context.DeadlineExceeded
	}
	return ack, err
}

// Guard has s publish only while pass says so.
func (s *Store) Guard(pass func() bool) { s.js = &guarded{s.js, pass} }

type guarded struct {
	jetstream.JetStream
	pass func() bool
}

func (g *guarded) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if !g.pass() {
		return nil, errors.New("killed")
	}
	return g.JetStream.PublishMsg(ctx, m, o...)
}

// Ask is what Open does with each of its steps.
func (s *Store) Ask(ctx context.Context, step func(context.Context) error) error {
	return s.ask(ctx, step)
}

// FetchNothing waits for the header of a message that nobody sends.
func (s *Store) FetchNothing(ctx context.Context) error {
	consumer, err := s.stream.CreateConsumer(context.WithoutCancel(ctx), jetstream.ConsumerConfig{FilterSubject: subject + "nobody", AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		return err
	}
	_, err = s.fetchHeaders(ctx, consumer, 1, map[string]listed{})
	return err
}
