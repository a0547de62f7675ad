package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxParked  = 64             // parked calls
	parkedTime = 24 * time.Hour // until a parked call is canceled
	staleTime  = time.Hour      // until it makes room for any other one
	// withdrawnTime is how long a parked call may go on when its server has withdrawn its question: as long as a task without a word.
	withdrawnTime = 5 * time.Minute
	maxRounds     = 20 // attempts at a call that a busy server postpones
	roundPause    = time.Second
	maxUnshown    = 20 // questions during a call that cannot be shown
)

// unknown is the error for an interrupted call that must not be repeated.
const unknown = "the outcome is unknown: the call of %s was cut off, and it is not made a second time, since it may have been done: look whether it was, and ask again if not"

// late is said beside what comes of a call whose server has withdrawn a question before it was answered.
const late = "The server did not wait for your answer, and has gone on without it."

// errUnasked is wrapped by the error for a call that was stopped since its question cannot wait for the user.
var errUnasked = errors.New("the server has asked something that cannot be passed on. Its call was stopped, and what it had done until then is unknown")

var (
	_ agents.Executor = (*Agent)(nil)
	_ agents.Canceler = (*Agent)(nil)
)

// Execute implements [agents.Executor].
func (a *Agent) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return agents.Handler(a.do).Execute(ctx, t)
}

// do makes the call of a task, continues the call that the task replies to, or returns the recorded outcome.
func (a *Agent) do(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	r, err := a.journal.Read(t)
	if err != nil {
		return nil, err
	}
	if r != nil && r.Question != nil && r.Question.Answers == nil {
		r.Question.Answers = sdk.InputResponseMap{}
	}
	name := t.Skill
	switch {
	case r != nil:
		name = r.Tool
	case records.Continues(t):
		return nil, errors.New("the question that this answers was asked by an agent that kept it elsewhere: ask again for all of it")
	}
	of, err := a.tool(name)
	if err != nil {
		return nil, agents.Rejected(err)
	}
	message := ""
	if t.Message != nil {
		message = t.Message.ID
	}
	switch {
	case r == nil && t.Delivery > 1 && !of.repeatable():
		return nil, fmt.Errorf(unknown, of.Name) // it was delivered to a process with another journal
	case r == nil:
		arguments, err := arguments(t, of)
		if err != nil {
			return nil, agents.Rejected(err)
		}
		r = &record{Message: message, State: taken, Tool: of.Name, Arguments: arguments}
	case r.State == done:
		return a.outcome(ctx, t, of, r)
	case r.State == asking && r.Message == message: // the question was not acknowledged
		return a.asked(r), nil
	case r.State == asking:
		r.Message, r.Deliveries = message, 0
		return a.reply(ctx, t, of, r)
	case !of.repeatable() && (r.State == sent || r.Message == message && r.Deliveries < t.Delivery-1):
		return nil, fmt.Errorf(unknown, of.Name)
	case r.Question != nil: // a reply that was not sent to the server
		r.Message = message
		return a.reply(ctx, t, of, r)
	}
	r.Message, r.Deliveries, r.State = message, t.Delivery, taken
	if err := a.keep(t, of, r); err != nil {
		return nil, err
	}
	return a.call(ctx, t, of, r, &sdk.CallToolParams{})
}

// said returns the user's words in a reply, without the results of other tasks, which have names.
func said(t *agents.Task) string {
	var parts a2a.ContentParts
	for _, p := range t.Message.Parts {
		if p != nil && p.Filename == "" {
			parts = append(parts, p)
		}
	}
	return transport.Text(parts)
}

// keep writes the record, unless the call may be repeated.
func (a *Agent) keep(t *agents.Task, of *tool, r *record) error {
	if of.repeatable() && r.Question == nil {
		return nil
	}
	return a.journal.Write(t, r)
}

// arguments returns the arguments of a call: the task's structured input, or its text if the tool requires a single string.
func arguments(t *agents.Task, of *tool) (json.RawMessage, error) {
	var args []byte
	text := strings.TrimSpace(t.Text())
	switch v := t.Input(); {
	case v != nil:
		var err error
		if args, err = transport.EncodeValue(v); err != nil {
			return nil, fmt.Errorf("the input cannot be used: %w", err)
		}
	case strings.HasPrefix(text, "{") && json.Valid([]byte(text)):
		args = []byte(text)
	case of.text != "":
		args, _ = json.Marshal(map[string]string{of.text: t.Text()})
	default:
		args = []byte("{}") // for tools without parameters
		var s struct{ Properties map[string]any }
		if of.input == nil || json.Unmarshal(of.input, &s) == nil && len(s.Properties) == 0 {
			break
		}
		return nil, fmt.Errorf("%s takes structured input, and the task has none: its schema is %s", of.Name, shorten.Marked(string(of.input), 3000, "…"))
	}
	if !bytes.HasPrefix(args, []byte("{")) {
		return nil, fmt.Errorf("the input of %s has to be an object", of.Name)
	}
	if of.check != nil {
		if err := of.check.Validate(args); err != nil {
			return nil, fmt.Errorf("the input does not fit %s: %w; its schema is %s", of.Name, err, shorten.Marked(string(of.input), 3000, "…"))
		}
	}
	return args, nil
}

