package llmtest

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// garbage is what servers, and proxies before them, say instead of an answer.
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
	return append(cases, testCase{name: "endless", run: func(e *env) {
		c, s := e.serve(&Reply{Endless: true})
		e.wantError(e.ask(c, request("hi")), llm.ErrUnavailable, llm.ErrTruncated)
		s.gone()
	}})
}()
