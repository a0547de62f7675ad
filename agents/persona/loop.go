package persona

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of a step.
const (
	maxCalls  = 16       // in one reply
	maxAtOnce = 4        // calls at the same time
	maxResult = 4 << 20  // bytes of a result that are kept
	maxKept   = 16 << 20 // bytes of all results of a task in its record: tasks are in memory several at a time, and their records are written whole
	maxSame   = 3        // equal calls, the last of which ends the work
)

// lastTime is how long the model has for its answer after the time is over.
const lastTime = time.Minute

// work is the state of the work on a task in this process. What has to survive is in its record.
type work struct {
	a     *Agent
	task  *agents.Task
	r     *record
	box   []*tool
	began time.Time
	kept  bool // the record is in the journal
	// unaffordable says that the tokens that are left do not suffice for another question.
	unaffordable bool
}

// run works until there is an answer, a question or an error.
func (w *work) run(ctx context.Context) (*agents.Result, error) {
	ctx = llm.WithRequester(ctx, records.Owner(w.task))
	timed, cancel := context.WithTimeoutCause(ctx, max(0, w.a.p.Limits.Timeout-w.r.Worked), errTime)
	defer cancel()
	for {
		question, err := w.finish(timed)
		if question != "" || err != nil && !errors.Is(err, errTime) {
			return agents.InputRequired(question), err
		}
		if bound := w.bound(timed); bound != "" {
			return w.conclude(ctx, bound)
		}
		reply, err := w.think(timed)
		switch {
		case errors.Is(err, errTime), errors.Is(err, llm.ErrBudget):
			continue // bound says which one it is
		case err != nil:
			return nil, err
		case reply.kind == kindCall:
			w.r.Steps = append(w.r.Steps, reply.step())
			err = w.keep()
		default:
			var result *agents.Result
			if result, err = w.settle(timed, reply); result != nil {
				return result, err
			}
		}
		if err != nil && !errors.Is(err, errTime) {
			return nil, err
		}
	}
}

// errTime is the cause of a context whose time is over.
var errTime = errors.New("the time for the task is over")

// keep writes the record.
func (w *work) keep() error {
	if err := w.forgotten(); err != nil {
		return err
	}
	w.makeRoom()
	now := time.Now()
	w.r.Worked += now.Sub(w.began)
	w.began = now
	if err := w.a.journal.Write(w.task, w.r); err != nil {
		return &unkeptError{err}
	}
	return nil
}

// unkeptError is the error of a record that cannot be written.
type unkeptError struct{ error }

func (e *unkeptError) Unwrap() error { return e.error }

// told adds to the error of a record that cannot be written what was done before: the task fails, and nobody else would say it.
func (w *work) told(err error) error {
	if _, ok := errors.AsType[*unkeptError](err); ok {
		if made := w.effects(); made != "" {
			return fmt.Errorf("%w. What was done before: %s", err, made)
		}
	}
	return err
}

// passOn ends the task with out. It is the result also when it cannot be kept: it is there, and paid for, and all that had an effect is in the record as
// far as that could be written.
func (w *work) passOn(out *outcome) (*agents.Result, error) {
	w.r.Outcome = out
	err := w.keep()
	if _, ok := errors.AsType[*unkeptError](err); ok {
		w.a.log.Error("the result of a task is not kept", "task_id", w.task.ID, "err", err)
		err = nil
	}
	return w.result(), err
}

// errForgotten ends the work on a task whose conversation was erased meanwhile: nothing more is kept of it.
var errForgotten = errors.New("what is kept of the task was erased")

// forgotten returns errForgotten if the record, which was there, is there no more.
func (w *work) forgotten() error {
	if !w.kept {
		return nil
	}
	if _, err := os.Stat(w.a.journal.File(w.task)); errors.Is(err, fs.ErrNotExist) {
		return errForgotten
	}
	return nil
}

// bound returns which bound the work has reached, in words; "": none.
func (w *work) bound(ctx context.Context) string {
	limits := w.a.p.Limits
	switch u := w.r.Usage; {
	case len(w.r.Steps) >= limits.Steps:
		return fmt.Sprintf("%d steps", limits.Steps)
	case errors.Is(context.Cause(ctx), errTime):
		return fmt.Sprintf("%v of work", limits.Timeout)
	case limits.Tokens > 0 && (w.unaffordable || u.Tokens() >= limits.Tokens):
		return fmt.Sprintf("%d tokens", limits.Tokens)
	case limits.Cost > 0 && u.Cost >= limits.Cost:
		return fmt.Sprintf("a cost of %.4g", limits.Cost)
	case w.same() >= maxSame:
		return fmt.Sprintf("%d calls that were the same", maxSame)
	}
	return ""
}

// same returns how often the last call was made with the same input and nothing between that may have had an effect. Calls that the model was told to make
// again are not counted.
func (w *work) same() int {
	n := 0
	var last *call
	for _, s := range slices.Backward(w.r.Steps) {
		for _, c := range slices.Backward(s.Calls) {
			switch {
			case last == nil:
				last, n = &c, 1
			case c.Tool == last.Tool && string(c.Input) == string(last.Input):
				if !c.Again {
					n++
				}
			default:
				if t := w.find(c.Tool); t != nil && t.effect != readOnly {
					return n
				}
			}
		}
	}
	return n
}

