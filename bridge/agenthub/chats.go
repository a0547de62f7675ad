package agenthub

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of chats.
const (
	maxChats    = 1024 // messages that have no answer yet
	maxOwnChats = 128  // likewise, of one peer
	maxAnswered = 10_000
)

// chatPause is the pause before a turn is watched again when that has failed.
const chatPause = time.Second

// chat is a message of a peer that is to be answered.
type chat struct {
	Peer    string      `json:"peer"`
	Context string      `json:"context"` // the peer's
	Message string      `json:"message"` // likewise
	As      string      `json:"as"`      // who answers, for the peer
	Turn    client.Turn `json:"turn"`
	At      time.Time   `json:"at"`

	conn     string        // that the message came by
	own      bool          // the peer was subscribed on it
	accepted chan struct{} // closed when the message is stored, or err set
	err      error

	// Guarded by chats.mu.
	giveUp context.CancelFunc // of an answer that waits until whoever has asked is there; nil: it does not
	gone   bool               // it was given up, and ends
}

// chats are the messages of peers that are to be answered. They are safe for concurrent use.
type chats struct {
	b *bridge

	mu       sync.Mutex
	open     map[string]*chat // by the id of the message in Cortex
	answered recent.Cache[string, receipt]
}

// receipt says who has got an answer: the ends of their streams. It is nil when that cannot be known.
type receipt []<-chan struct{}

// holds reports whether somebody of them is still there.
func (r receipt) holds() bool {
	for _, ended := range r {
		select {
		case <-ended:
		default:
			return true
		}
	}
	return r == nil
}

// newChat returns the chat that a peer's message begins.
func newChat(m *hubpb.Message, from, as string) *chat {
	in := m.ContextId
	if in == "" {
		in = "message " + m.MessageId // it belongs to no conversation
	}
	return &chat{
		Peer: from, Context: m.ContextId, Message: m.MessageId, As: as, At: time.Now(), accepted: make(chan struct{}),
		Turn: client.Turn{ContextID: contextID(from, in), From: sender(from), MessageID: messageID(from, m.ContextId, m.MessageId, as+": "+words(m))},
	}
}

