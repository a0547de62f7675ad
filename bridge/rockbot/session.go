package rockbot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	atOnce    = 64 // messages whose confirmation is waited for
	closeTime = 2 * time.Second
	dialTime  = 10 * time.Second
	heartbeat = 10 * time.Second
)

var (
	// errUnrouted is the error of a message that no queue took.
	errUnrouted = errors.New("no queue takes it")
	// errRefused is the error of a message that RabbitMQ has refused, as for a queue that is full and takes no more.
	errRefused = errors.New("RabbitMQ has refused it")
	// errLost is the error of a connection that has ended.
	errLost = errors.New("the connection to RabbitMQ has ended")
)

// session is one connection, and another one for what is published: while RabbitMQ lacks memory it reads nothing from a connection that publishes, so that it would
// never learn by the same one what is acknowledged, whose memory it lacks.
type session struct {
	conn    *amqp.Connection
	out     *amqp.Connection // of pub
	raw     []net.Conn       // below both
	pub     *amqp.Channel
	slots   chan struct{} // holds a value for each message whose confirmation is waited for
	returns chan amqp.Return
	wg      sync.WaitGroup

	ended chan struct{}
	end   func(error)
	err   error // why it has ended

	blocks <-chan amqp.Blocking

	mu       sync.Mutex
	returned map[string]bool // messages, by id
	blocked  string          // why RabbitMQ takes no messages; "": it does
	free     chan struct{}   // closed while it does
}

// dial connects, with TLS if the URL says so.
func dial(ctx context.Context, address string) (*session, error) {
	s := &session{
		slots: make(chan struct{}, atOnce), returns: make(chan amqp.Return, atOnce), ended: make(chan struct{}), returned: map[string]bool{},
	}
	s.free = make(chan struct{})
	close(s.free)
	var once sync.Once
	s.end = func(err error) {
		once.Do(func() {
			s.err = err
			close(s.ended)
		})
	}
	for _, is := range []**amqp.Connection{&s.conn, &s.out} {
		conn, err := s.connect(ctx, address)
		if err != nil {
			s.close()
			return nil, err
		}
		*is = conn
		s.watch(conn.NotifyClose(make(chan *amqp.Error, 1)))
	}
	s.blocks = s.out.NotifyBlocked(make(chan amqp.Blocking, 1))
	return s, nil
}

// connect makes a connection.
func (s *session) connect(ctx context.Context, address string) (*amqp.Connection, error) {
	return amqp.DialConfig(address, amqp.Config{
		Heartbeat: heartbeat, Properties: amqp.Table{"product": "Cortex", "connection_name": "cortex"},
		Dial: func(network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, address)
			if err == nil {
				s.raw = append(s.raw, c)
				err = c.SetDeadline(time.Now().Add(dialTime)) // for the handshake; the library takes it away
			}
			return c, err
		},
	})
}

// watch ends the session when the connection or one of its channels ends.
func (s *session) watch(closed <-chan *amqp.Error) {
	go func() {
		if err, ok := <-closed; ok && err != nil {
			s.end(err)
			return
		}
		s.end(errLost)
	}()
}

// flow says by told whether RabbitMQ takes messages, now and until the session or ctx ends. It takes none while it lacks memory or room on its disk: it
// reads nothing more from the connection then, and keeps it.
func (s *session) flow(ctx context.Context, told func(why string)) {
	told("")
	s.wg.Go(func() {
		for {
			select {
			case b, ok := <-s.blocks:
				if !ok {
					return
				}
				why := ""
				if b.Active {
					why = cmp.Or(shorten.Line(b.Reason, maxReason), "it does not say why")
				}
				if s.block(why) {
					told(why)
				}
			case <-s.ended:
				return
			case <-ctx.Done():
				return
			}
		}
	})
}

// block notes why RabbitMQ takes no messages, with "" that it does, and reports whether that is another state.
func (s *session) block(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.blocked
	s.blocked = why
	switch {
	case was == "" && why != "":
		s.free = make(chan struct{})
	case was != "" && why == "":
		close(s.free)
	default:
		return false
	}
	return true
}

func (s *session) isBlocked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked != ""
}

