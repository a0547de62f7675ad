package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// forms are forms that the user leaves open until the test replies to them, each by its question.
type forms struct {
	shown   chan string
	replies map[string]chan *sdk.ElicitResult // by what the question has in it
}

func newForms(about ...string) *forms {
	f := &forms{shown: make(chan string, 10), replies: map[string]chan *sdk.ElicitResult{}}
	for _, a := range about {
		f.replies[a] = make(chan *sdk.ElicitResult, 1)
	}
	return f
}

func (f *forms) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		for about, reply := range f.replies {
			if strings.Contains(r.Params.Message, about) {
				f.shown <- about
				select {
				case said := <-reply:
					return said, nil
				case <-ctx.Done():
				}
			}
		}
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}}
}

var yes = &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reply": "yes"}}

// later calls a tool, and returns what comes of it.
func (w *world) later(s *sdk.ClientSession, tool, args string) <-chan *result {
	said := make(chan *result, 1)
	go func() {
		r, err := w.try(w.t.Context(), s, &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			r = &result{text: err.Error(), failed: true}
		}
		said <- r
	}()
	return said
}

// TestYesIsForWhatWasShown leaves forms open while something else comes to wait for a yes: that is not done by the yes in them.
func TestYesIsForWhatWasShown(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			d := w.server(0)
			f := newForms("danger one", "danger two", "danger three")
			s, plain := w.join(way, d, "", f.options()), w.join(way, d, "", nil)
			nothing := func(what string, r *result, not ...string) {
				t.Helper()
				if !r.failed || !strings.Contains(r.text, "waited for") && !strings.Contains(r.text, "waits for") {
					t.Errorf("%s = %+v, want it to be waited for no more", what, r)
				}
				for _, text := range not {
					if n := w.times(text); n > 0 {
						t.Errorf("%s: %q was done %d times", what, text, n)
					}
				}
			}
			// Of two forms in a conversation the first is accepted, the second declined.
			one := w.later(s, "ask_agent", `{"agent":"danger","text":"danger one","context_id":"c"}`)
			<-f.shown
			two := w.later(s, "ask_agent", `{"agent":"danger","text":"danger two","context_id":"c"}`)
			<-f.shown
			f.replies["danger one"] <- yes
			nothing("yes to the first", <-one, "danger one", "danger two")
			f.replies["danger two"] <- &sdk.ElicitResult{Action: "decline"}
			if r := <-two; w.times("danger two") > 0 || r.State == "input_required" {
				t.Errorf("no to the second = %+v", r)
			}
			// The user says no elsewhere, and something else waits when the form is accepted.
			three := w.later(s, "ask_agent", `{"agent":"danger","text":"danger three","context_id":"d"}`)
			<-f.shown
			w.call(plain, "ask", `{"text":"no","context_id":"d"}`)
			other := w.call(plain, "ask_agent", `{"agent":"danger","text":"danger four","context_id":"d"}`)
			f.replies["danger three"] <- yes
			nothing("yes in an old form", <-three, "danger three", "danger four")
			if r := w.call(plain, "reply", `{"turn_id":"`+other.Turn+`","text":"yes"}`); r.Answer != "done: danger four" {
				t.Errorf("yes to what waits = %+v", r)
			}
		})
	}
}

// TestQuestionIsItsTurns has a turn wait for a yes: an answered one before it has no question.
func TestQuestionIsItsTurns(t *testing.T) {
	w := newWorld(t, false)
	s := w.join("stdio 2025-11-25", w.server(0), "", nil)
	before := w.call(s, "ask", `{"text":"hello","context_id":"c"}`)
	asks := w.call(s, "ask", `{"text":"danger","context_id":"c"}`)
	if r := w.call(s, "get_turn", `{"turn_id":"`+before.Turn+`"}`); r.State != "completed" || r.Answer != "done: hello" {
		t.Errorf("the turn before = %+v", r)
	}
	if r := w.call(s, "reply", `{"turn_id":"`+before.Turn+`","text":"yes"}`); !r.failed || w.times("danger") > 0 {
		t.Errorf("a yes to the turn before = %+v", r)
	}
	if r := w.call(s, "get_turn", `{"turn_id":"`+asks.Turn+`"}`); r.State != "input_required" {
		t.Errorf("the turn that asks = %+v", r)
	}
}

// TestModelSaysNoYes has a model say yes by ask, where the user can be asked: they are.
func TestModelSaysNoYes(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			s := w.join(way, w.server(0), "", &sdk.ClientOptions{ElicitationHandler: form(t, "cancel", "cancel", "yes")})
			w.call(s, "ask", `{"text":"danger","context_id":"c"}`)
			if r := w.call(s, "ask", `{"text":"yes","context_id":"c"}`); r.State != "input_required" || w.times("danger") > 0 {
				t.Errorf("yes by ask = %+v", r)
			}
			if r := w.call(s, "ask", `{"text":"sure","context_id":"c"}`); r.Answer != "done: danger" || w.times("danger") != 1 {
				t.Errorf("yes by the user, who is asked again = %+v", r)
			}
		})
	}
}

// TestUnknownIsAskedOnce repeats a call of which Cortex knows nothing yet.
func TestUnknownIsAskedOnce(t *testing.T) {
	for _, way := range ways() {
		w, begin := stillWorld(t, false)
		s := w.join(way, w.server(50*time.Millisecond), "", nil)
		first := w.call(s, "ask", `{"text":"order"}`)
		if first.State != "unknown" || !strings.Contains(first.text, "it is not asked twice") {
			t.Errorf("%s: ask = %+v", way, first)
		}
		if r := w.call(s, "get_turn", `{"turn_id":"`+first.Turn+`"}`); r.State != "unknown" || strings.Contains(r.text, "twice") {
			t.Errorf("%s: get_turn = %+v", way, r)
		}
		if r := w.call(s, "ask", `{"text":"order"}`); r.Turn != first.Turn {
			t.Errorf("%s: the same call again = %+v, want turn %s", way, r, first.Turn)
		}
		begin()
		var r *result
		w.until("the answer", func() bool { r = w.call(s, "ask", `{"text":"order"}`); return r.State == "completed" })
		if r.Turn != first.Turn || w.times("order") != 1 {
			t.Errorf("%s: at last %+v, done %d times, want turn %s, once", way, r, w.times("order"), first.Turn)
		}
	}
}
