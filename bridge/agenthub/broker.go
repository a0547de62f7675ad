package agenthub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	connect "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	brokerPing   = 6 * time.Minute // a server that allows nothing else ends a connection with pings within five
	brokerPause  = 200 * time.Millisecond
	maxPause     = 10 * time.Second
	callTime     = 10 * time.Second // for a call that nobody waits for
	chatPatience = 20 * time.Second // how long a message waits for Cortex's transport
	maxWaiting   = 32 << 20         // bytes that messages take which wait for it: the broker is read no faster than they are stored
	maxRefused   = 8 << 20          // likewise, of those that Cortex has refused for now, which hold up no others
	waiterWeight = 16 << 10         // of them that each takes besides its content
)

// replyMark separates the id of a task from a word, in the id that a reply to the agent's question has at the broker. There, a message with the id of a
// task has the agent do the task's first message again.
const replyMark = "~"

// broker is Cortex as a client of a broker that runs elsewhere. That keeps nothing for who is not there, and acknowledges nothing: Cortex knows the agents
// that have registered while it was connected, and a task that gets lost runs into its deadline.
type broker struct {
	*bridge
	id      string // Cortex's, at the broker
	hub     hubpb.AgentHubClient
	waiting *semaphore.Weighted // bytes of messages that are about to be stored
	refused *semaphore.Weighted // bytes of messages that Cortex has refused for now
	told    *rate.Sometimes     // logs that one was not

	mu    sync.Mutex
	up    bool
	known map[string]bool // agents, by name: they are there while the broker is
}

func newBroker(at *role.Site, prefix, id string, t times) (*broker, error) {
	b := &broker{id: id, waiting: semaphore.NewWeighted(maxWaiting), refused: semaphore.NewWeighted(maxRefused), told: &rate.Sometimes{First: 1, Interval: time.Minute}, known: map[string]bool{}}
	var err error
	b.bridge, err = newBridge(at, prefix, t, b)
	return b, err
}

// connect works with the broker at an address until ctx ends.
func (b *broker) connect(ctx context.Context, address string) error {
	soon := connect.DefaultConfig
	soon.BaseDelay, soon.MaxDelay = brokerPause, maxPause
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBody), grpc.ForceCodecV2(newLight(b.at.Logger))),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: brokerPing, Timeout: pongTime}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: maxPause}))
	if err != nil {
		return transport.Permanent(err)
	}
	defer conn.Close() //nolint:errcheck // its streams have ended
	b.hub = hubpb.NewAgentHubClient(conn)
	pauses := &backoff.ExponentialBackOff{InitialInterval: brokerPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.25}
	pauses.Reset()
	told := false
	b.at.Waits(fmt.Errorf("no connection to AgentHub's broker at %s yet", address)) // an attempt has no end while it is away
	for {
		up, err := b.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if up {
			pauses.Reset()
			told = false
		}
		b.at.Waits(fmt.Errorf("no connection to AgentHub's broker at %s: %w", address, err))
		if !told {
			b.at.Logger.Warn("AgentHub's broker is away, and is tried again and again", "address", address, "err", err)
			told = true
		}
		if err := rest.For(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// session subscribes, registers, and handles what comes until a stream ends. up says whether it was connected.
func (b *broker) session(ctx context.Context) (up bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	failed := make(chan error, 4)
	receive := func(stream grpc.ServerStreamingClient[hubpb.AgentEvent], err error, handle func(*hubpb.AgentEvent)) {
		receiving.Go(func() {
			for err == nil {
				var e *hubpb.AgentEvent
				if e, err = stream.Recv(); err == nil {
					handle(e)
				}
			}
			failed <- err
		})
	}
	ready := grpc.WaitForReady(true)
	names := []string{b.id}
	if b.id == transport.Cortex {
		names = append(names, responder)
	}
	for _, name := range names {
		s, err := b.hub.SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: name}, ready)
		receive(s, err, b.message)
	}
	s, err := b.hub.SubscribeToTasks(ctx, &hubpb.SubscribeToTasksRequest{AgentId: b.id}, ready)
	receive(s, err, b.report)
	s, err = b.hub.SubscribeToAgentEvents(ctx, &hubpb.SubscribeToAgentEventsRequest{AgentId: b.id}, ready)
	receive(s, err, func(e *hubpb.AgentEvent) { b.card(ctx, e.GetAgentCard()) })
	own := hubCard()
	own.Name = b.id
	r, err := b.hub.RegisterAgent(ctx, &hubpb.RegisterAgentRequest{AgentCard: own}, ready)
	if err == nil && !r.Success {
		err = errors.New(r.Error)
	}
	if err != nil {
		return false, err
	}
	b.at.Logger.Info("connected to AgentHub's broker", "id", b.id)
	b.at.Waits(nil)
	b.presence(true)
	err = <-failed
	cancel()
	receiving.Wait()
	b.presence(false)
	return true, err
}

