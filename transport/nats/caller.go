package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// The limits of one caller per second, over all its connections; half of a second's share may come at once. Further messages wait as long as the
// queue has room and are refused beyond that. The limits are far above what a client needs, and low enough for many callers that use theirs in
// full.
const (
	maxQueuedBytes = 32 << 20 // bytes of waiting messages; their number is bounded by the pace

	personPace = 2000     // requests a second
	agentPace  = 20_000   // events, pulls and acknowledgements a second, over all instances of an agent
	bytePace   = 64 << 20 // bytes read, a second

	// What else an agent sends to Cortex, a second and at once: results, progress and artifacts. Above agentTells they wait. The first agentTrusted
	// are not checked; for the others the gateway looks whether the task is in the agent's inbox. Of those whose task is not, agentStray are let
	// through and the rest is refused. One Cortex handles a few thousand events a second.
	agentTells                 = 2000
	agentTrusted, trustedBurst = 50, 200
	agentStray, strayBurst     = 5, 60
	taskTells, taskBurst       = 10, 200 // events about one task; the rest is refused
	maxTasks                   = 1000    // tasks with a limiter; a further one clears those that have not been used lately, or else all
	maxOpen                    = 64      // events of one conversation in an agent's inbox that waits reads

	// Cards of all instances of an agent, a second and at once. Above this they are refused, since every subscriber reads each card.
	agentCards, agentCardsBurst = 100, 2 * maxInstances

	// Bytes of the dead letters that one agent makes, a second and at once: an eighth of all that are kept, and as much again in a day. More are refused,
	// and the task waits in the agent's inbox, since each would displace one of somebody else. A letter counts for letterLeast at least, by the number of
	// those that are kept.
	letterBurst, letterPace = maxDeadBytes / 8, letterBurst / 86_400
	letterLeast             = maxDeadBytes / maxDead

	// The same for all agents of a tenant together: half of what is kept is left for Cortex's own, which are those of people.
	lettersBurst, lettersPace = maxDeadBytes / 2, lettersBurst / 86_400

	shedPace = 20 // answers a second that refuse messages above the limits
	// A live event goes to all its listeners: it costs this many requests, and its bytes are counted liveCopies times. People publish few of them.
	personLive, agentLive = 40, 10
	liveCopies            = 32
	bytesWritten          = 4 // a byte of an event, or of what is read to check one, costs this many times a byte that is only passed on, since it is decoded
)

// caller is an agent or a person that uses a gateway. Its messages are handled one after the other in its own goroutine, so that a caller's flood
// delays only itself.
type caller struct {
	who        *auth.Identity
	prefix     string // of its subjects
	replies    string // of its reply subjects
	room       int    // number of messages that may wait
	liveCost   int    // requests that a live event costs
	requests   *rate.Limiter
	work       *rate.Limiter // requests for work, see asksForWork: above transport.PersonWork or AgentWork they are refused
	bytes      *rate.Limiter
	taskEvents *rate.Limiter // events of an agent about tasks
	trusted    *rate.Limiter // those that are admitted without looking whether the task is the agent's
	stray      *rate.Limiter // those about tasks that are not
	cards      *rate.Limiter // cards of an agent
	letters    *rate.Limiter // bytes of the dead letters of an agent
	shed       *rate.Limiter // refusals of messages above the limits
	warned     rate.Sometimes

	// Used by its goroutine only.
	instances map[string]int           // of an agent, those that have cards: the bytes of each card, 0 when unknown
	tasks     map[string]*rate.Limiter // of events about each task
	uploads   map[transport.Object]upload

	// Guarded by the gateway's mu.
	queued      []*natsgo.Msg
	queuedBytes int
	busy        bool // its goroutine runs
}

// caller returns the caller that a subject behind the gateway belongs to, or nil for an invalid one. There are at most as many callers as
// credentials.
func (g *gateway) caller(subject string) *caller {
	// Look for the tenant's gateway, role and id only: parsing the whole subject would cost too much in a flood.
	end := min(g.begin, len(subject))
	for range 2 {
		dot := strings.IndexByte(subject[end:], '.')
		if dot < 0 {
			return nil
		}
		end += dot + 1
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.callers[subject[:end]]; c != nil {
		return c
	}
	who, meant := auth.Caller(g.tenant, subject)
	if who == nil || len(meant) != len(subject)-end {
		return nil
	}
	pace, live, work := personPace, personLive, rate.NewLimiter(transport.PersonWork, transport.PersonWorkBurst)
	if who.Role == auth.Agent {
		pace, live, work = agentPace, agentLive, rate.NewLimiter(transport.AgentWork, transport.AgentWorkBurst)
	}
	c := &caller{
		who: who, prefix: strings.Clone(subject[:end]), replies: auth.Replies(who) + ".", room: pace, liveCost: live, warned: rate.Sometimes{Interval: time.Second},
		taskEvents: rate.NewLimiter(agentTells, agentTells), trusted: rate.NewLimiter(agentTrusted, trustedBurst), stray: rate.NewLimiter(agentStray, strayBurst),
		cards: rate.NewLimiter(agentCards, agentCardsBurst), letters: rate.NewLimiter(letterPace, letterBurst),
		requests: rate.NewLimiter(rate.Limit(pace), pace/2), work: work, bytes: rate.NewLimiter(bytePace, bytePace/2), shed: rate.NewLimiter(shedPace, shedPace),
	}
	g.callers[c.prefix] = c
	return c
}

// warn logs a caller's mistake, at most once a second.
func (c *caller) warn(log *slog.Logger, msg string, args ...any) {
	c.warned.Do(func() { log.Warn(msg, args...) })
}

// queue appends a message to the caller's queue; it returns false when the queue is full or the gateway closed.
func (g *gateway) queue(c *caller, m *natsgo.Msg) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(c.queued) >= c.room || c.queuedBytes+m.Size() > maxQueuedBytes && len(c.queued) > 0 {
		return false
	}
	c.queued = append(c.queued, m)
	c.queuedBytes += m.Size()
	if !c.busy {
		c.busy = true
		g.all.Go(func() { g.drain(c) })
	}
	return true
}

