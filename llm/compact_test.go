package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// talk is a turn behind n others, each of which has about so many bytes.
func talk(n, bytes int) *llm.Turn {
	tn := turn()
	for i := range n {
		tn.History = append(tn.History, prompt.Turn{
			User: fmt.Sprintf("question-%d. %s", i, strings.Repeat("q", bytes/2)), Answer: fmt.Sprintf("answer-%d. %s", i, strings.Repeat("a", bytes/2)),
		})
	}
	return tn
}

func compactor(t *testing.T, o llm.DeciderOptions, answers ...llmtest.Answer) (llm.Compactor, *llmtest.Client) {
	t.Helper()
	c := llmtest.Script(answers...)
	d, ok := llm.NewDecider(c, templates(t), &o).(llm.Compactor)
	if !ok {
		t.Fatal("the decider is no Compactor")
	}
	return d, c
}

func TestCompact(t *testing.T) {
	tn := talk(5, 4000)
	tn.Summary = "They had met before."
	usage := llm.Usage{Input: 900, Output: 40, Cost: 0.25}
	tn.Tenant = "acme"
	zero := 0.0
	c, client := compactor(t, llm.DeciderOptions{Window: 8000, Temperature: &zero}, llmtest.Answer{Text: " <think>{…}</think>\nThe user asked\u202e three things.\n", Model: "m-1", Usage: usage})
	got, err := c.Compact(t.Context(), tn, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (llm.Summary{Text: "The user asked three things.", Turns: 3, Model: "m-1", Usage: usage}); *got != want {
		t.Errorf("Compact = %+v, want %+v", *got, want)
	}
	r := client.Requests()[0]
	if r.Schema != nil || r.MaxTokens != 2048 || r.Temperature == nil || len(r.Messages) != 1 || r.Messages[0].Role != llm.RoleUser {
		t.Errorf("request = %+v", r)
	}
	for text, there := range map[string]bool{"They had met before.": true, "question-0": true, "answer-2": true, "question-3": false} {
		if strings.Contains(r.Messages[0].Text(), text) != there {
			t.Errorf("%q in the request: %t, want %t", text, !there, there)
		}
	}
}

func TestCompactWhenNeeded(t *testing.T) {
	tn := talk(2, 60_000)
	p, err := templates(t).Render(&tn.Input)
	if err != nil {
		t.Fatal(err)
	}
	size := len(p.System) + len(llm.DecisionSchema(tn))
	for _, m := range p.Messages {
		size += len(m.Text)
	}
	fits := (size+2)/3 + 1000 // with MaxTokens, before the tenth that is kept free
	fits += fits/9 + 1
	for _, c := range []struct {
		name  string
		o     llm.DeciderOptions
		force bool
		want  bool
	}{
		{"no window", llm.DeciderOptions{}, false, false},
		{"no window, by force", llm.DeciderOptions{}, true, true},
		{"large window", llm.DeciderOptions{Window: 1_000_000}, false, false},
		{"large window, by force", llm.DeciderOptions{Window: 1_000_000}, true, true},
		{"just fits", llm.DeciderOptions{Window: fits, MaxTokens: 1000}, false, false},
		{"just does not", llm.DeciderOptions{Window: fits - 3, MaxTokens: 1000}, false, true},
		{"not with so long an answer", llm.DeciderOptions{Window: fits, MaxTokens: 1010}, false, true},
		{"an answer that is bounded by a quarter", llm.DeciderOptions{Window: 4 * fits / 3, MaxTokens: fits}, false, true},
		{"an answer of more than a quarter", llm.DeciderOptions{Window: 5 * fits / 3, MaxTokens: fits}, false, false},
		{"a default for the answer", llm.DeciderOptions{Window: fits}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, client := compactor(t, c.o, llmtest.Text("short"))
			s, err := d.Compact(t.Context(), tn, c.force)
			if err != nil || (s != nil) != c.want || (len(client.Requests()) > 0) != c.want {
				t.Errorf("Compact = %+v, %v after %d requests, want a summary: %t", s, err, len(client.Requests()), c.want)
			}
		})
	}
}