func (w *work) find(name string) *tool {
	i := slices.IndexFunc(w.box, func(t *tool) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return w.box[i]
}

// finish makes the calls of the last step that were not made. It returns a question for the user if there is one.
func (w *work) finish(ctx context.Context) (question string, err error) {
	if len(w.r.Steps) == 0 {
		return "", nil
	}
	last := &w.r.Steps[len(w.r.Steps)-1]
	if err := w.interrupted(last); err != nil {
		return "", err
	}
	for i := 0; i < len(last.Calls); {
		c := &last.Calls[i]
		t := w.find(c.Tool)
		switch {
		case c.State == done:
			i++
			continue
		case t == nil: // its server is away
			c.end("", errors.New("the tool is not there any more"))
			continue
		case t.asks:
			in := &input{}
			_ = json.Unmarshal(c.Input, in) // it fits the schema
			w.r.Asked = &asked{Text: shorten.To(in.Question, 16<<10), Call: i}
			return w.r.Asked.Text, w.keep()
		case w.repeated(last, i):
			c.end("This very call was made before, and nothing has changed since: its result is above. Do something else, or answer.", nil)
			continue
		case t.confirm && c.State == planned:
			w.r.Asked = &asked{Text: fmt.Sprintf("%s wants to call %s with %s. May it? Answer yes or no.", prompt.Shown(w.a.p.Name, 100), prompt.Shown(c.Tool, 200), shownInput(c.Input)), Call: i}
			return w.r.Asked.Text, w.keep()
		}
		n := 1
		if t.effect == readOnly {
			n = w.readers(last.Calls[i:])
		}
		if err := w.call(ctx, last.Calls[i:i+n]); err != nil {
			return "", err
		}
		i += n
	}
	return "", nil
}

// readers returns how many calls, from the first one, can be made at the same time.
func (w *work) readers(calls []call) int {
	n := 0
	for n < min(len(calls), maxAtOnce) {
		t := w.find(calls[n].Tool)
		if t == nil || t.effect != readOnly || t.confirm || t.asks || calls[n].State != planned {
			break
		}
		n++
	}
	return max(n, 1)
}

// repeated reports whether the ith call of the last step was made before, with nothing since that may have had an effect.
func (w *work) repeated(last *step, i int) bool {
	c := &last.Calls[i]
	steps := slices.Clone(w.r.Steps)
	steps[len(steps)-1].Calls = last.Calls[:i]
	for _, s := range slices.Backward(steps) {
		for _, before := range slices.Backward(s.Calls) {
			if before.Tool == c.Tool && string(before.Input) == string(c.Input) {
				return !before.Failed && !before.Again
			}
			if t := w.find(before.Tool); t != nil && t.effect != readOnly {
				return false
			}
		}
	}
	return false
}

// interrupted ends the calls that an earlier process had begun and that must not be made twice.
func (w *work) interrupted(s *step) error {
	changed := false
	for i := range s.Calls {
		c := &s.Calls[i]
		if t := w.find(c.Tool); c.State == begun && (t == nil || t.effect == writes) {
			c.end("", errors.New(unknown))
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return w.keep()
}

// unknown is what the model is told of a call that was cut off.
const unknown = "the outcome is unknown: the call was cut off, and may have been made. It is not made again: find out whether it was, or say that it is unknown"

// call makes calls at the same time, and writes their results. An error is that of ctx, or of the journal.
func (w *work) call(ctx context.Context, calls []call) error {
	for i := range calls {
		w.task.Progress(calls[i].words())
		if t := w.find(calls[i].Tool); t.effect == writes {
			was := calls[i].State
			calls[i].State = begun
			if err := w.keep(); err != nil {
				calls[i].State = was
				return err
			}
		}
	}
	var all errgroup.Group
	ends := make([]func(), len(calls)) // run when all have ended: calls read the record
	for i := range calls {
		c := &calls[i]
		t := w.find(c.Tool)
		all.Go(func() error {
			text, err := t.call(ctx, w, c.Input)
			switch {
			case errors.Is(err, mcp.ErrUnknown) && t.effect == writes:
				err = fmt.Errorf("%s (%w)", unknown, err)
			case err != nil && ctx.Err() != nil: // it may have been made, or not: interrupted says so later
				return context.Cause(ctx)
			}
			ends[i] = func() { c.end(text, err) }
			return nil
		})
	}
	err := all.Wait()
	for _, end := range ends {
		if end != nil {
			end()
		}
	}
	if err != nil {
		if errors.Is(err, errTime) {
			for i := range calls {
				if calls[i].State != done {
					why := err
					if calls[i].State == begun {
						why = errors.New(unknown)
					}
					calls[i].end("", why)
				}
			}
			return cmp.Or(w.keep(), err)
		}
		return err
	}
	return w.keep()
}

// end sets the result of a call.
func (c *call) end(text string, err error) {
	c.State, c.Result, c.Failed = done, text, err != nil
	if err != nil {
		c.Result = err.Error()
	}
	c.Result = shorten.Marked(strings.ToValidUTF8(c.Result, "\uFFFD"), maxResult, "\n[the rest is left out]")
}

// words describes a call in a line.
func (c *call) words() string {
	return fmt.Sprintf("%s %s", strings.TrimPrefix(c.Tool, "mcp__"), shorten.Line(string(c.Input), 120))
}

// reply takes what the user said to a question. It returns a result when that ends the task.
func (w *work) reply(said string) (*agents.Result, error) {
	q := w.r.Asked
	w.r.Asked = nil
	switch yes := isYes(said); {
	case q.Release != nil && yes:
		return w.passOn(q.Release)
	case q.Release != nil:
		return w.refused("the result was not passed on, since the user does not want it")
	default:
		c := &w.r.Steps[len(w.r.Steps)-1].Calls[q.Call]
		switch t := w.find(c.Tool); {
		case t != nil && t.asks:
			c.end(said, nil)
		case yes:
			c.State = approved
		default:
			c.end("", fmt.Errorf("the user did not consent, and said: %s", shorten.To(said, 4<<10)))
		}
	}
	return nil, w.keep()
}
