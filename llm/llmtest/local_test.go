package llmtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// wire returns a Wire without a protocol: its client calls the handler in the same process, and a scripted client gives the reply. Cases about frames
// and parts do not apply.
func wire() llmtest.Wire {
	return llmtest.Wire{
		Dial: func(_ *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
			return &local{handler: h, options: o}
		},
		Down: func(_ *testing.T, o llmtest.Options) llm.Client {
			return &local{options: o, handler: func(*llmtest.Call) *llmtest.Reply {
				return &llmtest.Reply{Error: &llmtest.Fault{Message: "connection refused"}}
			}}
		},
		Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt},
		Lacks: []llmtest.Feature{llmtest.NoUnknown, llmtest.NoCutFrame},
	}
}

// local is a client of a handler.
type local struct {
	handler llmtest.Handler
	options llmtest.Options
}

func (l *local) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		messages := slices.Clone(r.Messages)
		for i, m := range messages {
			if messages[i] = m.Showing(); l.options.Images {
				messages[i] = seen(m)
			}
		}
		c := &llmtest.Call{
			Model: llmtest.Model, System: r.System, Messages: messages, CacheKey: r.CacheKey,
			MaxTokens: r.MaxTokens, Temperature: r.Temperature, Key: l.options.Key, Stream: true, Gone: ctx.Done(),
		}
		c.Mode, c.Schema = asked(l.options.Mode, r.Schema)
		reply := l.handler(c)
		if alive := reply.Thoughts != "" || c.Mode == llm.StructuredTools && reply.Before != ""; alive && !yield(llm.Chunk{}, nil) {
			return
		}
		for chunk, err := range llmtest.Script(l.answer(reply, c)).Generate(ctx, r) {
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// seen returns what an endpoint receives of a message with images.
func seen(m llm.Message) llm.Message {
	m = m.Showing("image/png", "image/jpeg")
	for i := range m.Parts {
		if image := m.Parts[i].Image; image != nil {
			m.Parts[i].Image = &llm.Image{Type: image.Type, Data: image.Data}
		}
	}
	return m
}

// asked returns the mode and schema that an endpoint would receive.
func asked(mode llm.Structured, schema json.RawMessage) (llm.Structured, json.RawMessage) {
	switch {
	case schema == nil || mode == llm.StructuredPrompt:
		return "", nil
	case mode == llm.StructuredObject:
		return mode, nil
	case mode == "":
		return llm.StructuredSchema, schema
	}
	return mode, schema
}

// answer returns what a client would make of a reply.
func (l *local) answer(r *llmtest.Reply, c *llmtest.Call) llmtest.Answer {
	a := llmtest.Answer{Pieces: r.Pieces, Usage: r.Usage, Model: r.Model, Hold: r.Hold}
	if a.Model == "" {
		a.Model = llmtest.Model
	}
	if len(r.Pieces) == 0 && c.Mode == llm.StructuredTools {
		a.Text = r.Before
	}
	failed := &llm.Error{Provider: "local", Model: llmtest.Model, Usage: r.Usage}
	switch {
	case r.Error != nil:
		l.fail(failed, r.Error)
	case r.Garbage != "":
		failed.Kind, failed.Message = llm.ErrUnavailable, r.Garbage
	case r.Endless, r.Cut, len(strings.Join(r.Pieces, "")) > 64<<20:
		failed.Kind = llm.ErrTruncated
	case r.Finish == llmtest.Length:
		failed.Kind = llm.ErrLength
	case r.Finish == llmtest.Refused:
		a.Pieces, failed.Kind, failed.Message = nil, llm.ErrRefused, strings.Join(r.Pieces, "")
	case r.Finish == llmtest.Filtered, r.Finish == llmtest.Blocked:
		failed.Kind = llm.ErrRefused
	case a.Text+strings.Join(a.Pieces, "") == "":
		failed.Kind = llm.ErrEmpty
	}
	if failed.Kind != nil {
		a.Err = failed.Redact(l.options.Key)
	}
	return a
}

// fail makes e the error that a client would return for f.
func (l *local) fail(e *llm.Error, f *llmtest.Fault) {
	e.Kind, e.Status, e.RetryAfter = llm.KindOfStatus(f.Status), f.Status, f.RetryAfter
	e.Message = strings.ReplaceAll(f.Message, "{key}", l.options.Key)
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s (%s)", http.StatusText(f.Status), f.Kind)
	}
	switch f.Kind {
	case llmtest.Quota:
		e.Kind = llm.ErrQuota
	case llmtest.TooLong:
		e.Kind = llm.ErrTooLong
	case llmtest.Unknown:
		e.Kind = llm.ErrNoModel
	}
}

func TestRun(t *testing.T) { llmtest.Run(t, wire()) }