// call makes the call of a record; p has what is special to this round.
func (a *Agent) call(ctx context.Context, t *agents.Task, of *tool, r *record, p *sdk.CallToolParams) (*agents.Result, error) {
	p.Name, p.Arguments = r.Tool, r.Arguments
	for round := range maxRounds {
		s, err := a.await(ctx)
		if err != nil {
			return nil, err
		}
		r.State = sent
		if err := a.keep(t, of, r); err != nil {
			return nil, err
		}
		end := a.span(ctx, t, of, p)
		one, err := s.calls.begin(ctx, s, uuid.NewString(), p, t.Progress)
		if err != nil {
			end(nil, err)
			return nil, a.unsent(t, of, r, err)
		}
		res, err := a.follow(ctx, t, of, r, one)
		end(res, err)
		switch {
		case err != nil && (one.posts.isUnsent(err) || of.repeatable() && errors.Is(err, sdk.ErrConnectionClosed)):
			if refused, ok := errors.AsType[*refusedError](err); !ok || !refused.scoped {
				a.recover(s, err)
			}
			if round == 0 && !isRefused(err) {
				select { // the call was not started, or may be repeated: try once more with a new session
				case <-s.ending:
				case <-s.ended:
				case <-ctx.Done():
				}
				continue
			}
			why := "the server cannot be reached"
			if isRefused(err) {
				why = "the call was not made"
			}
			return nil, a.unsent(t, of, r, fmt.Errorf("%s: %s", why, a.server.hide(plainURL(err).Error())))
		case err != nil:
			if q := visits(err); q != nil { // the server wants the user to visit a URL first
				r.Question = q
				return a.ask(ctx, t, of, r)
			}
			return nil, a.failed(ctx, t, of, r, s, err)
		case res == nil:
			return a.asked(r), nil
		case !res.NeedsInput():
			return a.settle(ctx, t, of, r, res)
		}
		if p.RequestState = res.RequestState; len(res.InputRequests) > 0 {
			r.Question = &question{Requests: res.InputRequests, Answers: sdk.InputResponseMap{}, State: res.RequestState}
			return a.ask(ctx, t, of, r)
		}
		if rest.For(ctx, roundPause) != nil { // the server is busy
			return nil, context.Cause(ctx)
		}
	}
	return nil, errors.New("the server puts the call off again and again")
}

// unsent records that the call was not sent.
func (a *Agent) unsent(t *agents.Task, of *tool, r *record, why error) error {
	r.State = taken
	return errors.Join(why, a.keep(t, of, r))
}

// follow waits for a call's result or error. If both are nil the server has asked a question, which is in r.
func (a *Agent) follow(ctx context.Context, t *agents.Task, of *tool, r *record, one *call) (*sdk.CallToolResult, error) {
	for range maxUnshown {
		select {
		case <-one.done:
			return one.result, one.err
		case q := <-one.asked:
			shown, err := words(a.server.Name, q.params)
			if err != nil {
				q.answer(&sdk.ElicitResult{Action: "cancel"})
				continue
			}
			r.Question = &question{Requests: sdk.InputRequestMap{"": q.params}, Answers: sdk.InputResponseMap{}, Live: true, Shown: shown}
			r.State = asking
			if err = a.park(t, one, q); err == nil {
				if err = a.keep(t, of, r); err == nil {
					return nil, nil
				}
				a.take(a.journal.File(t))
			}
			return one.cutOff(fmt.Errorf("%w: %w", errUnasked, err))
		case <-ctx.Done():
			return one.cutOff(context.Cause(ctx))
		}
	}
	err := errors.New("it asks again and again what cannot be shown to the user")
	one.stop(err)
	one.in.lost.Store(true) // the next call waits for another session
	go one.in.end()         // it would go on
	<-one.done
	return nil, err
}

// own lists the codes that the SDK uses for failed connections. These errors have the same type as errors in a server's response.
var own = []int64{-32003, -32004, -32005}

func isOwn(code int64) bool { return slices.Contains(own, code) }