// What the endpoint counts is believed, for the next prompt.
func TestCompactIsCalibrated(t *testing.T) {
	tn := talk(4, 10_000)
	for _, c := range []struct {
		input int // tokens of a prompt of about 47 kB
		want  bool
	}{{9_000, false}, {40_000, true}} {
		o := llm.DeciderOptions{Window: 24_000, MaxTokens: 100}
		client := llmtest.Script(answered(hello, c.input), llmtest.Text("short"))
		d := llm.NewDecider(client, templates(t), &o)
		if _, err := d.Decide(t.Context(), tn, nil); err != nil {
			t.Fatal(err)
		}
		s, err := d.(llm.Compactor).Compact(t.Context(), tn, false)
		if err != nil || (s != nil) != c.want {
			t.Errorf("after a prompt of %d tokens: Compact = %+v, %v, want a summary: %t", c.input, s, err, c.want)
		}
	}
}

// again is a client whose usage is that of two attempts.
type again struct{ *llmtest.Client }

func (a again) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range a.Client.Generate(ctx, r) {
			if chunk.Prompt = chunk.Usage.Input; chunk.Done {
				chunk.Usage.Input *= 2
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// What attempts that failed read is no part of the prompt.
func TestCompactIsCalibratedByOneAttempt(t *testing.T) {
	client := again{llmtest.Script(answered(hello, 12_000))}
	d := llm.NewDecider(client, templates(t), &llm.DeciderOptions{Window: 24_000, MaxTokens: 100})
	got, err := d.Decide(t.Context(), talk(4, 10_000), nil)
	if err != nil || got.Usage.Input != 24_000 {
		t.Fatalf("Decide = %+v, %v, want one for 24000 tokens", got, err)
	}
	if s, err := d.(llm.Compactor).Compact(t.Context(), talk(4, 10_000), false); s != nil || err != nil {
		t.Errorf("a prompt of 12000 tokens in a window of 24000: Compact = %+v, %v", s, err)
	}
}

// A model that thinks for long has as much room for it as in a decision, as far as the window goes.
func TestCompactHasRoomForThoughts(t *testing.T) {
	for _, c := range []struct{ window, limit, want int }{
		{0, 0, 2048}, {0, 32_000, 32_000}, {1_000_000, 32_000, 32_000}, {1_000_000, 100, 2048}, {8_000, 32_000, 0},
	} {
		d, client := compactor(t, llm.DeciderOptions{Window: c.window, MaxTokens: c.limit}, llmtest.Text("They talked."))
		if _, err := d.Compact(t.Context(), talk(4, 4000), true); err != nil {
			t.Fatal(err)
		}
		r := client.Requests()[0]
		if c.want == 0 {
			c.want = c.window - (sizeOf(r)+2)/3
		}
		if r.MaxTokens != c.want {
			t.Errorf("MaxTokens %d in a window of %d: %d are asked for, want %d", c.limit, c.window, r.MaxTokens, c.want)
		}
	}
}

// However little fits, compacting comes to an end: each time a turn less, and at last there is nothing left to take away.
func TestCompactConverges(t *testing.T) {
	rambling := llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer {
		return llmtest.Text(strings.Repeat("and then ", 100_000))
	})
	for _, c := range []struct {
		name    string
		window  int
		answer  llmtest.Answer
		summary bool // fits in the end
		left    int  // turns
	}{
		{"roomy", 20_000, llmtest.Text("short"), true, 5},
		{"small", 4_000, llmtest.Text("short"), true, 0},
		{"small and rambling", 8_000, rambling, true, 0},
		{"tiny", 1_000, llmtest.Text("short"), false, 20}, // nor would it without them
		{"nothing", 10, llmtest.Text("short"), false, 20},
		{"small and refusing", 4_000, llmtest.Fail(llm.ErrRefused), true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := talk(20, 6_000)
			answers := make([]llmtest.Answer, 40)
			for i := range answers {
				answers[i] = c.answer
			}
			d, client := compactor(t, llm.DeciderOptions{Window: c.window}, answers...)
			var err error
			calls := 0
			for {
				calls++
				var s *llm.Summary
				if s, err = d.Compact(t.Context(), tn, false); s == nil {
					break
				}
				if s.Turns < 1 || s.Turns > len(tn.History) || calls > 20 {
					t.Fatalf("call %d takes %d of %d turns", calls, s.Turns, len(tn.History))
				}
				tn.History = tn.History[s.Turns:]
				if tn.Summary = s.Text; s.Text == "" {
					tn.Omitted += s.Turns
				}
			}
			if c.summary != (err == nil) || (err != nil && !errors.Is(err, llm.ErrTooLong)) || len(tn.History) != c.left {
				t.Errorf("after %d calls %d turns are left: %v", calls, len(tn.History), err)
			}
			if err != nil && !strings.Contains(err.Error(), "larger window") {
				t.Errorf("%v does not say what to do", err)
			}
			for i, r := range client.Requests() {
				size := len(r.System) + len(r.Messages[0].Text())
				if size/3+r.MaxTokens > c.window {
					t.Errorf("request %d has %d bytes and %d tokens for the answer, for a window of %d", i, size, r.MaxTokens, c.window)
				}
			}
		})
	}
}

