package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// maxProgress bounds a progress message, in bytes.
const maxProgress = 500

// toldEach is the shortest time between two log lines about questions outside of calls.
const toldEach = 10 * time.Second

// calls tracks the calls in progress of a session.
//
// Before revision 2026-07-28 a server's question does not name its call. It is assigned to the only running call: after its first question a server gets
// one call at a time. Calls that wait for the user's answer do not count as running.
type calls struct {
	log *slog.Logger

	mu     sync.Mutex
	under  map[string]*call // by progress token
	asks   bool             // the server has asked a question
	change chan struct{}    // closed when a call ends or is parked
	told   time.Time        // when the log last had a line about a question outside of calls, of which a server can ask any number
}

// call is a call in progress.
type call struct {
	token string
	in    *session
	posts posts
	asked chan *live    // the server's question; buffered
	done  chan struct{} // closed when there is a result
	stop  context.CancelCauseFunc

	result *sdk.CallToolResult
	err    error

	mu     sync.Mutex
	tell   func(string) // receives progress; may be nil
	parked bool         // waits for the user's answer; guarded by calls.mu
}

// cutOff stops the call because of cause, which notifies the server, and returns its result if it had just ended.
func (c *call) cutOff(cause error) (*sdk.CallToolResult, error) {
	c.stop(cause)
	<-c.done
	if c.err == nil {
		return c.result, nil
	}
	return nil, cause
}

// live is a question whose answer the server waits for during the call.
type live struct {
	params *sdk.ElicitParams
	reply  chan *sdk.ElicitResult
	over   chan struct{} // closed when the server does not wait any more
}

// answer passes the reply to the server. It returns false if the server does not wait for it any more.
func (q *live) answer(reply *sdk.ElicitResult) bool {
	select {
	case q.reply <- reply:
		return true
	case <-q.over:
		return false
	}
}

// begin starts a call, which may outlive ctx: it runs until it has a result, is stopped, or the session ends. ctx bounds the wait for its turn.
func (c *calls) begin(ctx context.Context, s *session, token string, p *sdk.CallToolParams, tell func(string)) (*call, error) {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	one := &call{token: token, in: s, asked: make(chan *live, 1), done: make(chan struct{}), stop: stop, tell: tell}
	if err := c.enter(ctx, one); err != nil {
		stop(nil)
		return nil, err
	}
	p.SetProgressToken(token)
	go func() {
		over := s.unblock(running)
		one.result, one.err = s.CallTool(context.WithValue(running, postsKey{}, &one.posts), p)
		over()
		c.leave(one)
		close(one.done)
		stop(nil)
	}()
	return one, nil
}

// enter waits for the call's turn.
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

// running returns the calls that are not parked. The caller holds c.mu.
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

// elicit handles elicitation requests, which only servers before 2026-07-28 send.
func (c *calls) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	c.mu.Lock()
	c.asks = true
	running := c.running()
	if len(running) != 1 {
		tell := time.Since(c.told) >= toldEach
		if tell {
			c.told = time.Now()
		}
		c.mu.Unlock()
		if tell {
			c.log.Warn("server asks something, and it is not known for which call", "calls", len(running))
		}
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	one := running[0]
	one.parked = true
	c.changed()
	c.mu.Unlock()
	q := &live{params: r.Params, reply: make(chan *sdk.ElicitResult), over: make(chan struct{})}
	defer close(q.over)
	defer func() { // also when the server withdraws its question: what it asks then could be shown to the user of another call
		c.mu.Lock()
		defer c.mu.Unlock()
		one.parked = false
	}()
	select {
	case one.asked <- q:
	default: // it already waits for an answer
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	select {
	case answer := <-q.reply:
		return answer, nil
	case <-one.done:
	case <-ctx.Done():
	}
	return &sdk.ElicitResult{Action: "cancel"}, nil
}

// progress handles progress notifications.
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

// asks reports whether the server waits for an answer.
func (one *call) asks() bool {
	c := &one.in.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.parked
}

// listen sets the receiver of progress.
func (one *call) listen(tell func(string)) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.tell = tell
}
