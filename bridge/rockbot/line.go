package rockbot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	toldEach   = time.Minute // that RabbitMQ takes no messages
	maxReasons = 8           // that are said of one absence
)

// line is the connection to RabbitMQ, made again whenever it has ended. It is safe for concurrent use.
type line struct {
	address string // URL, with a password
	log     *slog.Logger
	pauses  [2]time.Duration // the shortest and the longest between two connections
	waits   func(error)      // is told why there is no session; nil: there is one
	// begin declares and consumes what is needed on a new connection.
	begin func(ctx context.Context, s *session) error

	told time.Time // when it was logged last that RabbitMQ takes nothing; of run only

	mu sync.Mutex
	is *session
	up chan struct{} // closed while there is a session
}

func newLine(address string, log *slog.Logger, pauses [2]time.Duration, waits func(error)) *line {
	return &line{address: address, log: log, pauses: pauses, waits: waits, up: make(chan struct{})}
}

// run keeps the connection until ctx ends. It says once that RabbitMQ is away, once what RabbitMQ itself refuses, and once that it is there.
func (l *line) run(ctx context.Context) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: l.pauses[0], MaxInterval: l.pauses[1], Multiplier: 2, RandomizationFactor: 0.25}
	pauses.Reset()
	told := map[string]bool{}
	for {
		up, err := l.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if up {
			pauses.Reset()
			clear(told)
		}
		l.waits(fmt.Errorf("no connection to RabbitMQ at %s: %s", shown(l.address), l.clean(err)))
		if why := refusal(err); !told[why] && len(told) < maxReasons {
			l.log.Warn("no connection to RabbitMQ: it is tried again and again", "address", shown(l.address), "err", l.clean(err))
			told[why] = true
		}
		if err := rest.For(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// flows says that RabbitMQ takes messages, or why it does not: tasks and answers wait then, and nothing else would say so.
func (l *line) flows(why string) {
	if why == "" {
		l.waits(nil)
		return
	}
	l.waits(fmt.Errorf("RabbitMQ at %s takes no messages now: %s", shown(l.address), why))
	if now := time.Now(); now.Sub(l.told) >= toldEach { // it may change its mind again and again
		l.log.Warn("RabbitMQ takes no messages now: tasks and answers wait until it does", "address", shown(l.address), "err", why)
		l.told = now
	}
}

// refusal returns what RabbitMQ itself has refused, which somebody has to mend; "" for an error of another kind, as when it is away or stops.
func refusal(err error) string {
	if no, ok := errors.AsType[*amqp.Error](err); ok && no.Server && no.Code != amqp.ConnectionForced {
		return no.Error()
	}
	return ""
}

// shown returns a URL without user, password and parameters.
func shown(address string) string {
	u, err := amqp.ParseURI(address)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%s://%s:%d/%s", u.Scheme, u.Host, u.Port, strings.TrimPrefix(u.Vhost, "/"))
}

// clean returns the text of an error without the URL and its password.
func (l *line) clean(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), l.address, shown(l.address))
	if u, no := amqp.ParseURI(l.address); no == nil && u.Password != "" {
		text = strings.ReplaceAll(text, u.Password, "***")
	}
	return text
}

// session connects, and returns when that has ended. up says whether all was declared.
func (l *line) session(ctx context.Context) (up bool, err error) {
	s, err := dial(ctx, l.address)
	if err != nil {
		return false, err
	}
	defer s.close()
	working, end := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer s.hurry()
	defer end()
	if err := s.open(); err != nil {
		return false, err
	}
	if err := l.begin(working, s); err != nil {
		return false, err
	}
	l.log.Info("connected to RabbitMQ", "address", shown(l.address))
	s.flow(working, l.flows)
	l.set(s)
	defer l.set(nil)
	select {
	case <-s.ended:
		return true, s.why()
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

func (l *line) set(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is = s; s != nil {
		close(l.up)
	} else {
		l.up = make(chan struct{})
	}
}

// now returns the session; nil when there is none.
func (l *line) now() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

// wait returns the session when there is one.
func (l *line) wait(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		s, up := l.is, l.up
		l.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// letter is a message to be published.
type letter struct {
	topic, kind, correlation, replyTo, source string
	trace                                     [2]string // traceparent and tracestate
	body                                      any
	refusals                                  int // after which it is given up; 0: never
}

// publishing returns the letter as RockBot writes it.
func (m *letter) publishing(now time.Time) (amqp.Publishing, error) {
	body, err := json.Marshal(m.body)
	if err != nil {
		return amqp.Publishing{}, err
	}
	id := uuid.New()
	p := amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: fmt.Sprintf("%x", id[:]), Type: m.kind,
		CorrelationId: m.correlation, ReplyTo: m.replyTo, Timestamp: now, Body: body, Headers: amqp.Table{"rb-source": m.source},
	}
	if m.trace[0] != "" {
		p.Headers["rb-traceparent"] = m.trace[0]
		if m.trace[1] != "" {
			p.Headers["rb-tracestate"] = m.trace[1]
		}
	}
	return p, nil
}

// send publishes a letter, again until RabbitMQ has confirmed it or refused it too often, ctx ends, or no queue takes it.
func (l *line) send(ctx context.Context, m *letter) error {
	for refused := 0; ; {
		s, err := l.wait(ctx)
		if err != nil {
			return err
		}
		if err = s.publish(ctx, m); err == nil || errors.Is(err, errUnrouted) || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errRefused) {
			if refused++; refused == m.refusals {
				return err
			}
		}
		select {
		case <-s.ended:
		case <-time.After(l.pauses[0]): // RabbitMQ has refused it
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell publishes a letter of which it does not matter whether it arrives.
func (l *line) tell(m *letter) {
	s := l.now()
	if s == nil || s.isBlocked() {
		return
	}
	if p, err := m.publishing(time.Now()); err == nil {
		_ = s.pub.PublishWithContext(context.Background(), exchange, m.topic, false, false, p)
	}
}
