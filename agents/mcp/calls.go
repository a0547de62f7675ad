package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// maxProgress bounds what a server says of its progress, in bytes.
const maxProgress = 500

// calls are what a session has under way.
//
// A question of an older server does not say which call it is for: it is for the one that runs, since a server that has asked once is given one call at
// a time from then on. A call that waits for an answer does not count, since it asks nothing else meanwhile.
type calls struct {
	log *slog.Logger

	mu     sync.Mutex
	under  map[string]*call // by their progress tokens
	asks   bool             // the server has asked something
	change chan struct{}    // closed when one less runs
}

// call is a call that is under way.
type call struct {
	token string
	asked chan *live    // what the server asks; one place
	done  chan struct{} // closed when there is a result
	stop  context.CancelCauseFunc

	result *sdk.CallToolResult
	err    error

	mu     sync.Mutex
	tell   func(string) // progress; nil while nobody listens
	parked bool         // guarded by calls.mu: it waits for an answer
}

// live is a question that a server waits for in a call.
type live struct {
	params *sdk.ElicitParams
	reply  chan *sdk.ElicitResult // one place
}

// begin makes a call. It goes on until it is stopped, the session ends, or there is a result; ctx is for the time before it begins.
func (c *calls) begin(ctx context.Context, s *sdk.ClientSession, token string, p *sdk.CallToolParams, tell func(string)) (*call, error) {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	one := &call{token: token, asked: make(chan *live, 1), done: make(chan struct{}), stop: stop, tell: tell}
	if err := c.enter(ctx, one); err != nil {
		stop(nil)
		return nil, err
	}
	p.SetProgressToken(token)
	go func() {
		one.result, one.err = s.CallTool(running, p)
		c.leave(one)
		close(one.done)
		stop(nil)
	}()
	return one, nil
}

// enter waits until the call may run.
func (c *calls) enter(ctx context.Context, one *call) error {
	for {
		c.mu.Lock()
		if !c.asks || len(c.running()) == 0 {
			if c.under == nil {
				c.under = map[string]*call{}
			}
			c.under[one.token] = one
			c.mu.Unlock()
			return nil
		}
		if c.change == nil {
			c.change = make(chan struct{})
		}
		change := c.change
		c.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// running returns the calls that do not wait for an answer; c.mu is held.
func (c *calls) running() []*call {
	var all []*call
	for _, one := range c.under {
		if !one.parked {
			all = append(all, one)
		}
	}
	return all
}

func (c *calls) changed() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

func (c *calls) leave(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, one.token)
	c.changed()
}

// elicit is asked by an older server.
func (c *calls) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	c.mu.Lock()
	c.asks = true
	running := c.running()
	if len(running) != 1 {
		c.mu.Unlock()
		c.log.Warn("server asks something, and it is not known for which call", "calls", len(running))
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	one := running[0]
	one.parked = true
	c.changed()
	c.mu.Unlock()
	q := &live{params: r.Params, reply: make(chan *sdk.ElicitResult, 1)}
	select {
	case one.asked <- q:
	default: // it asks while it waits
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	select {
	case answer := <-q.reply:
		c.mu.Lock()
		one.parked = false
		c.mu.Unlock()
		return answer, nil
	case <-one.done:
	case <-ctx.Done():
	}
	return &sdk.ElicitResult{Action: "cancel"}, nil
}

// progress is told by the server.
func (c *calls) progress(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	c.mu.Lock()
	one := c.under[token]
	c.mu.Unlock()
	if one == nil {
		return
	}
	text := shorten.To(r.Params.Message, maxProgress)
	if text == "" {
		if text = fmt.Sprintf("%v", r.Params.Progress); r.Params.Total > 0 {
			text += fmt.Sprintf(" of %v", r.Params.Total)
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.tell != nil {
		one.tell(text)
	}
}

// listen sets who is told of the progress; nil is nobody.
func (one *call) listen(tell func(string)) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.tell = tell
}
