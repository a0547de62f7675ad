package persona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Keys of the metadata of a result.
const (
	metaCut   = "cortex_cut"
	metaUsage = "cortex_usage"
)

// settle judges an answer, and returns the result of the task, a question about it, or nothing when the model has to revise it. cut is the bound that
// ended the work, if any: such an answer is not revised.
func (w *work) settle(ctx context.Context, r *reply, cut ...string) (*agents.Result, error) {
	out := &outcome{Text: r.say, Data: r.data, Cut: strings.Join(cut, "")}
	if reflection := w.a.p.Reflection; reflection.On() && out.Cut == "" {
		score, advice, err := w.judge(ctx, w.task.Text(), out.Text, reflection.Criteria)
		tooLong := errors.Is(err, llm.ErrTooLong) // for the evaluators, which come below, nothing passes unseen
		if err != nil && !tooLong {
			return nil, err
		}
		if tooLong {
			out.Text += "\n\n(Not reviewed: it is too long for the model.)"
			return w.evaluate(ctx, r, out)
		}
		w.r.Rounds++
		v := evaluate.Verdict{Evaluator: "reflection", Pass: score >= 0.7, Score: score, Round: w.r.Rounds}
		if !v.Pass {
			v.Advice = advice
		}
		w.r.Verdicts = append(w.r.Verdicts, v)
		switch {
		case v.Pass:
		case w.r.Rounds < reflection.MaxRounds:
			w.task.Progress(fmt.Sprintf("revises its answer: %s", prompt.Clean(advice, 120)))
			w.r.Steps = append(w.r.Steps, step{Reply: r.encode(), Say: r.say, Note: "A reviewer did not accept this answer:\n<result>\n" +
				prompt.InResult(prompt.CleanText(advice, 4<<10)) + "\n</result>\nRevise it: reply with the whole answer, or make the calls that it needs."})
			return nil, w.keep()
		default:
			out.Text += fmt.Sprintf("\n\n(Not confirmed: after %d rounds the reviewer still says: %s)", w.r.Rounds, prompt.Clean(advice, 500))
		}
	}
	return w.evaluate(ctx, r, out)
}

// evaluate applies the evaluators to an answer, and returns the result of the task, a question about it, or nothing.
func (w *work) evaluate(ctx context.Context, r *reply, out *outcome) (*agents.Result, error) {
	verdicts, err := w.check(ctx, out)
	w.r.Verdicts = append(w.r.Verdicts, verdicts...)
	if err != nil {
		return nil, errors.Join(err, w.keep())
	}
	if n := len(verdicts); n > 0 {
		switch v := &verdicts[n-1]; v.Action {
		case evaluate.Fail: // another attempt knows why
			w.r.Steps = append(w.r.Steps, step{Reply: r.encode(), Say: r.say, Note: "This answer was not passed on:\n<result>\n" + prompt.InResult(prompt.CleanText(v.Words(), 4<<10)) + "\n</result>\nGive another one."})
			return w.refused(v.Words())
		case evaluate.Ask:
			w.r.Asked = &asked{Text: v.Words() + ". It is:\n\n" + out.Text + "\n\nMay it be passed on? Answer yes or no.", Release: out}
			return agents.InputRequired(w.r.Asked.Text), w.keep()
		}
	}
	return w.passOn(out)
}

// check applies the evaluators to out, and redacts it. A text is checked as people see it, too, without invisible characters, and data also string by
// string. A judge sees all or nothing.
func (w *work) check(ctx context.Context, out *outcome) ([]evaluate.Verdict, error) {
	all := w.a.p.Evaluators
	whole := out.Text
	var root any
	var parts []evaluate.Slot
	if out.Data != nil {
		var err error
		if root, err = transport.DecodeValue(out.Data); err != nil {
			return nil, err
		}
		b, err := transport.EncodeValue(root) // a model may write any character as an escape
		if err != nil {
			return nil, err
		}
		whole, parts = string(b), evaluate.Strings(root, func(text string) { root = text })
	} else if seen := prompt.CleanText(whole, len(whole)); seen != whole {
		parts = []evaluate.Slot{{Text: seen, Set: func(text string) { root = text }}}
	}
	texts := []string{whole}
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	verdicts, err := evaluate.Check(ctx, all, func(ctx context.Context, task, _ string, criteria []string) (float64, string, error) {
		if len(texts[0]) > llm.MaxJudged {
			return 0, "", fmt.Errorf("the answer has %d bytes, and a model judges at most %d", len(texts[0]), llm.MaxJudged)
		}
		return w.judge(ctx, task, texts[0], criteria)
	}, w.task.Text(), texts)
	if err != nil {
		return verdicts, err
	}
	inside := false
	for i, p := range parts {
		if texts[i+1] != p.Text {
			inside = true
			p.Set(texts[i+1])
		}
	}
	text := texts[0]
	if inside {
		if out.Data == nil {
			text, _ = root.(string)
		} else if b, err := transport.EncodeValue(root); err == nil && (text == whole || !evaluate.Redacts(all, string(b))) {
			text = string(b)
		} else {
			text = ""
		}
	}
	switch {
	case text == whole:
	case out.Data == nil:
		out.Text = text
	case !json.Valid([]byte(text)):
		return verdicts, errors.New("the result does not fit its schema any more, since an evaluator has changed it")
	default:
		out.Text, out.Data = text, json.RawMessage(text)
	}
	return verdicts, nil
}

// result returns the result of a task that is done.
func (w *work) result() *agents.Result {
	out := w.r.Outcome
	part := a2a.NewTextPart(out.Text)
	if out.Data != nil {
		var v any
		if json.Unmarshal(out.Data, &v) == nil {
			part = a2a.NewDataPart(v)
		}
	}
	part.Metadata = map[string]any{metaUsage: plain(w.r.Usage)}
	if len(w.r.Verdicts) > 0 {
		part.Metadata[transport.MetaVerdicts] = plain(w.r.Verdicts)
	}
	if out.Cut != "" {
		part.Metadata[metaCut] = out.Cut
	}
	return &agents.Result{Parts: a2a.ContentParts{part}}
}

// refused ends the task as failed, with the verdicts, so that they are in the log beside the reason.
func (w *work) refused(why string) (*agents.Result, error) {
	if err := w.keep(); err != nil {
		return nil, errors.Join(errors.New(why), err)
	}
	part := a2a.NewTextPart(why)
	part.Metadata = map[string]any{metaUsage: plain(w.r.Usage), transport.MetaVerdicts: plain(w.r.Verdicts)}
	return nil, &refusal{errors.New(why), part}
}

// refusal is the error of a result that an evaluator, or the user, does not pass on.
type refusal struct {
	error
	part *a2a.Part
}

// plain returns a value as encoding/json reads it.
func plain(v any) any {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return nil
	}
	return v
}

// judge implements [evaluate.Judge].
func (w *work) judge(ctx context.Context, task, output string, criteria []string) (score float64, advice string, err error) {
	v, err := w.a.o.Model.Judge(ctx, task, output, criteria, llm.Budget{})
	w.r.Usage = w.r.Usage.Add(v.Usage)
	if err != nil && ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	return v.Score, v.Advice, err
}

// decode decodes a field that may be missing.
func decode[T any](raw json.RawMessage, to *T) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, to)
}
