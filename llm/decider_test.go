package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	hello   = `{"kind":"respond","say":"Hello!","delegations":[],"reason":"greeting"}`
	invalid = `{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"nobody","skill":null,"task":"t","input":null,"depends_on":[]}],"reason":""}`
)

func templates(t testing.TB) *prompt.Templates {
	t.Helper()
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// decide runs a turn with a scripted client.
func decide(t *testing.T, tn *llm.Turn, answers ...llmtest.Answer) (*llm.Decision, []string, *llmtest.Client, error) {
	t.Helper()
	c := llmtest.Script(answers...)
	var said []string
	d, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{MaxTokens: 99}).Decide(t.Context(), tn, func(s string) { said = append(said, s) })
	return d, said, c, err
}

func TestDecide(t *testing.T) {
	tn := turn()
	tn.Tenant = "acme"
	d, said, c, err := decide(t, tn, llmtest.Answer{Pieces: []string{hello[:26], hello[26:29], hello[29:]}, Model: "m-1", Usage: llm.Usage{Input: 10, Cached: 4, Output: 2}})
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Decision{Kind: llm.KindRespond, Say: "Hello!", Reason: "greeting", Model: "m-1", Usage: llm.Usage{Input: 10, Cached: 4, Output: 2}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"H", "ell", "o!"}, said); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	r := c.Requests()[0]
	p, err := templates(t).Render(&tn.Input)
	if err != nil {
		t.Fatal(err)
	}
	wantReq := &llm.Request{
		System: p.System, Messages: []llm.Message{llm.User(p.Messages[0].Text)}, Schema: llm.DecisionSchema(tn),
		CacheKey: "acme/conversation", MaxTokens: 99,
	}
	if diff := cmp.Diff(wantReq, r); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestDecideDelegates(t *testing.T) {
	d, said, _, err := decide(t, turn(), llmtest.Text(strings.Replace(strings.Replace(invalid, "nobody", "agent_echo", 1), "null", `"One moment."`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]llm.Delegation{{ID: "a", Agent: "agent_echo", Task: "t"}}, d.Delegations); diff != "" || d.Say != "One moment." {
		t.Errorf("decision says %q (-want +got):\n%s", d.Say, diff)
	}
	if len(said) > 0 {
		t.Errorf("streamed %q of a delegation", said)
	}
}

func TestRepair(t *testing.T) {
	d, said, c, err := decide(t, turn(),
		llmtest.Answer{Text: "I think nobody should do it.", Usage: llm.Usage{Input: 1, Output: 2}},
		llmtest.Answer{Text: invalid, Usage: llm.Usage{Input: 10, Cached: 5, Output: 20}},
		llmtest.Answer{Text: hello, Usage: llm.Usage{Input: 100, Output: 200}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Repairs != 2 || d.Usage != (llm.Usage{Input: 111, Cached: 5, Output: 222}) {
		t.Errorf("repairs = %d, usage = %+v, want 2 and the sum", d.Repairs, d.Usage)
	}
	if strings.Join(said, "") != "Hello!" {
		t.Errorf("streamed %q, want the accepted answer", said)
	}
	rs := c.Requests()
	if len(rs) != 3 || len(rs[2].Messages) != 5 {
		t.Fatalf("%d requests, the last with %d messages", len(rs), len(rs[2].Messages))
	}
	for i, want := range []struct {
		role  llm.Role
		parts []string
	}{
		{llm.RoleUser, []string{"hello"}},
		{llm.RoleAssistant, []string{"I think nobody should do it."}},
		{llm.RoleUser, []string{"has no JSON object", `Agents: "agent_calc", "agent_clock", "agent_echo".`}},
		{llm.RoleAssistant, []string{invalid}},
		{llm.RoleUser, []string{`cannot be used: delegation "a": no agent "nobody"; there are`, "Reply again"}},
	} {
		m := rs[2].Messages[i]
		if m.Role != want.role {
			t.Errorf("message %d is of %s, want %s", i, m.Role, want.role)
		}
		for _, part := range want.parts {
			if !strings.Contains(m.Text(), part) {
				t.Errorf("message %d = %q, want %q in it", i, m.Text(), part)
			}
		}
	}
	if diff := cmp.Diff(rs[1].Messages, rs[2].Messages[:3]); diff != "" || rs[1].System != rs[2].System {
		t.Errorf("the second correction does not follow the first (-want +got):\n%s", diff)
	}
}

func TestRepairGivesUp(t *testing.T) {
	_, _, c, err := decide(t, turn(), llmtest.Text("\u200b"), llmtest.Text("no"), llmtest.Text(invalid), llmtest.Text(hello))
	if !errors.Is(err, llm.ErrInvalidDecision) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("Decide = %v, want an ErrInvalidDecision with the last error", err)
	}
	if n := len(c.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	for _, r := range c.Requests() {
		for i, m := range r.Messages {
			if m.Text() == "" {
				t.Errorf("message %d is empty", i)
			}
		}
	}
}

// TestRepairDoesNotStreamTwice checks that the text of a corrected reply is not streamed after that of a rejected one.
func TestRepairDoesNotStreamTwice(t *testing.T) {
	d, said, _, err := decide(t, turn(), llmtest.Text(`{"kind":"respond","say":"First","delegations":[{"id":"a"}]}`), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(said, "") != "First" || d.Say != "Hello!" {
		t.Errorf("streamed %q, says %q", said, d.Say)
	}
}

func TestRepairIsBounded(t *testing.T) {
	tn := turn()
	for i := range 500 {
		tn.Agents = append(tn.Agents, agent(fmt.Sprint("z", i)))
	}
	_, _, c, err := decide(t, tn, llmtest.Text(strings.Repeat("prose ", 10_000)), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	ms := c.Requests()[1].Messages
	if n := len(ms[1].Text()); n > 17<<10 {
		t.Errorf("the model is shown %d bytes of its reply", n)
	}
	if n := len(ms[2].Text()); n > 2<<10 || !strings.Contains(ms[2].Text(), "and 483 more") {
		t.Errorf("the correction has %d bytes: %q", n, ms[2].Text())
	}
}

// TestRepairFitsIntoTheWindow checks that a correction, which makes the prompt longer, limits the quoted reply, and the next one, to what the window
// leaves.
func TestRepairFitsIntoTheWindow(t *testing.T) {
	const window, limit = 16_000, 8_000
	long := llmtest.Text("I would say: " + strings.Repeat("no JSON here. ", 1000))
	client := llmtest.Script(long, long, llmtest.Text(hello))
	d := llm.NewDecider(client, templates(t), &llm.DeciderOptions{Window: window, MaxTokens: limit})
	if _, err := d.Decide(t.Context(), talk(1, 20_000), nil); err != nil {
		t.Fatal(err)
	}
	for i, r := range client.Requests() {
		if sum := sizeOf(r)/3 + r.MaxTokens; sum > window {
			t.Errorf("request %d has about %d tokens, and %d for the answer: %d in a window of %d", i+1, sizeOf(r)/3, r.MaxTokens, sum, window)
		}
	}
	if ms := client.Requests()[2].Messages; !strings.HasPrefix(ms[len(ms)-2].Text(), "I would say") {
		t.Errorf("the model is shown %q of its second reply", ms[len(ms)-2].Text())
	}
}

// sizeOf returns the bytes of a request.
func sizeOf(r *llm.Request) int {
	n := len(r.System) + len(r.Schema)
	for _, m := range r.Messages {
		n += len(m.Text())
	}
	return n
}

func TestCorrectedAgent(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"agent_echo", "agent_echo"},
		{"AGENT_Echo", "agent_echo"},
		{"agent_ech", "agent_echo"},
		{"agent_echos", "agent_echo"},
		{"agnt_echo", "agent_echo"},
		{"agent-echo", "agent_echo"},
		{"agent_eco", "agent_echo"},
		{"worker_3", ""}, // worker_2 is another agent
		{"worker_", ""},  // ambiguous
		{"x2", ""},       // too short
		{"echo", ""},     // too different
		{"agent_cock", "agent_clock"},
		{"abd", ""},    // abc is too short
		{"twin_x", ""}, // one letter from both twins
		{"ZWIN_a", ""},
		{"Twin_A", "twin_a"},
	} {
		tn := turn()
		tn.Agents = append(tn.Agents, agent("twin_a"), agent("twin_b"), agent("worker_2"), agent("x1"), agent("abc"))
		reply := llmtest.Text(strings.Replace(invalid, "nobody", c.name, 1))
		d, _, _, err := decide(t, tn, reply, reply, reply)
		switch {
		case c.want == "" && !errors.Is(err, llm.ErrInvalidDecision):
			t.Errorf("agent %q is taken for %v, want an error", c.name, d)
		case c.want != "" && (err != nil || d.Delegations[0].Agent != c.want || d.Repairs != 0):
			t.Errorf("agent %q: %v, %v, want %s", c.name, d, err, c.want)
		}
	}
}

// TestCorrectedAgentThatLeft checks that the id of an agent that was present is not corrected to another's.
func TestCorrectedAgentThatLeft(t *testing.T) {
	tn := turn()
	tn.Listed = append(tn.Listed, agent("agent_ecko"))
	reply := llmtest.Text(strings.Replace(invalid, "nobody", "agent_ecko", 1))
	_, _, client, err := decide(t, tn, reply, reply, reply)
	if !errors.Is(err, llm.ErrInvalidDecision) {
		t.Errorf("Decide = %v, want an ErrInvalidDecision", err)
	}
	if m := client.Requests()[1].Messages[2].Text(); !strings.Contains(m, `"agent_ecko" cannot be given work any more`) {
		t.Errorf("the correction is %q", m)
	}
}

// TestRepairOfLastStep checks that at the last step a model that delegates is told to answer, without a list of agents.
func TestRepairOfLastStep(t *testing.T) {
	tn := turn()
	tn.Last = true
	d, _, client, err := decide(t, tn, llmtest.Text(strings.Replace(invalid, "nobody", "agent_echo", 1)), llmtest.Text(hello))
	if err != nil || d.Say != "Hello!" || d.Repairs != 1 {
		t.Fatalf("Decide = %+v, %v", d, err)
	}
	if m := client.Requests()[1].Messages[2].Text(); !strings.Contains(m, "no step is left") || strings.Contains(m, "agent_echo") {
		t.Errorf("the correction is %q", m)
	}
}

func TestDecideErrors(t *testing.T) {
	boom := errors.New("boom")
	half := hello[:30]
	for _, c := range []struct {
		name   string
		answer llmtest.Answer
		want   error
	}{
		{"client", llmtest.Fail(fmt.Errorf("%w: %w", llm.ErrUnavailable, boom)), boom},
		{"client, kind", llmtest.Fail(fmt.Errorf("%w: %w", llm.ErrUnavailable, boom)), llm.ErrUnavailable},
		{"in the middle", llmtest.Answer{Text: half, Err: boom}, boom},
		{"cut before the first word", llmtest.Answer{Cut: true}, llm.ErrTruncated},
		{"too long", llmtest.Answer{Text: strings.Repeat(" ", 600<<10), Pieces: []string{strings.Repeat(" ", 600<<10)}}, llm.ErrLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _, client, err := decide(t, turn(), c.answer, llmtest.Text(hello))
			if !errors.Is(err, c.want) || d != nil {
				t.Errorf("Decide = %v, %v, want %v", d, err, c.want)
			}
			if n := len(client.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestDecideCanceled(t *testing.T) {
	for name, a := range map[string]llmtest.Answer{
		"error":        llmtest.Fail(errors.New("read: connection reset")),
		"in good time": llmtest.Text(hello),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := llmtest.Script(llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer { cancel(); return a }))
		if _, err := llm.NewDecider(c, templates(t), nil).Decide(ctx, turn(), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Decide = %v, want context.Canceled", name, err)
		}
	}
}

// deaf is a client whose stream ends without ctx's error, as when its connection is closed.
type deaf struct {
	cancel func()
	err    error
}

func (d deaf) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		d.cancel()
		if d.err != nil {
			yield(llm.Chunk{}, d.err)
		}
	}
}

func TestDecideCanceledSilently(t *testing.T) {
	for _, end := range []error{nil, errors.New("connection reset")} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := llm.NewDecider(deaf{cancel, end}, templates(t), nil).Decide(ctx, turn(), nil)
		if !errors.Is(err, context.Canceled) || errors.Is(err, llm.ErrTruncated) || (end != nil && !errors.Is(err, end)) {
			t.Errorf("when the client ends with %v: Decide = %v, want context.Canceled", end, err)
		}
	}
}

func TestNewDeciderPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewDecider without a client does not panic")
		}
	}()
	llm.NewDecider(nil, templates(t), nil)
}