// flowing waits until RabbitMQ takes messages: a write would have no end, and nobody else could write meanwhile.
func (s *session) flowing(ctx context.Context) error {
	s.mu.Lock()
	free := s.free
	s.mu.Unlock()
	select {
	case <-free:
		return nil
	case <-s.ended:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) why() error {
	select {
	case <-s.ended:
		return s.err
	default:
		return nil
	}
}

// hurry ends writes that do not end, as while RabbitMQ is frozen. The library waits for them, also when it closes a connection of which nothing is heard.
func (s *session) hurry() {
	for _, c := range s.raw {
		_ = c.SetDeadline(time.Now().Add(closeTime)) // it may be closed
	}
}

func (s *session) close() {
	for _, conn := range []*amqp.Connection{s.conn, s.out} {
		if conn != nil {
			_ = conn.CloseDeadline(time.Now().Add(closeTime)) // it has ended, or is given up
		}
	}
	s.end(errLost)
}

// channel opens a channel for what is published, that ends the session when it ends.
func (s *session) channel() (*amqp.Channel, error) {
	ch, err := s.out.Channel()
	if err != nil {
		return nil, err
	}
	s.watch(ch.NotifyClose(make(chan *amqp.Error, 1)))
	return ch, nil
}

// open opens the channel of what is published, and declares the exchanges.
func (s *session) open() (err error) {
	if s.pub, err = s.channel(); err != nil {
		return err
	}
	s.pub.NotifyReturn(s.returns)
	if err = s.pub.Confirm(false); err != nil {
		return err
	}
	for _, name := range []string{exchange, deadExchange} {
		if err = s.pub.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes a letter and waits until RabbitMQ has confirmed it.
func (s *session) publish(ctx context.Context, m *letter) error {
	p, err := m.publishing(time.Now())
	if err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.ended:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.flowing(ctx); err != nil {
		return err
	}
	confirmed, err := s.pub.PublishWithDeferredConfirm(exchange, m.topic, true, false, p)
	if err != nil {
		return err
	}
	select {
	case <-confirmed.Done():
	case <-s.ended:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case confirmed.Acked():
	case s.pub.IsClosed(): // then the library says of all that is not confirmed that it is refused
		return errLost
	default:
		return errRefused
	}
	if s.wasReturned(p.MessageId) {
		return errUnrouted
	}
	return nil
}

// wasReturned reports whether a message came back that is confirmed. RabbitMQ returns a message before it confirms it, so that it is in s.returns by then,
// which has room for all messages whose confirmation is waited for.
func (s *session) wasReturned(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		select {
		case r, ok := <-s.returns:
			if ok {
				s.returned[r.MessageId] = true
				continue
			}
		default:
		}
		was := s.returned[id]
		delete(s.returned, id)
		return was
	}
}

// queue is a queue that is consumed.
type queue struct {
	name      string // "": RabbitMQ names it, and it ends with the connection
	args      amqp.Table
	keys      []string // that it is bound to
	dead      bool     // it is bound to the exchange of dead letters
	foreign   bool     // it has a name of RockBot's, and may be there with other arguments
	prefetch  int
	unwatched bool // nobody consumes it
}

// exists reports whether there is a queue. A channel of its own is asked, since the answer no ends it.
func (s *session) exists(name string) (bool, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close() //nolint:errcheck // nothing is pending on it
	_, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
	var no *amqp.Error
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &no) && no.Code == amqp.NotFound:
		return false, nil
	case errors.As(err, &no) && no.Code == amqp.ResourceLocked:
		return true, nil
	}
	return false, err
}

// declare declares a queue and binds it. A queue of RockBot's that is there is left as it is: to declare it in another way would end the channel, or
// have RockBot delete it.
func (s *session) declare(ch *amqp.Channel, q *queue) (string, error) {
	name, from := q.name, exchange
	if q.dead {
		from = deadExchange
	}
	there := false
	var err error
	if q.foreign {
		if there, err = s.exists(name); err != nil {
			return "", err
		}
	}
	if !there {
		own := name == ""
		is, err := ch.QueueDeclare(name, !own, own, own, false, q.args)
		if no, ok := errors.AsType[*amqp.Error](err); ok && no.Code == amqp.PreconditionFailed {
			return "", fmt.Errorf("the queue is there, and is not as Cortex makes it: delete it (rabbitmqctl delete_queue %s), and it is made anew: %w", name, err)
		}
		if err != nil {
			return "", err
		}
		name = is.Name
	}
	for _, key := range q.keys {
		if err := ch.QueueBind(name, key, from, false, nil); err != nil {
			return "", err
		}
	}
	return name, nil
}

// consume declares a queue and calls hear with each of its messages, one after another, until the session or ctx ends. The end of a consumer, as when
// somebody deletes its queue, is the end of the session.
func (s *session) consume(ctx context.Context, q *queue, hear func(*amqp.Delivery)) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	name, err := s.declare(ch, q)
	if err != nil {
		_ = ch.Close() // RabbitMQ has closed it, most likely
		return fmt.Errorf("queue %s: %w", q.name, err)
	}
	if q.unwatched {
		return ch.Close()
	}
	if err := ch.Qos(q.prefetch, 0, false); err != nil {
		return err
	}
	in, err := ch.Consume(name, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	s.watch(ch.NotifyClose(make(chan *amqp.Error, 1)))
	in = small(in, q.prefetch)
	s.wg.Go(func() {
		for {
			select {
			case d, ok := <-in:
				if !ok {
					s.end(fmt.Errorf("queue %s: %w", name, errLost))
					return
				}
				hear(&d)
			case <-s.ended:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// small passes on what comes, n at most of which are not acknowledged. Of a message that is too large to be read it keeps the beginning, before anything waits:
// RabbitMQ allows so many bytes that few messages would take all memory.
func small(in <-chan amqp.Delivery, n int) <-chan amqp.Delivery {
	out := make(chan amqp.Delivery, n)
	go func() {
		defer close(out)
		for d := range in {
			if len(d.Body) > maxBody {
				d.Body = bytes.Clone(d.Body[:maxBody+1])
			}
			out <- d
		}
	}()
	return out
}

// header returns a text among the headers of a message. RockBot reads long strings only.
func header(d *amqp.Delivery, name string) string {
	text, _ := d.Headers[name].(string)
	return text
}