// begin begins a turn with a peer's message, and returns when it is stored. The same message again is the same turn: it is answered once, unless whoever
// got the answer has gone since.
func (cs *chats) begin(ctx context.Context, c *chat, parts a2a.ContentParts, to *transport.Direct) error {
	c, first, err := cs.enter(c)
	if err != nil || c == nil {
		return err
	}
	if first {
		cs.b.wg.Go(func() { cs.run(c, cs.ask(c, parts, to)) })
	}
	select {
	case <-c.accepted:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter adds a chat, or returns the open one with its id; nil when it was answered, and whoever got the answer is there.
func (cs *chats) enter(c *chat) (_ *chat, first bool, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	id := c.Turn.MessageID
	if is := cs.open[id]; is != nil && !is.gone {
		is.conn, is.own = c.conn, c.own
		return is, false, nil
	}
	if r, ok := cs.answered.Get(id); ok && r.holds() {
		return nil, false, nil
	}
	if cs.open[id] != nil || !cs.room(c.Peer, c.conn) {
		return nil, false, status.Error(codes.ResourceExhausted, "too many messages wait for their answers: ask again later")
	}
	cs.open[id] = c
	return c, true, nil
}

// room reports whether there is room for a chat of a peer, by a connection. In place of one whose answer nobody takes there is: peers choose their names, so that one program
// would have all chats otherwise, and nobody else could ask. Of what waits for its turn, another machine and a program of this one have a share. cs.mu is held.
func (cs *chats) room(peer, conn string) bool {
	open, theirs, near := 0, 0, 0
	host := hostOf(conn)
	for _, c := range cs.open {
		if c.gone {
			continue
		}
		if open++; c.Peer == peer {
			theirs++
		}
		if hostOf(c.conn) == host {
			near++
		}
	}
	switch {
	case len(cs.open) >= 2*maxChats: // too many that end
		return false
	case theirs >= maxOwnChats:
		return cs.yield(func(c *chat) bool { return c.Peer == peer })
	case host != "" && kit.Sated(near, open, maxChats):
		return cs.yield(func(c *chat) bool { return hostOf(c.conn) == host })
	}
	return open < maxChats || cs.yield(func(*chat) bool { return true })
}

// yield gives up the oldest chat whose answer nobody takes, of the peer that has most of them, and reports whether there was one. cs.mu is held.
func (cs *chats) yield(among func(*chat) bool) bool {
	count, oldest := map[string]int{}, map[string]*chat{}
	for _, c := range cs.open {
		if c.giveUp == nil || c.gone || !among(c) {
			continue
		}
		if is := oldest[c.Peer]; is == nil || c.At.Before(is.At) {
			oldest[c.Peer] = c
		}
		count[c.Peer]++
	}
	var one *chat
	for peer, c := range oldest {
		if one == nil || count[peer] > count[one.Peer] || count[peer] == count[one.Peer] && c.At.Before(one.At) {
			one = c
		}
	}
	if one == nil {
		return false
	}
	one.gone = true
	one.giveUp()
	return true
}

// came returns the connection by which a chat's message came last, and whether the peer was subscribed on it.
func (cs *chats) came(c *chat) (conn string, own bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.conn, c.own
}

// accept says what became of a chat's message.
func (cs *chats) accept(c *chat, err error) {
	select {
	case <-c.accepted:
	default:
		c.err = err
		close(c.accepted)
	}
}

// turn yields the events of a turn.
type turn func(ctx context.Context) iter.Seq2[*transport.Event, error]

// ask returns what sends a message, and yields the events of its turn.
func (cs *chats) ask(c *chat, parts a2a.ContentParts, to *transport.Direct) turn {
	asking := *cs.b.at.Client
	asking.User = hostName // all peers have the share of one for their files, since they choose their names, and it is nobody else's
	conn, _ := cs.came(c)
	asking.Admit = func(_ string, size int) error { return cs.b.pace.Admit(kit.Host(conn), size) } // peers choose their names; those of a broker are one
	asking.OnSent = func(*transport.Event) { cs.accept(c, cs.keep(c)) }
	return func(ctx context.Context) iter.Seq2[*transport.Event, error] {
		m := &client.Message{ContextID: c.Turn.ContextID, ID: c.Turn.MessageID, From: c.Turn.From, Parts: parts, To: to}
		m.Metadata = map[string]any{transport.MetaOwn: true} // the id follows from the peer's: somebody else may have begun the conversation and shared it
		return asking.Follow(ctx, m)
	}
}

// watch returns what yields the events of a turn that has begun.
func (cs *chats) watch(c *chat) turn {
	return func(ctx context.Context) iter.Seq2[*transport.Event, error] { return cs.b.at.Client.Watch(ctx, c.Turn) }
}

// run waits for the answer to a chat, and passes it on. Who asks is told when that takes long.
func (cs *chats) run(c *chat, events turn) {
	answer := make(chan *a2a.Message, 1)
	cs.b.wg.Go(func() { answer <- cs.answer(c, events) })
	late := time.Since(c.At) >= cs.b.times.answer // it has been told before a restart
	slow := time.NewTimer(time.Until(c.At.Add(cs.b.times.answer)))
	defer slow.Stop()
	if late {
		slow.Stop()
	}
	for {
		select {
		case <-slow.C:
			ctx, cancel := context.WithTimeout(cs.b.ctx, cs.b.times.answer/5)
			_, err := cs.b.line.answer(ctx, c, longer(c), func() {})
			cancel()
			late = err == nil
		case m := <-answer:
			if (m == nil || !cs.deliver(c, replyOf(c, m, late))) && cs.b.ctx.Err() == nil {
				cs.drop(c)
			}
			cs.leave(c)
			return
		}
	}
}

// answer returns the answer to a chat; nil when there is none.
func (cs *chats) answer(c *chat, events turn) *a2a.Message {
	ctx, cancel := context.WithTimeout(cs.b.ctx, cs.b.times.open)
	defer cancel()
	for {
		for e, err := range events(ctx) {
			if err != nil {
				cs.accept(c, unsent(err))
				break
			}
			if m, ok := e.Payload.(*a2a.Message); ok {
				return m
			}
		}
		if c.err != nil {
			return nil
		}
		if rest.For(ctx, chatPause) != nil {
			return nil
		}
		events = cs.watch(c)
	}
}

// unsent returns the error for a peer whose message could not be stored.
func unsent(err error) error {
	switch {
	case errors.Is(err, transport.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, transport.ErrFull), errors.Is(err, transport.ErrFilesFull), errors.Is(err, transport.ErrTooLarge):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// deliver passes an answer on, and reports whether somebody got it.
func (cs *chats) deliver(c *chat, r *reply) bool {
	ctx, cancel := context.WithTimeout(cs.b.ctx, cs.b.times.undelivered)
	defer cancel()
	cs.waits(c, cancel)
	got, err := cs.b.line.answer(ctx, c, r, func() { cs.drop(c) })
	cs.waits(c, nil)
	if err != nil {
		if cs.b.ctx.Err() == nil {
			cs.b.at.Logger.Info("answer not delivered: whoever has asked is not there", "peer", c.Peer, "context_id", c.Turn.ContextID, "err", err)
		}
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.answered.Put(c.Turn.MessageID, got, 1)
	for cs.answered.Len() > maxAnswered {
		cs.answered.Drop()
	}
	return true
}

// waits takes note that the answer to a chat waits until whoever has asked is there, or with nil that it does not any more.
func (cs *chats) waits(c *chat, giveUp context.CancelFunc) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.giveUp = giveUp
}

// leave removes a chat.
func (cs *chats) leave(c *chat) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c.Turn.MessageID)
}
