package llmtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

func collect(ctx context.Context, c llm.Client, r *llm.Request) (pieces []string, last llm.Chunk, err error) {
	for chunk, e := range c.Generate(ctx, r) {
		if e != nil {
			return pieces, last, e
		}
		if last = chunk; chunk.Text != "" {
			pieces = append(pieces, chunk.Text)
		}
	}
	return pieces, last, nil
}

func TestScript(t *testing.T) {
	boom := errors.New("boom")
	c := llmtest.Script(
		llmtest.Answer{Text: "a", Pieces: []string{"b", "c"}, Usage: llm.Usage{Input: 3}},
		llmtest.Answer{Text: "x", Err: boom},
		llmtest.Answer{Text: "y", Cut: true},
		llmtest.Func(func(_ context.Context, r *llm.Request) llmtest.Answer { return llmtest.Text("seen " + r.System) }),
	)
	r := &llm.Request{System: "s", Messages: []llm.Message{llm.User("hi")}}
	pieces, last, err := collect(t.Context(), c, r)
	if diff := cmp.Diff([]string{"a", "b", "c"}, pieces); diff != "" || err != nil {
		t.Errorf("first answer: %v (-want +got):\n%s", err, diff)
	}
	if want := (llm.Chunk{Done: true, Model: "scripted", Usage: llm.Usage{Input: 3}}); last != want {
		t.Errorf("last chunk = %+v, want %+v", last, want)
	}
	r.Messages[0] = llm.User("changed")
	if pieces, _, err := collect(t.Context(), c, r); len(pieces) != 1 || !errors.Is(err, boom) {
		t.Errorf("failing answer = %q, %v, want one piece and boom", pieces, err)
	}
	if _, last, err := collect(t.Context(), c, r); last.Done || err != nil {
		t.Errorf("cut answer ends with %+v, %v, want neither Done nor an error", last, err)
	}
	if pieces, _, err := collect(t.Context(), c, r); err != nil || len(pieces) != 1 || pieces[0] != "seen s" {
		t.Errorf("answer of a func = %q, %v", pieces, err)
	}
	if _, _, err := collect(t.Context(), c, r); err == nil || !strings.Contains(err.Error(), "request 5, but the script has 4") {
		t.Errorf("a request too many = %v, want an error that counts", err)
	}
	if got := c.Requests(); len(got) != 5 || got[0].Messages[0].Text() != "hi" {
		t.Errorf("%d requests recorded, the first says %q", len(got), got[0].Messages[0].Text())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := collect(ctx, llmtest.Script(llmtest.Text("a")), r); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context = %v, want context.Canceled", err)
	}
}

func TestDecider(t *testing.T) {
	d := llmtest.Decisions(llmtest.Delegate(llm.Delegation{ID: "1", Agent: "a", Task: "x"}), llmtest.Respond("done"))
	var said []string
	stream := func(s string) { said = append(said, s) }
	for _, want := range []llm.Kind{llm.KindDelegate, llm.KindRespond} {
		got, err := d.Decide(t.Context(), &llm.Turn{ID: "m"}, stream)
		if err != nil || got.Kind != want {
			t.Fatalf("Decide = %v, %v, want %s", got, err, want)
		}
	}
	if _, err := d.Decide(t.Context(), &llm.Turn{}, nil); err == nil {
		t.Error("a call after the last decision gives no error")
	}
	if diff := cmp.Diff([]string{"done"}, said); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	if got := d.Turns(); len(got) != 3 || got[0].ID != "m" {
		t.Errorf("recorded %d turns", len(got))
	}
}

func TestConcurrent(t *testing.T) {
	const n = 50
	c := llmtest.Script(make([]llmtest.Answer, n)...)
	d := llmtest.DeciderFunc(func(_ context.Context, t *llm.Turn) (*llm.Decision, error) {
		r := llmtest.Respond(t.ID)
		return &r, nil
	})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, _, err := collect(t.Context(), c, &llm.Request{}); err != nil {
				t.Error(err)
			}
			if _, err := d.Decide(t.Context(), &llm.Turn{ID: "x"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(c.Requests()) != n || len(d.Turns()) != n {
		t.Errorf("recorded %d requests and %d turns, want %d", len(c.Requests()), len(d.Turns()), n)
	}
}

func TestHold(t *testing.T) {
	r := &llm.Request{}
	hold := make(chan struct{})
	seen := 0
	for chunk, err := range llmtest.Script(llmtest.Answer{Text: "a", Pieces: []string{"", "b"}, Hold: hold}).Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; chunk.Text == "a" {
			close(hold) // the answer continues now
		}
	}
	if seen != 3 {
		t.Errorf("%d chunks, want a, b and Done", seen)
	}
	for name, a := range map[string]llmtest.Answer{
		"before the text": {Hold: make(chan struct{})},
		"after one piece": {Text: "a", Hold: make(chan struct{}), Err: errors.New("boom")},
		"between pieces":  {Text: "a", Pieces: []string{"b"}, Hold: make(chan struct{}), Cut: true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if pieces, _, err := collect(ctx, llmtest.Script(a), r); !errors.Is(err, context.DeadlineExceeded) || len(pieces) > 1 {
			t.Errorf("%s: %q, %v, want the end of the context", name, pieces, err)
		}
		cancel()
	}
}
