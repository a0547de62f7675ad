package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
)

// parked is a call that waits for the user's answer.
type parked struct {
	call     *call
	question *live
	owner    string // see [records.Owner]
	since    time.Time
	expiry   *time.Timer
}

// park keeps a call while the user is asked. It returns an error if too many are parked.
func (a *Agent) park(t *agents.Task, one *call, q *live) error {
	one.listen(nil)
	key, owner := a.journal.File(t), records.Owner(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.parked) >= maxParked && !a.makeRoom(owner) {
		return fmt.Errorf("%d of its questions wait for answers: answer or cancel some of them, and ask again", len(a.parked))
	}
	if a.parked == nil {
		a.parked = map[string]*parked{}
	}
	p := &parked{one, q, owner, time.Now(), time.AfterFunc(parkedTime, func() { a.giveUp(key, errors.New("nobody has answered")) })}
	a.parked[key] = p
	go a.attend(key, p)
	return nil
}

// attend gives up a parked call whose server has withdrawn its question, and which then neither ends nor asks again for a while: nobody follows it, and
// other calls wait for it, see [calls].
func (a *Agent) attend(key string, p *parked) {
	<-p.question.over
	for asks := true; asks; asks = p.call.asks() {
		select {
		case <-p.call.done:
			return
		case <-time.After(a.withdrawnTime):
		}
		if !a.isParked(key, p) { // it was answered
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parked[key] == p {
		a.remove(key)
		p.call.stop(errors.New("the server has withdrawn its question"))
		a.log.Warn("server has withdrawn a question, and goes on for too long: the call is stopped")
	}
}

func (a *Agent) isParked(key string, p *parked) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parked[key] == p
}

// makeRoom takes away the calls that have ended, or else the oldest one of the owner who has most, if that has more than the one who asks, or the question
// has waited for long: most likely it is forgotten. It returns false if there is no room. a.mu is held.
func (a *Agent) makeRoom(asks string) bool {
	count := map[string]int{}
	for key, p := range a.parked {
		select {
		case <-p.call.done:
			a.remove(key)
		default:
			count[p.owner]++
		}
	}
	if len(a.parked) < maxParked {
		return true
	}
	key, first := "", (*parked)(nil)
	for k, p := range a.parked {
		if first == nil || cmp.Or(cmp.Compare(count[first.owner], count[p.owner]), p.since.Compare(first.since)) < 0 {
			key, first = k, p
		}
	}
	if count[first.owner] <= count[asks] && time.Since(first.since) < staleTime {
		return false
	}
	a.remove(key)
	first.call.stop(errors.New("its question has made room for another one"))
	return true
}

// take returns a parked call, and nil if there is none. It is not parked any more then.
func (a *Agent) take(key string) *parked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.remove(key)
}

// remove is take for a caller that holds a.mu.
func (a *Agent) remove(key string) *parked {
	p := a.parked[key]
	if p != nil {
		delete(a.parked, key)
		p.expiry.Stop()
	}
	return p
}

// giveUp stops a parked call, which will not be answered.
func (a *Agent) giveUp(key string, why error) {
	if p := a.take(key); p != nil {
		p.call.stop(why)
	}
}

// Canceled implements [agents.Canceler]: a call that waits for the user is stopped.
func (a *Agent) Canceled(tenant, contextID string, id a2a.TaskID) {
	a.giveUp(a.journal.Path(tenant, contextID, id), agents.ErrCanceled)
}

// unpark passes the answer to the server and continues with the call.
func (a *Agent) unpark(ctx context.Context, t *agents.Task, of *tool, r *record, said *sdk.ElicitResult) (*agents.Result, error) {
	p := a.take(a.journal.File(t))
	if p != nil && p.call.in.lost.Load() { // a session that ends sends no answers any more
		select {
		case <-p.call.done: // its result is there
		default:
			p.call.stop(errors.New("its session ends"))
			p = nil
		}
	}
	if p == nil {
		r.State, r.Question, r.Failure = done, nil, "the server does not wait for this answer any more: it was lost or started again, or nobody had answered for a day, or it had gone on without the answer for too long, or too many questions waited, and this one made room. What the call had done until then is unknown: look whether it was done, and ask again for all of it if not"
		return nil, errors.Join(errors.New(r.Failure), a.keep(t, of, r))
	}
	r.State, r.Question = sent, nil
	if err := a.keep(t, of, r); err != nil {
		p.call.stop(err)
		return nil, err
	}
	p.call.listen(t.Progress)
	r.Late = !p.question.answer(said)
	res, err := a.follow(ctx, t, of, r, p.call)
	switch {
	case err != nil:
		return nil, a.failed(ctx, t, of, r, p.call.in, err)
	case res == nil:
		return a.asked(r), nil
	}
	return a.settle(ctx, t, of, r, res)
}