// What does not fit into the request for a summary is cut, the oldest first, and the earlier summary last of all.
func TestCompactCuts(t *testing.T) {
	tn := talk(6, 8_000)
	tn.Summary = "They had met before."
	tn.History[0].Steps = []prompt.Step{{Tasks: []prompt.Task{{
		ID: "t", Agent: "agent_echo", Text: "task-0" + strings.Repeat("t", 2000), State: a2a.TaskStateCompleted, Result: "result-0" + strings.Repeat("r", 2000),
		Artifacts: []prompt.Artifact{{Name: "a", Text: "artifact-0" + strings.Repeat("f", 2000)}},
	}}}}
	d, client := compactor(t, llm.DeciderOptions{Window: 4_000}, llmtest.Text("short"))
	if s, err := d.Compact(t.Context(), tn, false); err != nil || s.Turns != 3 || s.Text != "short" {
		t.Fatalf("Compact = %+v, %v", s, err)
	}
	got := client.Requests()[0].Messages[0].Text()
	for text, there := range map[string]bool{
		"question-0": false, "task-0": false, "result-0": false, "artifact-0": false, "answer-0": false, "[…]": true,
		"answer-2": true, "They had met before.": true,
	} {
		if strings.Contains(got, text) != there {
			t.Errorf("%q in the request: %t, want %t", text, !there, there)
		}
	}
	// A summary that was made for a larger window is cut too, when there is nothing else.
	again := talk(1, 100)
	again.Summary = strings.Repeat("s", 12_000) + " They meet again."
	d, client = compactor(t, llm.DeciderOptions{Window: 4_000}, llmtest.Text("short"))
	if s, err := d.Compact(t.Context(), again, false); err != nil || s.Turns != 1 || s.Text != "short" {
		t.Fatalf("Compact = %+v, %v", s, err)
	}
	if got := client.Requests()[0].Messages[0].Text(); !strings.Contains(got, "They meet again.") || !strings.Contains(got, "[…]s") {
		t.Errorf("the earlier summary is not there, or not cut:\n%s", got)
	}
	if !strings.HasPrefix(tn.History[0].User, "question-0") || !strings.HasPrefix(tn.History[0].Steps[0].Tasks[0].Result, "result-0") ||
		!strings.HasPrefix(tn.History[0].Steps[0].Tasks[0].Artifacts[0].Text, "artifact-0") {
		t.Error("the turn was changed")
	}
}

