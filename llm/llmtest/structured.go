package llmtest

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// decision is an answer to a request with a schema, in pieces.
var decision = []string{`{"kind":"respond",`, `"say":"Grüße, \"you\" 🌍",`, `"delegations":[],`, `"reason":""}`}

// structured returns a request with the schema of a decision.
func structured() *llm.Request {
	r := request("hi")
	r.Schema = llm.DecisionSchema(&llm.Turn{})
	return r
}

// structuredCases are the cases of each mode of structured output of w.
func structuredCases(w Wire) []testCase {
	whole := strings.Join(decision, "")
	streaming := slices.DeleteFunc(slices.Clone(w.Modes), func(mode llm.Structured) bool {
		return mode == llm.StructuredTools && slices.Contains(w.Lacks, NoFragments)
	})
	cases := slices.Concat(
		each(w.Modes, "schema", func(e *env, mode llm.Structured) {
			for _, in := range []prompt.Input{{}, {Last: true}, {Choice: true}} {
				r, pieces := structured(), decision
				r.Schema = llm.DecisionSchema(&llm.Turn{Input: in})
				switch {
				case in.Last: // its schema has no delegations
					pieces = slices.Delete(slices.Clone(decision), 2, 3)
				case in.Choice:
					pieces = slices.Insert(slices.Clone(decision), 3, `"search":null,`)
				}
				c, s := e.serveMode(mode, &Reply{Pieces: pieces})
				e.wantText(e.ask(c, r), strings.Join(pieces, ""))
				e.wantSchema(s.call(), mode, r)
			}
		}),
		each(streaming, "streamed", func(e *env, mode llm.Structured) {
			hold := make(chan struct{})
			c, _ := e.serveMode(mode, &Reply{Pieces: decision, Hold: hold})
			k := e.start(e.Context(), c, structured(), 0)
			e.awaitFirst(k)
			close(hold)
			e.wantText(e.await(k), whole)
		}),
		each(w.Modes, "usage", func(e *env, mode llm.Structured) {
			usage := llm.Usage{Input: 1234, Cached: 1024, Output: 56, Reasoning: 21}
			c, _ := e.serveMode(mode, &Reply{Thoughts: "Hm.", Pieces: decision, Usage: usage})
			if done := e.wantText(e.ask(c, structured()), whole); done.Usage != usage || done.Model != Model {
				e.Errorf("Done has the usage %+v and the model %q, want %+v and %q", done.Usage, done.Model, usage, Model)
			}
		}),
		each(w.Modes, "alive", func(e *env, mode llm.Structured) {
			c, s := e.serveMode(mode, &Reply{Pieces: decision})
			a := e.ask(c, structured())
			e.wantText(a, whole)
			s.say(&Reply{Thoughts: "Let me see.", Pieces: decision})
			thought := e.ask(c, structured())
			e.wantText(thought, whole)
			if thought.signs <= a.signs {
				e.Error("the model thinks, and no chunk says that it is alive")
			}
		}),
		each(w.Modes, "unknown", func(e *env, mode llm.Structured) {
			c, _ := e.serveMode(mode, &Reply{Unknown: true, Pieces: decision})
			e.wantText(e.ask(c, structured()), whole)
		}, NoUnknown),
		each(w.Modes, "cut", func(e *env, mode llm.Structured) {
			for _, orderly := range []bool{false, true} {
				c, _ := e.serveMode(mode, &Reply{Pieces: decision[:2], Cut: true, Orderly: orderly})
				e.wantError(e.ask(c, structured()), llm.ErrTruncated)
			}
		}),
		each(w.Modes, "length", func(e *env, mode llm.Structured) {
			usage := llm.Usage{Input: 20, Output: 8}
			c, _ := e.serveMode(mode, &Reply{Pieces: decision[:2], Finish: Length, Usage: usage})
			if err := e.wantError(e.ask(c, structured()), llm.ErrLength); err.Usage != usage {
				e.Errorf("the error has the usage %+v, want %+v", err.Usage, usage)
			}
		}),
		each(w.Modes, "empty", func(e *env, mode llm.Structured) {
			c, _ := e.serveMode(mode, &Reply{})
			e.wantError(e.ask(c, structured()), llm.ErrEmpty)
		}),
		each(w.Modes, "unreadable call", func(e *env, mode llm.Structured) {
			c, _ := e.serveMode(mode, &Reply{Finish: BadCall})
			e.wantError(e.ask(c, structured()), llm.ErrEmpty)
		}),
	)
	if slices.Contains(w.Modes, llm.StructuredTools) {
		cases = append(cases, toolCases...)
	}
	return cases
}

// toolCases are the cases of a model that does more, or less, than call the one function.
var toolCases = []testCase{
	{name: "text before the call", run: func(e *env) {
		c, _ := e.serveMode(llm.StructuredTools, &Reply{Before: "I shall answer.", Pieces: decision})
		e.wantText(e.ask(c, structured()), strings.Join(decision, ""))
	}},
	{name: "alive before the call", run: func(e *env) {
		c, s := e.serveMode(llm.StructuredTools, &Reply{Pieces: decision})
		a := e.ask(c, structured())
		s.say(&Reply{Before: "I shall think aloud.", Pieces: decision})
		talked := e.ask(c, structured())
		e.wantText(talked, strings.Join(decision, ""))
		if talked.signs <= a.signs {
			e.Error("the model talks, and no chunk says that it is alive")
		}
	}},
	{name: "second call", run: func(e *env) {
		c, _ := e.serveMode(llm.StructuredTools, &Reply{Pieces: decision, Second: `{"kind":"refuse","say":"no"}`})
		e.wantText(e.ask(c, structured()), strings.Join(decision, ""))
	}},
	{name: "text and two calls", run: func(e *env) {
		c, _ := e.serveMode(llm.StructuredTools, &Reply{Before: "Well.", Pieces: decision, Second: `{"kind":"refuse","say":"no"}`})
		e.wantText(e.ask(c, structured()), strings.Join(decision, ""))
	}},
	{name: "no call", run: func(e *env) {
		c, _ := e.serveMode(llm.StructuredTools, &Reply{Before: "I know no function."})
		e.wantText(e.ask(c, structured()), "I know no function.")
	}},
	{name: "no call and cut", run: func(e *env) {
		c, _ := e.serveMode(llm.StructuredTools, &Reply{Before: "I know no", Cut: true})
		e.wantError(e.ask(c, structured()), llm.ErrTruncated)
	}},
}

// wantSchema checks that c asks for structured output as mode does.
func (e *env) wantSchema(c *Call, mode llm.Structured, r *llm.Request) {
	e.Helper()
	asked := mode
	if mode == llm.StructuredPrompt {
		asked = "" // the instructions alone
	}
	if c.Mode != asked {
		e.Errorf("the server was asked for the mode %q, want %q", c.Mode, asked)
	}
	if mode != llm.StructuredSchema && mode != llm.StructuredTools {
		if c.Schema != nil {
			e.Errorf("mode %s: the server got the schema %s, want none", mode, c.Schema)
		}
		return
	}
	want, err := outline(r.Schema)
	if err != nil {
		e.Fatal(err)
	}
	got, err := outline(c.Schema)
	if err != nil {
		e.Fatalf("the server got the schema %q: %v", brief(string(c.Schema)), err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.Errorf("the server got another schema (-want +got):\n%s", diff)
	}
}
