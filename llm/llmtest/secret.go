package llmtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// wantNoKey wants no error in err's tree to show the key, however it is printed.
func (e *env) wantNoKey(err error) {
	e.Helper()
	texts := []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err)}
	var failed *llm.Error
	if errors.As(err, &failed) {
		texts = append(texts, fmt.Sprintf("%+v", *failed))
	}
	for _, text := range texts {
		if strings.Contains(text, key) {
			e.Errorf("a %T shows the key: %s", err, brief(text))
		}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			e.wantNoKey(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			e.wantNoKey(inner)
		}
	}
}

// echo has a server repeat the key, and looks for it in the error.
func echo(name string, feature Feature, reply func(*Call) *Reply) testCase {
	needs := []Feature{NoKey}
	if feature != "" {
		needs = append(needs, feature)
	}
	return testCase{name: name, needs: needs, run: func(e *env) {
		c := e.wire.Dial(e.T, reply, Options{Key: key})
		a := e.ask(c, request("hi"))
		if a.err == nil {
			e.Fatalf("Generate = %q, want an error", a.text())
		}
		e.wantNoKey(a.err)
	}}
}

// repeated is what endpoints say of a key.
const repeated = "Incorrect API key provided: {key}. You can find yours in your account. Authorization: Bearer {key}"

var secretCases = []testCase{
	echo("not accepted", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 401, Message: repeated}} }),
	echo("bad request", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 400, Message: repeated}} }),
	echo("server error", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 500, Message: repeated}} }),
	echo("after pieces", "", func(*Call) *Reply {
		return &Reply{Pieces: []string{"Once"}, Error: &Fault{Status: 503, Message: repeated}}
	}),
	echo("page", NoGarbage, func(c *Call) *Reply { return &Reply{Garbage: "<html>Welcome, " + c.Key + "</html>"} }),
	echo("frame", NoGarbage, func(c *Call) *Reply { return &Reply{Garbage: "data: {\"a\":" + c.Key + "\n\n"} }),
	echo("refused", NoRefusal, func(c *Call) *Reply {
		return &Reply{Pieces: []string{"I do not like ", c.Key}, Finish: Refused}
	}),
}