// next removes the caller's next message from its queue; nil ends the caller's goroutine.
func (g *gateway) next(c *caller) *natsgo.Msg {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.queued) == 0 || g.closed {
		c.queued, c.queuedBytes, c.busy = nil, 0, false
		return nil
	}
	m := c.queued[0]
	c.queued[0] = nil
	c.queued = c.queued[1:]
	c.queuedBytes -= m.Size()
	return m
}

// drain handles the caller's messages until its queue is empty.
func (g *gateway) drain(c *caller) {
	for m := g.next(c); m != nil; m = g.next(c) {
		subject := m.Subject[len(c.prefix):]
		bytes := m.Size()
		if !strings.HasPrefix(subject, jsAPI) {
			bytes *= bytesWritten
		}
		err := g.charge(c, 1, bytes)
		if err == nil {
			err = g.admit(c, subject, m)
		}
		if err != nil && g.ctx.Err() == nil {
			g.refuse(c, subject, m, err)
		}
	}
}

// charge waits until the caller's limits admit so many requests and bytes.
func (g *gateway) charge(c *caller, requests, bytes int) error {
	for requests > 0 {
		n := min(requests, c.requests.Burst())
		if err := c.requests.WaitN(g.ctx, n); err != nil {
			return err
		}
		requests -= n
	}
	return c.bytes.WaitN(g.ctx, min(bytes, c.bytes.Burst()))
}

// look returns a message as [Bus.message] does. The caller pays for what is read to check its request, since a small request may have many large messages read.
func (g *gateway) look(ctx context.Context, c *caller, stream, filter string, seq uint64) (*jetstream.RawStreamMsg, error) {
	m, err := g.bus.message(ctx, stream, filter, seq)
	if err != nil {
		return nil, err
	}
	return m, g.chargeLook(c, m)
}

// chargeLook waits until the caller's limits admit that a message was read and decoded.
func (g *gateway) chargeLook(c *caller, m *jetstream.RawStreamMsg) error {
	return g.charge(c, 1, len(m.Data)*bytesWritten)
}

// asksForWork reports whether e, sent to Cortex, makes it do more than record what became of a task. All that people may send does.
func asksForWork(who *auth.Identity, e *transport.Event) bool {
	_, cancel := e.Payload.(*transport.Cancel)
	_, request := transport.Request(e)
	return who.Role == auth.Person || cancel || request
}

// chargeWork counts an event that asks for work, or returns errTooMuch. It does not wait, since the caller's other messages are queued behind it.
func (c *caller) chargeWork() error {
	if c.work.Allow() {
		return nil
	}
	return fmt.Errorf("%w: %s may ask Cortex for %g things a second, and for %d at once: ask again later", errTooMuch, c.who, c.work.Limit(), c.work.Burst())
}

// chargeTaskEvent counts an event of an agent about a task: it waits, or returns errTooMuch. Cortex reads each such event, even about an unknown task, and
// other events wait meanwhile.
func (g *gateway) chargeTaskEvent(c *caller, contextID string, task a2a.TaskID) error {
	if err := c.taskEvents.Wait(g.ctx); err != nil {
		return err
	}
	if !c.taskLimiter(contextID, task).Allow() {
		return fmt.Errorf("%w: %s may tell of one task %d times a second, and %d times at once: tell it later", errTooMuch, c.who, taskTells, taskBurst)
	}
	if c.trusted.Allow() {
		return nil
	}
	open, err := g.isOpenTask(c, contextID, task)
	if err != nil || open || c.stray.Allow() {
		return err
	}
	return fmt.Errorf("%w: task %.100q of %q does not wait for %s, who may say so much of such tasks only now and then: tell it before the task is acknowledged, or again later",
		errTooMuch, task, contextID, c.who)
}

// taskLimiter returns the limiter of an agent's events about one task. There is one for each task, because the events of a conversation are handled one
// after the other: a flood about one task delays everybody else in that conversation.
func (c *caller) taskLimiter(contextID string, task a2a.TaskID) *rate.Limiter {
	name := contextID + "\x00" + string(task)
	l := c.tasks[name]
	if l == nil {
		if len(c.tasks) >= maxTasks { // one that has all its tokens is as good as a new one
			now := time.Now()
			maps.DeleteFunc(c.tasks, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= taskBurst })
		}
		if c.tasks == nil || len(c.tasks) >= maxTasks {
			c.tasks = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(taskTells, taskBurst)
		c.tasks[name] = l
	}
	return l
}

// isOpenTask reports whether a task is in the inbox of an agent. A task that the agent works on stays there until its result is stored.
func (g *gateway) isOpenTask(c *caller, contextID string, task a2a.TaskID) (bool, error) {
	subject := inboxSubject(inboxAddress{tenant: g.tenant, to: c.who.ID, context: contextID, from: transport.Cortex})
	for seq, n := uint64(1), 0; n < maxOpen && task != ""; n++ {
		m, err := g.look(g.ctx, c, inboxStream, subject, seq)
		if errors.Is(err, transport.ErrNotFound) {
			return false, nil
		}
		if err != nil || m.Header.Get(headerTask) == string(task) {
			return err == nil, err
		}
		seq = m.Sequence + 1
	}
	return false, nil
}

func forbidden(who *auth.Identity, what string) error {
	return fmt.Errorf("%w: %s may not %s", transport.ErrForbidden, who, oneLine(what, 300))
}
