package persona

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Kinds of a reply.
const (
	kindCall   = "call"
	kindAnswer = "answer"
)

// replySchema is the schema of a reply. Inputs are strings with JSON, since a strict schema cannot allow arbitrary objects.
const replySchema = `{"type":"object","properties":{"kind":{"type":"string","enum":["call","answer"]},` +
	`"say":{"type":["string","null"],"description":"with answer: the whole result; with call: what you are about to do, in a few words"},` +
	`"calls":{"type":"array","description":"empty unless kind is call","items":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"the name of a listed tool"},"input":{"type":"string","description":"a JSON text that fits the tool's input"}},` +
	`"required":["tool","input"],"additionalProperties":false}}},"required":["kind","say","calls"],"additionalProperties":false}`

// lastSchema is the schema of the last reply.
const lastSchema = `{"type":"object","properties":{"say":{"type":"string"}},"required":["say"],"additionalProperties":false}`

// reply is what the model wants.
type reply struct {
	kind  string
	say   string
	calls []call
	data  json.RawMessage // of an answer to a skill with an output schema
}

// step returns the step of a reply.
func (r *reply) step() step { return step{Reply: r.encode(), Say: r.say, Calls: r.calls} }

// encode returns the reply as the prompt shows it.
func (r *reply) encode() string {
	type shownCall struct {
		Tool  string `json:"tool"`
		Input string `json:"input"`
	}
	calls := []shownCall{}
	for _, c := range r.calls {
		calls = append(calls, shownCall{c.Tool, string(c.Input)})
	}
	b, _ := json.Marshal(map[string]any{"kind": r.kind, "say": r.say, "calls": calls}) // strings only
	return string(b)
}

// think asks the model for the next step.
func (w *work) think(ctx context.Context) (*reply, error) {
	w.task.Progress(fmt.Sprintf("thinks about step %d", len(w.r.Steps)+1))
	q := w.request(replySchema)
	var got *reply
	budget := llm.Budget{}
	if limits := w.a.p.Limits; limits.Tokens > 0 || limits.Cost > 0 {
		if limits.Tokens > 0 {
			budget.Tokens = limits.Tokens - w.r.Usage.Tokens()
		}
		if limits.Cost > 0 {
			budget.Cost = limits.Cost - w.r.Usage.Cost
		}
	}
	spent, err := w.a.o.Model.Ask(ctx, q, budget, func(text string) (err error) {
		got, err = w.read(text)
		return err
	})
	w.r.Usage = w.r.Usage.Add(spent)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, llm.ErrBudget):
		w.unaffordable = w.a.p.Limits.Cost == 0 || w.r.Usage.Cost < w.a.p.Limits.Cost // tokens, and not the cost
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the model cannot be asked: %w", err)
	}
	return got, nil
}

// read parses and checks a reply.
func (w *work) read(text string) (*reply, error) {
	fields, err := llm.ReadObject("kind", text)
	if err != nil {
		return nil, err
	}
	r := &reply{}
	if json.Unmarshal(fields["kind"], &r.kind) != nil || r.kind != kindCall && r.kind != kindAnswer {
		return nil, fmt.Errorf(`"kind" has to be %q or %q`, kindCall, kindAnswer)
	}
	if raw := fields["say"]; len(raw) > 0 && json.Unmarshal(raw, &r.say) != nil {
		r.say = string(raw) // an answer that is an object
	}
	if r.kind == kindAnswer {
		return r, w.checkAnswer(r)
	}
	var calls []map[string]json.RawMessage
	if json.Unmarshal(fields["calls"], &calls) != nil || len(calls) == 0 || len(calls) > maxCalls {
		return nil, fmt.Errorf(`"calls" has to be a list of 1 to %d objects with "tool" and "input"; to make none, answer`, maxCalls)
	}
	for i, fields := range calls {
		c := call{}
		_ = json.Unmarshal(fields["tool"], &c.Tool)
		t := w.find(c.Tool)
		if t == nil {
			return nil, fmt.Errorf("call %d: there is no tool %q: there are %s", i+1, c.Tool, strings.Join(w.names(), ", "))
		}
		if c.Input, err = llm.ReadInput(fields["input"]); err != nil {
			return nil, fmt.Errorf("call %d of %s: %w", i+1, c.Tool, err)
		}
		if c.Input, err = plainInput(c.Input); err != nil {
			return nil, fmt.Errorf("call %d of %s: %w", i+1, c.Tool, err)
		}
		if t.check != nil {
			if err := t.check.Validate(c.Input); err != nil {
				return nil, fmt.Errorf("call %d of %s: its input does not fit: %w", i+1, c.Tool, err)
			}
		}
		if t.asks && len(calls) > 1 {
			return nil, fmt.Errorf("%s has to be the only call of a reply", c.Tool)
		}
		r.calls = append(r.calls, c)
	}
	return r, nil
}

// plainInput returns an input with each name once, in the order of the names: of two values of one name the user could be shown one while the tool
// takes the other.
func plainInput(raw json.RawMessage) (json.RawMessage, error) {
	if raw == nil {
		return json.RawMessage("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return transport.EncodeValue(v)
}

// checkAnswer checks that an answer is not empty, and that of a skill with an output schema is JSON that fits.
func (w *work) checkAnswer(r *reply) error {
	schema := w.a.outputs[w.task.Skill]
	switch {
	case strings.TrimSpace(r.say) == "":
		return errors.New(`"say" is empty: an answer has the whole result there`)
	case schema == nil:
		return nil
	}
	var err error
	if r.data, err = llm.ReadInput(json.RawMessage(quote(r.say))); err != nil || r.data == nil {
		return fmt.Errorf(`"say" has to be a JSON text for this task: %s`, r.say[:min(len(r.say), 100)])
	}
	if err := schema.Validate(r.data); err != nil {
		return fmt.Errorf(`the JSON in "say" does not fit: %w`, err)
	}
	return nil
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func (w *work) names() []string {
	var all []string
	for _, t := range w.box {
		all = append(all, t.name)
	}
	return all
}
