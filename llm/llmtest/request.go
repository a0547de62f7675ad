package llmtest

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

// sent makes a call with r and returns it as the server received it.
func (e *env) sent(r *llm.Request) *Call {
	e.Helper()
	c, s := e.serve(&Reply{Pieces: []string{"ok"}})
	e.wantText(e.ask(c, r), "ok")
	return s.call()
}

var requestCases = []testCase{
	{name: "model", run: func(e *env) {
		if got := e.sent(request("hi")).Model; got != Model {
			e.Errorf("the server was asked for the model %q, want %q", got, Model)
		}
	}},
	{name: "key", needs: []Feature{NoKey}, run: func(e *env) {
		if got := e.sent(request("hi")).Key; got != key {
			e.Errorf("the server got the key %q, want %q", got, key)
		}
	}},
	{name: "conversation", run: func(e *env) {
		r := &llm.Request{System: "You route.\n\nBe brief.", Messages: []llm.Message{
			llm.User("first\nquestion"),
			llm.Assistant(`{"kind":"respond","say":"first answer"}`),
			llm.User("second question"),
			llm.Assistant("second answer"),
			llm.User("third question"),
		}}
		got := e.sent(r)
		if got.System != r.System {
			e.Errorf("the server got the instructions %q, want %q", got.System, r.System)
		}
		if diff := cmp.Diff(r.Messages, got.Messages); diff != "" {
			e.Errorf("the server got the messages (-want +got):\n%s", diff)
		}
	}},
	{name: "no system", run: func(e *env) {
		r := request("hi")
		r.System = ""
		got := e.sent(r)
		if diff := cmp.Diff(r.Messages, got.Messages); diff != "" || got.System != "" {
			e.Errorf("the server got the instructions %q and the messages (-want +got):\n%s", got.System, diff)
		}
	}},
	{name: "odd characters", run: func(e *env) {
		r := &llm.Request{}
		for i, text := range odd {
			r.System += text
			r.Messages = append(r.Messages, []func(string) llm.Message{llm.User, llm.Assistant}[i%2](text))
		}
		got := e.sent(r)
		if got.System != r.System {
			e.Errorf("the server got the instructions %q, want %q", got.System, r.System)
		}
		if diff := cmp.Diff(r.Messages, got.Messages); diff != "" {
			e.Errorf("the server got the messages (-want +got):\n%s", diff)
		}
	}},
	{name: "empty messages", run: func(e *env) {
		// Some endpoints refuse a message without text, so the client may replace it.
		r := &llm.Request{Messages: []llm.Message{
			llm.User("first"),
			llm.Assistant(""),
			llm.User("second"),
			llm.Assistant("answer"),
			llm.User(""),
		}}
		got := e.sent(r)
		if len(got.Messages) != len(r.Messages) {
			e.Fatalf("the server got %d messages, want %d", len(got.Messages), len(r.Messages))
		}
		for i, m := range r.Messages {
			if got := got.Messages[i]; got.Role != m.Role || m.Text() != "" && got.Text() != m.Text() {
				e.Errorf("the server got the message %+v, want %+v", got, m)
			}
		}
	}},
	{name: "images", needs: []Feature{NoImages}, run: func(e *env) {
		c, s := e.serveImages(&Reply{Pieces: []string{"ok"}})
		e.wantText(e.ask(c, withImages()), "ok")
		want := []llm.Part{
			{Text: "Is it in the first?"},
			{Image: &llm.Image{Type: "image/png", Data: png}},
			{Text: "Or in the second?"},
			{Image: &llm.Image{Type: "image/jpeg", Data: jpeg}},
		}
		if diff := cmp.Diff(want, partsOf(s.call())); diff != "" {
			e.Errorf("the server got the parts (-want +got):\n%s", diff)
		}
	}},
	{name: "image of an unknown type", needs: []Feature{NoImages}, run: func(e *env) {
		c, s := e.serveImages(&Reply{Pieces: []string{"ok"}})
		r := withImages()
		r.Messages[0].Parts[1].Image.Type = "image/x-secret"
		e.wantText(e.ask(c, r), "ok")
		want := []llm.Part{
			{Text: "Is it in the first?\n[image plot.png, image/x-secret, 512 bytes: this model takes no image/x-secret]\nOr in the second?"},
			{Image: &llm.Image{Type: "image/jpeg", Data: jpeg}},
		}
		if diff := cmp.Diff(want, partsOf(s.call())); diff != "" {
			e.Errorf("the server got the parts (-want +got):\n%s", diff)
		}
	}},
	{name: "images left out", run: func(e *env) {
		got := partsOf(e.sent(withImages()))
		want := "Is it in the first?\n[image plot.png, image/png, 512 bytes: this model takes no images]\n" +
			"Or in the second?\n[image, image/jpeg, 3 bytes: this model takes no images]"
		if diff := cmp.Diff([]llm.Part{{Text: want}}, got); diff != "" {
			e.Errorf("the server got the parts (-want +got):\n%s", diff)
		}
	}},
	{name: "big", run: func(e *env) {
		r := request(strings.Repeat("0123456789abcdef", 1<<15))
		r.System = strings.Repeat("Be brief. ", 1<<15)
		got := e.sent(r)
		if got.System != r.System || len(got.Messages) != 1 || got.Messages[0].Text() != r.Messages[0].Text() {
			e.Errorf("the server got %d bytes of instructions and %d messages, not what was sent", len(got.System), len(got.Messages))
		}
	}},
	{name: "free text", run: func(e *env) {
		for _, mode := range append([]llm.Structured{""}, e.wire.Modes...) {
			c, s := e.serveMode(mode, &Reply{Pieces: []string{"ok"}})
			e.wantText(e.ask(c, request("hi")), "ok")
			if got := s.call(); got.Mode != "" || got.Schema != nil {
				e.Errorf("mode %q: without a schema the server was asked for %q with the schema %s", mode, got.Mode, got.Schema)
			}
		}
	}},
	{name: "token limit", run: func(e *env) {
		for _, limit := range []int{0, 1, 4096} {
			r := request("hi")
			r.MaxTokens = limit
			if got := e.sent(r).MaxTokens; got != limit && (limit > 0 || got == 0 || !e.lacks(NoUnlimited)) {
				e.Errorf("the server got the token limit %d, want %d", got, limit)
			}
		}
	}},
	{name: "temperature", run: func(e *env) {
		if got := e.sent(request("hi")).Temperature; got != nil {
			e.Errorf("without a temperature the server got %v", *got)
		}
		for _, want := range []float64{0, 0.7, 1} {
			r := request("hi")
			r.Temperature = &want
			switch got := e.sent(r).Temperature; {
			case got == nil:
				e.Errorf("the server got no temperature, want %v", want)
			case math.Abs(*got-want) > 1e-6, want == 0 && *got != 0:
				e.Errorf("the server got the temperature %v, want %v", *got, want)
			}
		}
	}},
	{name: "cache key", needs: []Feature{NoCacheKey}, run: func(e *env) {
		for _, want := range []string{"", "tenant/conversation-1"} {
			r := request("hi")
			r.CacheKey = want
			if got := e.sent(r).CacheKey; got != want {
				e.Errorf("the server got the cache key %q, want %q", got, want)
			}
		}
	}},
	{name: "not changed", run: func(e *env) {
		for _, mode := range append([]llm.Structured{""}, e.wire.Modes...) {
			r, want := full(), full()
			c, _ := e.serveMode(mode, &Reply{Pieces: []string{"{}"}})
			e.wantText(e.ask(c, r), "{}")
			// A client that appends to a slice of the request would write after its end.
			r.Messages, r.Schema = r.Messages[:cap(r.Messages)], r.Schema[:cap(r.Schema)]
			want.Messages, want.Schema = want.Messages[:cap(want.Messages)], want.Schema[:cap(want.Schema)]
			if diff := cmp.Diff(want, r); diff != "" {
				e.Errorf("mode %q: the client changed the request (-before +after):\n%s", mode, diff)
			}
		}
	}},
}

// Two images, as far as a server can tell.
var png, jpeg = append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 504)...), []byte{0xff, 0xd8, 0xff}

// withImages returns a request with both images, each after a text.
func withImages() *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{
		{Text: "Is it in the first?"},
		{Image: &llm.Image{Name: "plot.png", Type: "image/png", Data: png}},
		{Text: "Or in the second?"},
		{Image: &llm.Image{Type: "image/jpeg", Data: jpeg}},
	}}}}
}

// partsOf returns the parts of all messages of a call.
func partsOf(c *Call) []llm.Part {
	var all []llm.Part
	for _, m := range c.Messages {
		all = append(all, m.Parts...)
	}
	return all
}

// full returns a request with all fields set, whose slices have spare capacity.
func full() *llm.Request {
	temperature := 0.5
	messages := make([]llm.Message, 0, 4)
	schema := make(json.RawMessage, 0, 2048)
	return &llm.Request{
		System: "Be brief.",
		Messages: append(messages, llm.User("one"), llm.Assistant("two"),
			llm.User("three")),
		Schema:      append(schema, llm.DecisionSchema(&llm.Turn{})...),
		CacheKey:    "conversation-1",
		MaxTokens:   100,
		Temperature: &temperature,
	}
}
