package llmtest

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// garbage is what servers, and proxies before them, return instead of an answer.
var garbage = []struct{ name, body string }{
	{"page", "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>Please log in.</body></html>\n"},
	{"blank", "\n"},
	{"cut object", `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assis`},
	{"empty object", `{}`},
	{"array", `[]`},
	{"array of objects", `[{},{"a":1}]`},
	{"numbers", "1\n2\n3\n"},
	{"null", "null"},
	{"deep", strings.Repeat("[", 100_000)},
	{"binary", "\x00\x01\xff\xfe\x1b[31m\x80PNG\r\n\x1a\n" + strings.Repeat("\x00\xc3\x28", 1000)},
	{"frames of garbage", "data: \n\ndata: {\n\ndata: <html>\n\n"},
	{"frames of other things", "data: 7\n\ndata: null\n\ndata: \"text\"\n\ndata: []\n\n"},
}

var garbageCases = func() []testCase {
	var cases []testCase
	for _, g := range garbage {
		cases = append(cases, testCase{name: g.name, needs: []Feature{NoGarbage}, run: func(e *env) {
			c, s := e.serve(&Reply{Garbage: g.body})
			a := e.ask(c, request("hi"))
			e.wantError(a, llm.ErrUnavailable, llm.ErrTruncated, llm.ErrEmpty)
			e.wantStart(a, "")
			e.wantOnce(s)
		}})
	}
	return append(
		cases,
		testCase{name: "endless", run: func(e *env) {
			c, s := e.serve(&Reply{Endless: true})
			e.wantError(e.ask(c, request("hi")), llm.ErrUnavailable, llm.ErrTruncated)
			s.gone()
		}},
		// Each piece is plausible, all together are too much for an answer.
		testCase{name: "flood", run: func(e *env) {
			e.wire.patience *= 8 // tens of megabytes take time, especially with the race detector
			c, s := e.serve(&Reply{Pieces: slices.Repeat([]string{strings.Repeat("0123456789abcdef", 16<<10)}, 1024)})
			e.wantError(e.ask(forgetful{c}, request("hi")), llm.ErrUnavailable, llm.ErrTruncated, llm.ErrLength)
			s.gone()
		}},
	)
}()

// forgetful is a client that discards the text of its answers.
type forgetful struct{ llm.Client }

func (f forgetful) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range f.Client.Generate(ctx, r) {
			chunk.Text = ""
			if !yield(chunk, err) {
				return
			}
		}
	}
}
