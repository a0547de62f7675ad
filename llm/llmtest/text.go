package llmtest

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

// odd are texts that a careless frame, template or decoder breaks.
var odd = []string{
	"grüße, 世界 🌍 👩‍👩‍👧‍👦 é עברית",
	"data: [DONE]\n\ndata: {\"error\":{}}\r\n: x\revent: error",
	`"quoted" \ back\slash \n \u0041 {"a":[1]}`,
	"<b>&amp;</b> </s> <|im_end|> %d %s ${x} {{y}}",
	"line\u2028separator\u0085next\ttab\u00a0\ufeff",
}

// says has the endpoint send r, and checks that the call yields its text. It returns the last chunk.
func (e *env) says(r *Reply) llm.Chunk {
	e.Helper()
	c, _ := e.serve(r)
	return e.wantText(e.ask(c, request("hi")), strings.Join(r.Pieces, ""))
}

var textCases = []testCase{
	{name: "plain", run: func(e *env) {
		if done := e.says(&Reply{Pieces: []string{"Hello, ", "you."}}); done.Model != Model {
			e.Errorf("Done has the model %q, want %q", done.Model, Model)
		}
	}},
	{name: "one piece", run: func(e *env) { e.says(&Reply{Pieces: []string{"Hello."}}) }},
	{name: "many pieces", run: func(e *env) {
		var pieces []string
		for i := range 500 {
			pieces = append(pieces, fmt.Sprintf("%d ", i))
		}
		e.says(&Reply{Pieces: pieces})
	}},
	{name: "small pieces", run: func(e *env) {
		e.says(&Reply{Pieces: []string{"", " ", "\n", "", "a", "\t", "", "b", " ", "\n", ""}})
	}},
	{name: "odd characters", run: func(e *env) { e.says(&Reply{Pieces: odd}) }},
	{name: "streamed", run: func(e *env) {
		hold := make(chan struct{})
		c, _ := e.serve(&Reply{Pieces: []string{"one ", "two ", "three"}, Hold: hold})
		k := e.start(e.Context(), c, request("count"), 0)
		e.awaitFirst(k)
		close(hold)
		e.wantText(e.await(k), "one two three")
	}},
	{name: "big piece", run: func(e *env) { e.says(&Reply{Pieces: []string{"<", strings.Repeat("0123456789abcdef", 1<<16), ">"}}) }},
	{name: "model and usage", run: func(e *env) {
		usage := llm.Usage{Input: 1234, Cached: 1024, Output: 56}
		done := e.says(&Reply{Pieces: []string{"Hello."}, Model: "test-model-2026-11-01", Usage: usage})
		if diff := cmp.Diff(llm.Chunk{Done: true, Model: "test-model-2026-11-01", Usage: usage}, done); diff != "" {
			e.Errorf("the last chunk (-want +got):\n%s", diff)
		}
	}},
	{name: "nothing from the cache", run: func(e *env) {
		usage := llm.Usage{Input: 10, Output: 2}
		if done := e.says(&Reply{Pieces: []string{"Hello."}, Usage: usage}); done.Usage != usage {
			e.Errorf("usage = %+v, want %+v", done.Usage, usage)
		}
	}},
	{name: "thoughts", run: func(e *env) {
		usage := llm.Usage{Input: 10, Output: 90, Reasoning: 40}
		if done := e.says(&Reply{Thoughts: "The user greets me. I greet back.", Pieces: []string{"Hel", "lo."}, Usage: usage}); done.Usage != usage {
			e.Errorf("usage = %+v, want %+v", done.Usage, usage)
		}
	}},
	{name: "alive while it thinks", run: func(e *env) {
		// The first piece has no text, so that the server holds the reply behind the thoughts.
		pieces := []string{"", "Hello."}
		c, _ := e.serve(&Reply{Pieces: pieces})
		a := e.ask(c, request("hi"))
		e.wantText(a, "Hello.")

		hold := make(chan struct{})
		c, _ = e.serve(&Reply{Thoughts: "The user greets me. I greet back.", Pieces: pieces, Hold: hold})
		k := e.start(e.Context(), c, request("hi"), 0)
		e.awaitSigns(k, a.signs+1)
		close(hold)
		e.wantText(e.await(k), "Hello.")
	}},
	{name: "connection that never ends", run: func(e *env) {
		usage := llm.Usage{Input: 10, Output: 2}
		if done := e.says(&Reply{Pieces: []string{"Hel", "lo."}, Usage: usage, Stays: true}); done.Usage != usage {
			e.Errorf("usage = %+v, want %+v", done.Usage, usage)
		}
	}},
	{name: "unknown", needs: []Feature{NoUnknown}, run: func(e *env) {
		usage := llm.Usage{Input: 10, Output: 2}
		if done := e.says(&Reply{Unknown: true, Thoughts: "Hm.", Pieces: []string{"Hel", "lo", "."}, Usage: usage}); done.Usage != usage {
			e.Errorf("usage = %+v, want %+v", done.Usage, usage)
		}
	}},
}