// presence takes note that the broker is there, and with it the agents that are known, or not.
func (b *broker) presence(up bool) {
	b.mu.Lock()
	b.up = up
	names := slices.Collect(maps.Keys(b.known))
	b.mu.Unlock()
	for _, name := range names {
		if up {
			b.guests.opened(name)
		} else {
			b.guests.closed(name)
		}
	}
}

// card takes the card of an agent that has registered.
func (b *broker) card(ctx context.Context, e *hubpb.AgentCardEvent) {
	name := e.GetAgentCard().GetName()
	if name == "" || name == b.id || checkNames(name) != nil {
		return
	}
	b.mu.Lock()
	known, up := b.known[name], b.up
	gone := e.EventType == "unregistered"
	fresh := !gone && !known && len(b.known) < maxGuests
	if gone {
		delete(b.known, name)
	} else if fresh {
		b.known[name] = true
	}
	b.mu.Unlock()
	switch {
	case gone && known:
		b.guests.closed(name)
	case !gone:
		if fresh && up {
			b.guests.opened(name)
		}
		card, err := cardOf(e.AgentCard, b.prefix)
		if err == nil {
			err = b.guests.register(ctx, name, card, "")
		}
		if err != nil {
			b.at.Logger.Warn("agent of AgentHub is left out", "agent", name, "err", err)
		}
	}
}

// message begins a turn with a message that is for Cortex.
func (b *broker) message(e *hubpb.AgentEvent) {
	m, r := e.GetMessage(), e.Routing
	if m.GetRole() != hubpb.Role_ROLE_USER || r.GetToAgentId() != b.id && r.GetToAgentId() != responder || r.FromAgentId == "" || r.FromAgentId == b.id ||
		m.MessageId == "" || checkNames(m.MessageId, m.ContextId, r.FromAgentId) != nil {
		return
	}
	size := min(int64(protoweight.OfMessage(m))+waiterWeight, maxWaiting)
	if b.waiting.Acquire(b.ctx, size) != nil {
		return // Cortex stops
	}
	b.wg.Go(func() { b.begin(m, r.FromAgentId, size) })
}

// begin begins a turn with a message of a peer, which takes size of b.waiting. The peer is told if that cannot be. What Cortex refuses for now, as when it has too much of
// somebody, is tried again if there is room for it where it holds up no others.
func (b *broker) begin(m *hubpb.Message, from string, size int64) {
	in := b.waiting
	defer func() { in.Release(size) }()
	ctx, cancel := context.WithTimeout(b.ctx, chatPatience)
	defer cancel()
	for {
		c := newChat(m, from, b.id)
		err := b.chats.begin(ctx, c, partsOf(m.Content), nil)
		if err == nil {
			return
		}
		code := status.Code(err)
		again := code != codes.InvalidArgument
		if code == codes.ResourceExhausted && in == b.waiting {
			if again = b.refused.TryAcquire(size); again {
				in.Release(size)
				in = b.refused
			}
		}
		if again && rest.For(ctx, chatPause) == nil {
			continue
		}
		b.told.Do(func() {
			b.at.Logger.Warn("message is lost: it could not be stored; others may be that are not logged", "peer", from, "err", err)
		})
		b.refuse(c, err)
		return
	}
}

