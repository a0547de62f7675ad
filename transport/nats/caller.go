package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// What one caller may ask for in a second, half of it at once, whatever connections it has. More waits, as long
// as there is room for it, and is refused behind that. The bounds are far above what a client needs, and low enough for many who ask
// for all they can get.
const (
	maxQueuedBytes = 32 << 20 // that wait; of messages, as many as are looked at in a second

	personPace = 2000     // requests a second
	agentPace  = 20_000   // events, pulls and acknowledgements a second: of all instances of an agent
	bytePace   = 64 << 20 // bytes a second that are read

	// What begins a turn, or an entry of a log, see asksForWork: requests, cancellations and shares a second, and so many at once. It is
	// refused behind that.
	personWork, personWorkBurst = 100, 300
	agentWork, agentWorkBurst   = 5, 60

	// What else an agent sends to Cortex, a second and at once: results, progress and artifacts. Above agentTells they wait. The first
	// agentTrusted are let through unchecked; for the others the gateway looks whether the task is in the agent's inbox, and of those
	// whose task is not, all above agentStray are refused. One Cortex handles a few thousand events a second.
	agentTells                 = 2000
	agentTrusted, trustedBurst = 50, 200
	agentStray, strayBurst     = 5, 60
	taskTells, taskBurst       = 10, 200 // of one task, which is refused behind that
	maxTasks                   = 1000    // tasks of which that is known; with more, all begin anew
	maxOpen                    = 64      // events of one conversation in an agent's inbox that are looked through

	// Cards of an agent in a second and at once, of all its instances, which are refused behind that: everybody reads each.
	agentCards, agentCardsBurst = 100, 2 * maxInstances

	shedPace = 20 // answers a second that more is refused
	// Requests that a live event costs, which goes to everybody who listens, and how often its bytes are counted. People show little.
	personLive, agentLive = 40, 10
	liveCopies            = 32
	bytesWritten          = 4 // what a byte of an event costs, which is read with care, as a multiple of one that is passed on
)

// caller is an agent or a person before a gateway. Its messages are looked at one after the other, in a goroutine of its own: who asks for
// much waits for itself only.
type caller struct {
	who      *auth.Identity
	prefix   string // what its subjects begin with
	replies  string // the same of its answers
	room     int    // messages that may wait
	liveCost int    // requests that a live event costs
	asked    *rate.Limiter
	work     *rate.Limiter // what asks for work
	bytes    *rate.Limiter
	tells    *rate.Limiter // what an agent says of tasks
	trusted  *rate.Limiter // the same, of which it is not looked whether the task is its own
	stray    *rate.Limiter // the same, of tasks that are not
	cards    *rate.Limiter // cards of an agent
	shed     *rate.Limiter // answers that more is refused
	warned   rate.Sometimes

	// For its goroutine only.
	instances map[string]int           // of an agent, that have cards: the bytes of each, 0 when that is not known
	tasks     map[string]*rate.Limiter // what an agent says of each task
	chunks    int                      // of files that it keeps, as far as is known
	counted   time.Time                // when these were
	uploads   map[transport.Object]upload

	// Guarded by the gateway's mu.
	queued      []*natsgo.Msg
	queuedBytes int
	busy        bool // its goroutine runs
}

// caller returns whose a subject behind the gateway is; nil when it is nobody's. There are as many as credentials were made for.
func (g *gateway) caller(subject string) *caller {
	// The tenant's gateway, then role and id: a flood is looked at no closer than that.
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
	pace, live, work := personPace, personLive, rate.NewLimiter(personWork, personWorkBurst)
	if who.Role == auth.Agent {
		pace, live, work = agentPace, agentLive, rate.NewLimiter(agentWork, agentWorkBurst)
	}
	c := &caller{
		who: who, prefix: strings.Clone(subject[:end]), replies: auth.Replies(who) + ".", room: pace, liveCost: live, warned: rate.Sometimes{Interval: time.Second},
		tells: rate.NewLimiter(agentTells, agentTells), trusted: rate.NewLimiter(agentTrusted, trustedBurst), stray: rate.NewLimiter(agentStray, strayBurst),
		cards: rate.NewLimiter(agentCards, agentCardsBurst),
		asked: rate.NewLimiter(rate.Limit(pace), pace/2), work: work, bytes: rate.NewLimiter(bytePace, bytePace/2), shed: rate.NewLimiter(shedPace, shedPace),
	}
	g.callers[c.prefix] = c
	return c
}

