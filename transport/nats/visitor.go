package nats

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// What one visitor may ask for in a second, half of it at once, whatever connections it has. More waits, as long
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

	shedPace     = 20 // answers a second that more is refused
	bytesWritten = 4  // what a byte of an event costs, which is read with care, as a multiple of one that is passed on
)

// visitor is an agent or a person before a door. Its messages are looked at one after the other, in a goroutine of its own: who asks for
// much waits for itself only.
type visitor struct {
	who     *auth.Identity
	prefix  string // what its subjects begin with
	replies string // the same of its answers
	room    int    // messages that may wait
	asked   *rate.Limiter
	work    *rate.Limiter // what asks for work
	bytes   *rate.Limiter
	shed    *rate.Limiter // answers that more is refused
	warned  rate.Sometimes

	instances map[string]bool // of an agent, that have cards; for its goroutine only

	// Guarded by the door's mu.
	queued      []*natsgo.Msg
	queuedBytes int
	busy        bool // its goroutine runs
}

// visitor returns whose a subject behind the door is; nil when it is nobody's. There are as many as credentials were made for.
func (d *door) visitor(subject string) *visitor {
	// The tenant's door, then role and id: a flood is looked at no closer than that.
	end := min(d.begin, len(subject))
	for range 2 {
		dot := strings.IndexByte(subject[end:], '.')
		if dot < 0 {
			return nil
		}
		end += dot + 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.visitors[subject[:end]]; v != nil {
		return v
	}
	who, meant := auth.Visitor(d.tenant, subject)
	if who == nil || len(meant) != len(subject)-end {
		return nil
	}
	pace, work := personPace, rate.NewLimiter(personWork, personWorkBurst)
	if who.Role == auth.Agent {
		pace, work = agentPace, rate.NewLimiter(agentWork, agentWorkBurst)
	}
	v := &visitor{
		who: who, prefix: strings.Clone(subject[:end]), replies: auth.Replies(who) + ".", room: pace, warned: rate.Sometimes{Interval: time.Second},
		asked: rate.NewLimiter(rate.Limit(pace), pace/2), work: work, bytes: rate.NewLimiter(bytePace, bytePace/2), shed: rate.NewLimiter(shedPace, shedPace),
	}
	d.visitors[v.prefix] = v
	return v
}

// warn logs what a visitor does wrong, once a second.
func (v *visitor) warn(log *slog.Logger, msg string, args ...any) {
	v.warned.Do(func() { log.Warn(msg, args...) })
}

// queue takes a message in; it reports false when the visitor has too many.
func (d *door) queue(v *visitor, m *natsgo.Msg) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(v.queued) >= v.room || v.queuedBytes+m.Size() > maxQueuedBytes && len(v.queued) > 0 {
		return false
	}
	v.queued = append(v.queued, m)
	v.queuedBytes += m.Size()
	if !v.busy {
		v.busy = true
		d.all.Go(func() { d.attend(v) })
	}
	return true
}

// next returns the visitor's next message; nil ends its goroutine.
func (d *door) next(v *visitor) *natsgo.Msg {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(v.queued) == 0 || d.closed {
		v.queued, v.queuedBytes, v.busy = nil, 0, false
		return nil
	}
	m := v.queued[0]
	v.queued[0] = nil
	v.queued = v.queued[1:]
	v.queuedBytes -= m.Size()
	return m
}

// attend looks at what a visitor has sent until there is nothing.
func (d *door) attend(v *visitor) {
	for m := d.next(v); m != nil; m = d.next(v) {
		subject := m.Subject[len(v.prefix):]
		bytes := m.Size()
		if !strings.HasPrefix(subject, jsAPI) {
			bytes *= bytesWritten
		}
		err := d.charge(v, 1, bytes)
		if err == nil {
			err = d.admit(v, subject, m)
		}
		if err != nil && d.ctx.Err() == nil {
			d.refuse(v, subject, m, err)
		}
	}
}

// charge waits until a visitor may have so much more.
func (d *door) charge(v *visitor, requests, bytes int) error {
	for requests > 0 {
		n := min(requests, v.asked.Burst())
		if err := v.asked.WaitN(d.ctx, n); err != nil {
			return err
		}
		requests -= n
	}
	return v.bytes.WaitN(d.ctx, min(bytes, v.bytes.Burst()))
}

// asksForWork reports whether e, which somebody says to Cortex, has Cortex do more than take in what came of a task. Nothing else is for
// people to say.
func asksForWork(who *auth.Identity, e *transport.Event) bool {
	_, cancel := e.Payload.(*transport.Cancel)
	_, request := transport.Request(e)
	return who.Role == auth.Person || cancel || request
}

// begin counts what asks for work, or returns why it is not let in. It does not wait: what else the visitor says is behind it.
func (v *visitor) begin() error {
	if v.work.Allow() {
		return nil
	}
	return fmt.Errorf("%w: %s may ask Cortex for %g things a second, and for %d at once: ask again later", errTooMuch, v.who, v.work.Limit(), v.work.Burst())
}