// refuse tells a peer that its message is not answered.
func (b *broker) refuse(c *chat, why error) {
	ctx, cancel := context.WithTimeout(b.ctx, callTime)
	defer cancel()
	r := &reply{space.ID("refused", c.key()), []*hubpb.Part{textPart("Cortex does not answer this: " + status.Convert(why).Message())}, false}
	if err := b.publish(ctx, r.message(c, chatResponse, b.now()), c.Peer, "a2a.message."+chatResponse); err != nil && b.ctx.Err() == nil {
		b.at.Logger.Info("a peer is not told that its message is lost", "peer", c.Peer, "err", err)
	}
}

// report takes what an agent says of a task of Cortex.
func (b *broker) report(e *hubpb.AgentEvent) {
	from := e.Routing.GetFromAgentId()
	if from == b.id {
		return
	}
	if u := e.GetStatusUpdate(); u != nil {
		u.TaskId, _, _ = strings.Cut(u.TaskId, replyMark)
		b.works.status(u, from)
	}
	if u := e.GetArtifactUpdate(); u.GetArtifact() != nil {
		u.TaskId, _, _ = strings.Cut(u.TaskId, replyMark)
		if err := b.works.artifact(u, from); err != nil {
			b.at.Logger.Warn("artifact is left out", "agent", from, "task_id", u.TaskId, "err", err)
		}
	}
}

// give implements line.
func (b *broker) give(ctx context.Context, t *hubpb.Task, agent string) (lost <-chan struct{}, err error) {
	m := proto.CloneOf(t.History[0])
	m.TaskId, m.Metadata = wireID(t), t.Metadata
	return nil, b.publish(ctx, m, agent, "a2a.task."+meta(t.Metadata, "task_type"))
}

// wireID returns the id of a task at the broker.
func wireID(t *hubpb.Task) string {
	if meta(t.Metadata, repliesTo) == "" {
		return t.Id
	}
	return t.Id + replyMark + space.ID(t.History[0].MessageId)[:8]
}

// publish has the broker pass a message on.
func (b *broker) publish(ctx context.Context, m *hubpb.Message, to, eventType string) error {
	routing := route(to, eventType, hubpb.Priority_PRIORITY_MEDIUM)
	routing.FromAgentId = b.id
	r, err := b.hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: m, Routing: routing}, grpc.WaitForReady(true))
	switch {
	case err != nil:
		return fmt.Errorf("AgentHub's broker: %s", status.Convert(err).Message())
	case !r.Success:
		return fmt.Errorf("AgentHub's broker: %s", r.Error)
	}
	return nil
}

// cancel implements line.
func (b *broker) cancel(t *hubpb.Task, agent, reason string) {
	id, now := wireID(t), b.now()
	routing := route(agent, "task_cancelled", hubpb.Priority_PRIORITY_HIGH)
	routing.FromAgentId = b.id
	b.wg.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, callTime)
		defer cancel()
		u := &hubpb.TaskStatusUpdateEvent{TaskId: id, ContextId: t.ContextId, Status: cancelled(t, reason, now), Final: true}
		u.Status.Timestamp = timestamppb.New(now)
		if _, err := b.hub.PublishTaskUpdate(ctx, &hubpb.PublishTaskUpdateRequest{Update: u, Routing: routing}); err != nil {
			b.at.Logger.Info("agent is not told that its task is canceled", "agent", agent, "task_id", t.Id, "err", err)
		}
	})
}

// answer implements line. What may have been sent is sent again as a result, which disturbs nobody.
func (b *broker) answer(ctx context.Context, c *chat, r *reply, sent func()) (receipt, error) {
	sent()
	kind := chatResponse
	if r.late {
		kind = taskResult
	}
	for {
		err := b.publish(ctx, r.message(c, kind, b.now()), c.Peer, "a2a.message."+kind)
		if err == nil {
			return nil, nil
		}
		kind = taskResult
		if rest.For(ctx, chatPause) != nil {
			return nil, err
		}
	}
}

// agent implements line: the broker has no way to be told.
func (b *broker) agent(*transport.AgentEvent) {}