// TestCompactCutsFiles leaves out the names of the oldest files where they do not fit.
func TestCompactCutsFiles(t *testing.T) {
	tn := talk(30, 10)
	for i := range tn.History {
		for j := range 20 {
			name := fmt.Sprintf("%02d-%02d%s", i, j, strings.Repeat("x", 50))
			tn.History[i].Files = append(tn.History[i].Files, prompt.File{Key: "f", Name: name, Type: "text/plain"})
		}
	}
	d, client := compactor(t, llm.DeciderOptions{Window: 8_000}, llmtest.Text("short"))
	if s, err := d.Compact(t.Context(), tn, false); err != nil || s.Text != "short" {
		t.Fatalf("Compact = %+v, %v", s, err)
	}
	if got := client.Requests()[0].Messages[0].Text(); strings.Contains(got, "[00-00") || !strings.Contains(got, "[14-19") {
		t.Errorf("the request names other files than the newest:\n%.2000s", got)
	}
}

func TestCompactFails(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer
		want    error
		spent   int
		summary bool   // turns are to be left out
		text    string // what stands for them all the same
	}{
		{"refused", []llmtest.Answer{failed(llm.ErrRefused, "no", 1)}, llm.ErrRefused, 1, true, ""},
		{"empty", []llmtest.Answer{answered(" ", 1), failed(llm.ErrEmpty, "", 10)}, llm.ErrEmpty, 11, true, ""},
		{"invisible", []llmtest.Answer{answered("\u200b", 1)}, llm.ErrEmpty, 1, true, ""},
		{"too long for the endpoint", []llmtest.Answer{failed(llm.ErrTooLong, "", 0)}, llm.ErrTooLong, 0, true, ""},
		{"not understood", []llmtest.Answer{failed(llm.ErrBadRequest, "", 0)}, llm.ErrBadRequest, 0, false, ""},
		{"something else", []llmtest.Answer{llmtest.Fail(boom)}, boom, 0, false, ""},
		{"cut twice", []llmtest.Answer{failed(llm.ErrTruncated, "The", 1), failed(llm.ErrTruncated, "The", 10)}, llm.ErrTruncated, 11, false, ""},
		{"too slow for the endpoint", []llmtest.Answer{llmtest.Fail(context.DeadlineExceeded)}, context.DeadlineExceeded, 0, false, ""},
		{"one does not fit, the other is down", []llmtest.Answer{llmtest.Fail(errors.Join(llm.ErrTooLong, llm.ErrUnavailable))}, llm.ErrTooLong, 0, false, ""},
		{"thoughts that begin in the prompt", []llmtest.Answer{answered("They {agreed}?\n</think>\nThe end.", 1)}, nil, 1, true, "The end."},
		{"cut, then well", []llmtest.Answer{failed(llm.ErrTruncated, "The", 1), answered("The end.", 10)}, nil, 11, true, "The end."},
		{"longer than asked for", []llmtest.Answer{failed(llm.ErrLength, "The", 1), failed(llm.ErrLength, "The end", 10)}, nil, 11, true, "The end"},
		{"longer in thoughts", []llmtest.Answer{failed(llm.ErrLength, "", 1), failed(llm.ErrLength, "<think>The end", 10)}, llm.ErrLength, 11, true, ""},
		{"not reached", []llmtest.Answer{failed(llm.ErrUnavailable, "", 0)}, llm.ErrUnavailable, 0, false, ""},
		{"rate limited", []llmtest.Answer{failed(llm.ErrRateLimited, "", 0)}, llm.ErrRateLimited, 0, false, ""},
		{"quota", []llmtest.Answer{failed(llm.ErrQuota, "", 3)}, llm.ErrQuota, 3, false, ""},
		{"auth", []llmtest.Answer{failed(llm.ErrAuth, "", 0)}, llm.ErrAuth, 0, false, ""},
		{"no model", []llmtest.Answer{failed(llm.ErrNoModel, "", 0)}, llm.ErrNoModel, 0, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, client := compactor(t, llm.DeciderOptions{Window: 100_000}, c.answers...)
			s, err := d.Compact(t.Context(), talk(3, 100), true)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || (s != nil) != c.summary {
				t.Fatalf("Compact = %+v, %v, want %v, with a summary: %t", s, err, c.want, c.summary)
			}
			if s != nil && (s.Text != c.text || s.Turns != 2 || s.Usage.Input != c.spent) {
				t.Errorf("Compact = %+v, want %q for 2 turns and %d tokens", s, c.text, c.spent)
			}
			if err != nil && llm.UsageOf(err).Input != c.spent {
				t.Errorf("UsageOf(%v) = %d, want %d", err, llm.UsageOf(err).Input, c.spent)
			}
			if n := len(client.Requests()); n != len(c.answers) {
				t.Errorf("%d requests, want %d", n, len(c.answers))
			}
		})
	}
}

