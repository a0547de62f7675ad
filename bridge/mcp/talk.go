package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// talk is one call that waits for a turn, and for those of the replies to its questions.
type talk struct {
	*Server
	req   *sdk.CallToolRequest
	c     *caller
	first client.Turn // of the call
	wait  time.Duration
	quiet bool // asks the user nothing
}

// talk returns the talk of a call that asks to wait for so many seconds. What it asks has the trace of the call.
func (s *Server) talk(req *sdk.CallToolRequest, seconds int) *talk {
	k := &talk{Server: s, req: req, c: s.callerOf(req.Extra, req.Session, req.ClientInfo()), wait: s.cfg.Wait}
	if seconds > 0 && seconds < int(s.cfg.Wait/time.Second) {
		k.wait = time.Duration(seconds) * time.Second
	}
	meta := req.Params.GetMeta()
	k.c.OnSend = func(e *transport.Event) {
		e.Traceparent, _ = meta["traceparent"].(string)
		e.Tracestate, _ = meta["tracestate"].(string)
		e.Traceparent, e.Tracestate = e.Trace() // if it is one
	}
	return k
}

// run sends m, unless it is nil, and returns what has become of turn t when it is answered, or when the call has waited long enough. A question
// is put to the user of a host that can do that, and what comes of the reply is returned.
func (k *talk) run(ctx context.Context, m *client.Message, t client.Turn) (*sdk.CallToolResult, *answer, error) {
	if !k.calls.running.Enter(k.c.user(), maxRunning) {
		return nil, nil, errors.New("too many calls of yours are waiting: make it again when some have ended")
	}
	defer k.calls.running.Leave(k.c.user())
	for {
		said, err := k.await(ctx, m, t)
		if err != nil {
			return nil, nil, err
		}
		conv, err := k.load(ctx, k.c, t.ContextID)
		if err != nil && said == nil && transport.IsPermanent(err) {
			return nil, nil, err
		}
		a := k.answerOf(conv, t, said)
		a.sent = m != nil
		if err != nil && said == nil { // the store is away
			a.State = working
		}
		if a.State != inputRequired || k.quiet || !canElicit(k.req) {
			return k.give(ctx, a)
		}
		q := a.form()
		if k.req.ProtocolVersion() >= stateless {
			return &sdk.CallToolResult{
				InputRequests: sdk.InputRequestMap{replyKey: q}, RequestState: handleOf(k.first) + " " + handleOf(t),
			}, nil, nil
		}
		asked, cancel := context.WithTimeout(ctx, formTime)
		r, err := k.req.Session.Elicit(asked, q)
		cancel()
		text, ok := replyOf(r, a.held)
		if err != nil || !ok { // the question stays open
			return k.give(ctx, a)
		}
		m = k.replyTo(t, text)
		t = client.Turn{ContextID: m.ContextID, From: m.From, MessageID: m.ID}
	}
}

// give returns the result of the call. The same call after it is another one, if the host gets the result.
func (k *talk) give(ctx context.Context, a *answer) (*sdk.CallToolResult, *answer, error) {
	if a.State != working && a.State != unknown && !k.isGone(ctx, k.req.Extra) {
		k.calls.got(k.first.From, k.first.ContextID, k.first.MessageID)
	}
	return a.result(), a, nil
}

// goOn goes on with a call whose user has answered a form. The state is a stranger's: it names turns of the caller, and the reply does what the
// tool reply does.
func (k *talk) goOn(ctx context.Context) (*sdk.CallToolResult, *answer, error) {
	first, asked, ok := strings.Cut(k.req.Params.RequestState, " ")
	var t client.Turn
	var err error
	if !ok {
		return nil, nil, errNoTurn(first)
	}
	if k.first, err = k.c.turnOf(first); err != nil {
		return nil, nil, err
	}
	if t, err = k.c.turnOf(asked); err != nil {
		return nil, nil, err
	}
	return k.reply(ctx, t, func(held bool) (string, bool) {
		r, _ := k.req.Params.InputResponses[replyKey].(*sdk.ElicitResult)
		text, ok := replyOf(r, held)
		k.quiet = !ok // the question stays open
		return text, ok
	})
}

// reply sends the reply to the question of turn t, and returns what comes of it. What is told whether the question is for a yes, and returns the
// reply; false when there is none.
func (k *talk) reply(ctx context.Context, t client.Turn, what func(held bool) (string, bool)) (*sdk.CallToolResult, *answer, error) {
	conv, err := k.load(ctx, k.c, t.ContextID)
	if err != nil {
		return nil, nil, err
	}
	if conv == nil || conv.Turn(k.c.ID(t)) == nil {
		return nil, nil, errNoTurn(handleOf(t))
	}
	w := conv.WaitsFor(k.c.ID(t))
	text, ok := what(w != nil && w.Phase == conversation.Held)
	if !ok {
		return k.run(ctx, nil, t)
	}
	m := k.replyTo(t, text)
	next := client.Turn{ContextID: m.ContextID, From: m.From, MessageID: m.ID}
	if w == nil && conv.Turn(k.c.ID(next)) == nil { // nor was this reply given before
		return nil, nil, fmt.Errorf("the turn %s has no question that waits for a reply", handleOf(t))
	}
	return k.run(ctx, m, next)
}

// replyTo returns the message that replies to the question of a turn. The same reply again is the same message.
func (k *talk) replyTo(t client.Turn, text string) *client.Message {
	m := client.Text(t.ContextID, text)
	m.From, m.ID, m.ReplyTo = k.c.user(), digest(t.From, handleOf(t), text, "reply"), k.c.ID(t)
	return m
}

// sendAgain is the pause before a message is sent again that could not be sent.
const sendAgain = time.Second

// await sends m, unless it is nil, and waits for the answer to turn t. It returns nil when the call has waited long enough.
func (k *talk) await(ctx context.Context, m *client.Message, t client.Turn) (*a2a.Message, error) {
	waiting, stop := context.WithTimeout(ctx, k.wait)
	defer stop()
	news := k.tell(ctx)
	defer news.end()
	for {
		events := k.c.Watch(waiting, t)
		if m != nil {
			events = k.c.Follow(waiting, m)
		}
		var failed error
		for e, err := range events {
			if err != nil {
				failed = err
				break
			}
			if said, ok := e.Payload.(*a2a.Message); ok {
				return said, nil
			}
			news.add(e)
		}
		away := errors.Is(failed, transport.ErrUnavailable) && !errors.Is(failed, transport.ErrFull)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case away && errors.Is(failed, client.ErrUnsent) && rest.For(waiting, sendAgain) != nil:
			return nil, errUnsent
		case waiting.Err() != nil:
			return nil, nil
		case !away:
			return nil, failed
		case !errors.Is(failed, client.ErrUnsent):
			_ = rest.For(waiting, sendAgain)
		}
	}
}