// warn logs what a caller does wrong, once a second.
func (c *caller) warn(log *slog.Logger, msg string, args ...any) {
	c.warned.Do(func() { log.Warn(msg, args...) })
}

// queue takes a message in; it reports false when the caller has too many.
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
		g.all.Go(func() { g.attend(c) })
	}
	return true
}

// next returns the caller's next message; nil ends its goroutine.
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

// attend looks at what a caller has sent until there is nothing.
func (g *gateway) attend(c *caller) {
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

// charge waits until a caller may have so much more.
func (g *gateway) charge(c *caller, requests, bytes int) error {
	for requests > 0 {
		n := min(requests, c.asked.Burst())
		if err := c.asked.WaitN(g.ctx, n); err != nil {
			return err
		}
		requests -= n
	}
	return c.bytes.WaitN(g.ctx, min(bytes, c.bytes.Burst()))
}

// asksForWork reports whether e, which somebody says to Cortex, has Cortex do more than take in what came of a task. Nothing else is for
// people to say.
func asksForWork(who *auth.Identity, e *transport.Event) bool {
	_, cancel := e.Payload.(*transport.Cancel)
	_, request := transport.Request(e)
	return who.Role == auth.Person || cancel || request
}

// begin counts what asks for work, or returns why it is not let in. It does not wait: what else the caller says is behind it.
func (c *caller) begin() error {
	if c.work.Allow() {
		return nil
	}
	return fmt.Errorf("%w: %s may ask Cortex for %g things a second, and for %d at once: ask again later", errTooMuch, c.who, c.work.Limit(), c.work.Burst())
}

// tell counts what an agent says of a task, or returns why it is not let in: Cortex looks at each event, also at one of a task that it does not
// know, and others wait behind it.
func (g *gateway) tell(c *caller, contextID string, task a2a.TaskID) error {
	if err := c.tells.Wait(g.ctx); err != nil {
		return err
	}
	if !c.of(contextID, task).Allow() {
		return fmt.Errorf("%w: %s may tell of one task %d times a second, and %d times at once: tell it later", errTooMuch, c.who, taskTells, taskBurst)
	}
	if c.trusted.Allow() {
		return nil
	}
	open, err := g.waits(c, contextID, task)
	if err != nil || open || c.stray.Allow() {
		return err
	}
	return fmt.Errorf("%w: task %.100q of %q does not wait for %s, who may say so much of such tasks only now and then: tell it before the task is acknowledged, or again later",
		errTooMuch, task, contextID, c.who)
}

// of returns the limiter of what an agent says of one task. There is one for each task, because the events of a conversation are handled one
// after the other: a flood about one task delays everybody else in that conversation.
func (c *caller) of(contextID string, task a2a.TaskID) *rate.Limiter {
	name := contextID + "\x00" + string(task)
	l := c.tasks[name]
	if l == nil {
		if c.tasks == nil || len(c.tasks) >= maxTasks {
			c.tasks = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(taskTells, taskBurst)
		c.tasks[name] = l
	}
	return l
}

// waits reports whether a task is in the inbox of an agent: one that it works on is, until its result is stored.
func (g *gateway) waits(c *caller, contextID string, task a2a.TaskID) (bool, error) {
	subject := inboxSubject(inboxAddress{tenant: g.tenant, to: c.who.ID, context: contextID, from: transport.Cortex})
	for seq, n := uint64(1), 0; n < maxOpen && task != ""; n++ {
		m, err := g.bus.message(g.ctx, inboxStream, subject, seq)
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