// Nothing is left out because the budget is used up, the user does not want to wait, or there was not enough time.
func TestCompactIsStopped(t *testing.T) {
	tn := talk(3, 100)
	tn.Budget.Tokens = 10
	d, client := compactor(t, llm.DeciderOptions{})
	if s, err := d.Compact(t.Context(), tn, true); s != nil || !errors.Is(err, llm.ErrBudget) || len(client.Requests()) > 0 {
		t.Errorf("without a budget: %+v, %v, want an ErrBudget", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d, _ = compactor(t, llm.DeciderOptions{}, llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer {
		cancel()
		return llmtest.Fail(errors.New("connection reset"))
	}))
	if s, err := d.Compact(ctx, talk(3, 100), true); s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("when it is canceled: %+v, %v, want context.Canceled", s, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	d = llm.NewDecider(deaf{func() { <-ctx.Done() }, llm.ErrUnavailable}, templates(t), nil).(llm.Compactor)
	if s, err := d.Compact(ctx, talk(3, 100), true); s != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("when it is too slow: %+v, %v, want context.DeadlineExceeded", s, err)
	}
	d, _ = compactor(t, llm.DeciderOptions{Window: 1000})
	for _, force := range []bool{true, false} {
		if s, err := d.Compact(t.Context(), turn(), force); s != nil || !errors.Is(err, llm.ErrTooLong) {
			t.Errorf("without a history, force %t: %+v, %v, want an ErrTooLong", force, s, err)
		}
	}
}

// A turn without a history may use what is otherwise kept free: nothing else can be done for it.
func TestCompactWithoutHistory(t *testing.T) {
	p, err := templates(t).Render(&turn().Input)
	if err != nil {
		t.Fatal(err)
	}
	need := (len(p.System) + len(p.Messages[0].Text) + len(llm.DecisionSchema(turn())) + 2) / 3
	for window, want := range map[int]error{need + 1: nil, need: nil, need - 1: llm.ErrTooLong} {
		d, client := compactor(t, llm.DeciderOptions{Window: window})
		if s, err := d.Compact(t.Context(), turn(), false); s != nil || !errors.Is(err, want) || len(client.Requests()) > 0 {
			t.Errorf("a prompt of %d tokens for a window of %d: %+v, %v, want %v", need, window, s, err, want)
		}
	}
}

// What no window could hold is not worth a summary, and the conversation before it is not the reason.
func TestCompactNotInVain(t *testing.T) {
	tn := talk(20, 40)
	tn.Summary, tn.User = "They had met before.", strings.Repeat("x", 60<<10)
	for _, force := range []bool{true, false} {
		d, client := compactor(t, llm.DeciderOptions{Window: 8192, MaxTokens: 1000})
		s, err := d.Compact(t.Context(), tn, force)
		if s != nil || !errors.Is(err, llm.ErrTooLong) || !strings.Contains(fmt.Sprint(err), "also without the conversation") || len(client.Requests()) > 0 {
			t.Errorf("force %t: %+v, %v after %d requests, want an ErrTooLong after none", force, s, err, len(client.Requests()))
		}
	}
}

// A prompt that is too long without any conversation leaves less room for the answer, and what is left of the window is for the
// conversation: its turns are not summarised one by one.
func TestCompactInASmallWindow(t *testing.T) {
	_, _, client, err := decide(t, turn(), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	alone := (sizeOf(client.Requests()[0]) + 2) / 3
	for _, c := range []struct {
		name   string
		window int
		turn   *llm.Turn
		want   bool // a summary
	}{
		{"an eighth is left for the answer", alone * 4 / 3, talk(2, 50), false},
		{"less than that", alone * 4 / 3, talk(2, 1000), true},
		{"nor is it without the conversation", alone * 9 / 8, talk(1, 50), false},
		{"more than the window", alone * 9 / 8, talk(2, 500), true},
	} {
		d, client := compactor(t, llm.DeciderOptions{Window: c.window, MaxTokens: c.window / 2}, llmtest.Text("short"))
		if s, err := d.Compact(t.Context(), c.turn, false); err != nil || (s != nil) != c.want || (len(client.Requests()) > 0) != c.want {
			t.Errorf("%s: Compact = %+v, %v, want a summary: %t", c.name, s, err, c.want)
		}
	}
}

// An endpoint that counts only what its cache did not have is not believed.
func TestCompactIsNotMisled(t *testing.T) {
	for _, u := range []llm.Usage{{Input: 40}, {Input: 40, Cached: 1400}} {
		client := llmtest.Script(llmtest.Answer{Text: hello, Usage: u}, llmtest.Text("short"))
		d := llm.NewDecider(client, templates(t), &llm.DeciderOptions{Window: 12_000, MaxTokens: 100})
		if _, err := d.Decide(t.Context(), turn(), nil); err != nil {
			t.Fatal(err)
		}
		if s, err := d.(llm.Compactor).Compact(t.Context(), talk(10, 6000), false); s == nil || err != nil {
			t.Errorf("after an answer with %+v, 60 kB fit into 12000 tokens: %v", u, err)
		}
	}
}

// A summary is bounded and harmless.
func TestCompactIsBounded(t *testing.T) {
	for _, c := range []struct{ window, most int }{{0, 16 << 10}, {1_000_000, 16 << 10}, {4000, 3100}} {
		d, _ := compactor(t, llm.DeciderOptions{Window: c.window}, llmtest.Text("\x1b[2J"+strings.Repeat("日", 100_000)))
		s, err := d.Compact(t.Context(), talk(2, 100), true)
		if err != nil || len(s.Text) > c.most || len(s.Text) < c.most/2 || strings.Contains(s.Text, "\x1b") || !strings.Contains(s.Text, "are cut off]") {
			t.Errorf("with a window of %d the summary has %d bytes, %v, want at most %d", c.window, len(s.Text), err, c.most)
		}
	}
}

// TestRenderedOnce checks that a turn that fits is rendered once for Compact and Decide, and anew for another decision about it.
func TestRenderedOnce(t *testing.T) {
	tn := talk(0, 0)
	tn.User = "first words"
	c, client := compactor(t, llm.DeciderOptions{Window: 100_000}, llmtest.Text(hello), llmtest.Text(hello))
	if s, err := c.Compact(t.Context(), tn, false); s != nil || err != nil {
		t.Fatalf("Compact = %v, %v", s, err)
	}
	tn.User = "second words" // against the contract: it shows which words are rendered when
	for i, want := range []string{"first words", "second words"} {
		if _, err := c.(llm.Decider).Decide(t.Context(), tn, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if m := client.Requests()[i].Messages; !strings.Contains(m[len(m)-1].Text(), want) {
			t.Errorf("decision %d has %q, want %q in it", i+1, m[len(m)-1].Text(), want)
		}
	}
}
