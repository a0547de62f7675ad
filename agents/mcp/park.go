package mcp

import (
	"context"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
)

// parked is a call that waits for the user's answer.
type parked struct {
	call     *call
	question *live
	expiry   *time.Timer
}

// park keeps a call while the user is asked. It returns false if too many are parked.
func (a *Agent) park(t *agents.Task, one *call, q *live) bool {
	one.listen(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.parked) >= maxParked {
		return false
	}
	if a.parked == nil {
		a.parked = map[string]*parked{}
	}
	key := a.journal.File(t)
	a.parked[key] = &parked{one, q, time.AfterFunc(parkedTime, func() {
		one.stop(errors.New("nobody has answered"))
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.parked, key)
	})}
	return true
}

// unpark passes the answer to the server and continues with the call.
func (a *Agent) unpark(ctx context.Context, t *agents.Task, of *tool, r *record, said *sdk.ElicitResult) (*agents.Result, error) {
	key := a.journal.File(t)
	a.mu.Lock()
	p := a.parked[key]
	delete(a.parked, key)
	a.mu.Unlock()
	if p == nil {
		r.State, r.Question, r.Failure = done, nil, "the server had asked, and is not the same any more that waits for the answer: ask again for all of it. What the call had done until then is unknown"
		return nil, errors.Join(errors.New(r.Failure), a.keep(t, of, r))
	}
	p.expiry.Stop()
	r.State, r.Question = sent, nil
	if err := a.keep(t, of, r); err != nil {
		return nil, err
	}
	p.call.listen(t.Progress)
	p.question.reply <- said
	res, err := a.follow(ctx, t, of, r, p.call)
	switch {
	case err != nil:
		return nil, a.failed(ctx, t, of, r, p.call.in, err)
	case res == nil:
		return a.asked(r), nil
	}
	return a.settle(ctx, t, of, r, res)
}