// failed returns the task's error for a failed call and records the outcome.
func (a *Agent) failed(ctx context.Context, t *agents.Task, of *tool, r *record, s *session, err error) error {
	var answered *jsonrpc.Error
	switch {
	case errors.As(err, &answered) && !isOwn(answered.Code): // the server responded with an error
		r.State, r.Failure = done, shorten.To(a.server.hide(answered.Message), 4<<10)
		r.Failure = cmp.Or(r.Failure, fmt.Sprintf("the server gives the error %d", answered.Code))
		return errors.Join(errors.New(r.Failure), a.keep(t, of, r))
	case errors.Is(err, errUnasked):
		return err // the server is not to blame
	case ctx.Err() != nil && (of.repeatable() || errors.Is(err, agents.ErrCanceled)):
		return err // nobody waits for the outcome, or the call may be repeated
	}
	if ctx.Err() == nil {
		a.recover(s, err)
	}
	if of.repeatable() {
		return fmt.Errorf("the server was lost while it worked: %s", a.server.hide(plainURL(err).Error()))
	}
	r.State, r.Failure = done, fmt.Sprintf(unknown, of.Name)
	return errors.Join(errors.New(r.Failure), a.keep(t, of, r))
}

// recover ends a failed session, so that Run opens another one. That of a program mostly ends by itself.
func (a *Agent) recover(s *session, err error) {
	a.log.Warn("server was lost", "err", a.server.hide(plainURL(err).Error()))
	if s != nil && (s.program == nil || errors.Is(err, sdk.ErrConnectionClosed)) {
		s.lost.Store(true) // the next call waits for another session
		go s.end()
	}
}

// settle records the result of a call and returns it.
func (a *Agent) settle(ctx context.Context, t *agents.Task, of *tool, r *record, res *sdk.CallToolResult) (*agents.Result, error) {
	b, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	r.State, r.Result, r.Question = done, b, nil
	if !of.repeatable() {
		if err := a.journal.Write(t, r); err != nil {
			a.log.Error("what came of a call is not kept", "task_id", t.ID, "err", err)
		}
	}
	return a.outcome(ctx, t, of, r)
}

// outcome returns the outcome in a record.
func (a *Agent) outcome(ctx context.Context, t *agents.Task, of *tool, r *record) (*agents.Result, error) {
	if r.Failure != "" {
		return nil, errors.New(r.Failure)
	}
	res := &sdk.CallToolResult{}
	if err := json.Unmarshal(r.Result, res); err != nil {
		return nil, fmt.Errorf("the result of %s cannot be read: %w", r.Tool, err)
	}
	if res.IsError {
		return nil, errors.New(failure(res))
	}
	said, err := resultOf(ctx, t, of, res)
	if err == nil && r.Late {
		said.Parts = append(a2a.ContentParts{a2a.NewTextPart(late)}, said.Parts...)
	}
	return said, err
}

// ask asks the user the next question of a record, or continues the call if all are answered.
func (a *Agent) ask(ctx context.Context, t *agents.Task, of *tool, r *record) (*agents.Result, error) {
	key, p, err := r.Question.next()
	if err != nil {
		r.State, r.Failure = done, err.Error()
		return nil, errors.Join(err, a.keep(t, of, r))
	}
	if p == nil {
		q := r.Question
		r.State = taken
		if err := a.keep(t, of, r); err != nil {
			return nil, err
		}
		if q.Visits {
			for _, said := range q.Answers {
				if is, ok := said.(*sdk.ElicitResult); ok && is.Action != "accept" {
					r.State, r.Question, r.Failure = done, nil, "the server wants something to be done elsewhere first, and that was declined"
					return nil, errors.Join(errors.New(r.Failure), a.journal.Write(t, r))
				}
			}
			return a.call(ctx, t, of, r, &sdk.CallToolParams{})
		}
		return a.call(ctx, t, of, r, &sdk.CallToolParams{InputResponses: maps.Clone(q.Answers), RequestState: q.State})
	}
	if r.Question.Shown, err = words(a.server.Name, p); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	r.State = asking
	if err := a.journal.Write(t, r); err != nil {
		return nil, err
	}
	return a.asked(r), nil
}

// asked returns the question of a record as a result.
func (a *Agent) asked(r *record) *agents.Result {
	text := r.Question.Shown
	if r.Question.Wrong != "" {
		text = r.Question.Wrong + ".\n" + text
	} else if r.Late {
		text = late + "\n" + text
	}
	return agents.InputRequired(a.server.hide(text))
}

// reply takes the user's answer to a question.
func (a *Agent) reply(ctx context.Context, t *agents.Task, of *tool, r *record) (*agents.Result, error) {
	q := r.Question
	key, p, err := q.next()
	if err != nil || p == nil {
		return a.ask(ctx, t, of, r)
	}
	data, _ := t.Input().(map[string]any)
	reply, err := answer(p, said(t), data)
	if errors.Is(err, errUnfit) {
		q.Wrong, r.State = shorten.To(err.Error(), 1000), asking
		if err := a.journal.Write(t, r); err != nil {
			return nil, err
		}
		return a.asked(r), nil
	}
	q.Wrong = ""
	if err != nil {
		return nil, err
	}
	if q.Live {
		return a.unpark(ctx, t, of, r, reply)
	}
	r.State = taken
	r.Deliveries = t.Delivery
	q.Answers[key] = reply
	return a.ask(ctx, t, of, r)
}
