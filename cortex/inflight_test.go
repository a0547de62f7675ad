package cortex_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// slowModel is a decider that takes an hour for each decision. It records the senders and the maximum number of concurrent decisions.
type slowModel struct {
	mu        sync.Mutex
	now, most int
	begun     []string
}

func (s *slowModel) Decide(ctx context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.begun = append(s.begun, t.User)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(time.Hour):
		return respond("done " + t.User), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// asked returns the senders of the decided messages, in order.
func (s *slowModel) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun)
}

// requestOf is a person's message in a new conversation, named like its text.
func requestOf(person string, n int) *transport.Event {
	e := userEvent("m1", fmt.Sprint(person, n))
	e.From, e.ContextID = "user:"+person, fmt.Sprint(person, n)
	return e
}

// answerIn returns the answer in a conversation with a single message.
func answerIn(t *testing.T, s storage.Store, contextID string) string {
	t.Helper()
	conv, err := storage.Load(t.Context(), s, "", contextID)
	if err != nil || len(conv.Turns) > 1 {
		t.Fatalf("%s: %d turns, %v", contextID, len(conv.Turns), err)
	}
	if len(conv.Turns) == 0 {
		return ""
	}
	return conv.Turns[0].Answer
}

// TestDecisionsAreBounded has one sender ask for more than can be decided at a time: concurrent calls of the model are limited,
// another sender need not wait for the first, and all are answered, even after a wait longer than a decision may take.
func TestDecisionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, Decisions: 8, DecideTimeout: 61 * time.Minute})
		for i := range 20 {
			w.publish(requestOf("mallory", i))
		}
		if n := len(model.asked()); n != 6 {
			t.Errorf("one sender has %d of 8 decisions, want 6", n)
		}
		pass(time.Minute)
		w.publish(requestOf("ada", 0))
		w.publish(requestOf("ada", 1))
		w.publish(requestOf("bob", 0))
		if got := model.asked()[6:]; !slices.Equal(got, []string{"ada0", "ada1"}) {
			t.Errorf("decided about %q beside, want ada0 and ada1", got)
		}
		if got := w.orch.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "15 turns wait for a decision since ") ||
			!strings.HasSuffix(got[0], ", while 8 of at most 8 are made; most are of user:mallory: 14 wait, 6 are made") {
			t.Errorf("trouble %q, want what waits", got)
		}
		pass(59 * time.Minute) // the first ones are done
		if got := model.asked()[8:]; len(got) != 5 || !slices.Contains(got, "bob0") {
			t.Errorf("then decided about %q, want bob0 among 5, who came last and has nothing", got)
		}
		pass(24 * time.Hour)
		for i := range 20 {
			if got, want := answerIn(t, w.store, fmt.Sprint("mallory", i)), fmt.Sprint("done mallory", i); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
		}
		if model.most != 8 {
			t.Errorf("%d decisions at a time, want 8", model.most)
		}
		if got := w.orch.Trouble(); len(got) != 0 {
			t.Errorf("trouble %q when all is done", got)
		}
	})
}

// TestCanceledWhileItWaits cancels a turn that waits for its decision: it ends at once, without a call of the model.
func TestCanceledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, Decisions: 1, DecideTimeout: 2 * time.Hour})
		w.publish(requestOf("ada", 0))
		w.say("m1", "waits")
		w.say("m2", "behind it")
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancelEvent("x1", &transport.Cancel{Turn: turnOf("m1")})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", conversation.AnswerCanceled)
		pass(3 * time.Hour)
		w.wantAnswer("m2", "done behind it")
		if got := model.asked(); !slices.Equal(got, []string{"ada0", "behind it"}) {
			t.Errorf("decided about %q, want not about what was canceled", got)
		}
	})
}

// TestWaitsAndIsRestarted stops an orchestrator while a turn waits for its decision: the next one decides.
func TestWaitsAndIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, Decisions: 1, DecideTimeout: 2 * time.Hour})
		w.publish(requestOf("ada", 0))
		w.publish(requestOf("ada", 1))
		w.restart(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("ok") }), Decisions: 1, Authenticated: true})
		pass(time.Second)
		for i := range 2 {
			if got := answerIn(t, w.store, fmt.Sprint("ada", i)); got != "ok" {
				t.Errorf("answer %q to ada%d, want ok", got, i)
			}
		}
	})
}

// TestTooManyBytes is the same for a few large messages.
func TestTooManyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, DecideTimeout: 2 * time.Hour, Authenticated: true})
		for i := range 40 {
			e := requestOf("mallory", i)
			e.Payload.(*a2a.Message).Parts = a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 1<<20))}
			w.publish(e)
		}
		if n := len(model.asked()); n != 30 {
			t.Errorf("%d large messages are decided about, want 30", n)
		}
		if got := answerIn(t, w.store, "mallory39"); !strings.HasPrefix(got, "Too much at once: 30 of your requests") {
			t.Errorf("answer %q", got)
		}
		w.publish(requestOf("ada", 0))
		if got := model.asked(); got[len(got)-1] != "ada0" {
			t.Error("nothing is decided about another one's message")
		}
	})
}

// TestTooManyTurns has an authenticated person ask on while nothing is decided: what exceeds the limits is refused with a clear text, and
// others still have room. A repeated message that was admitted before is admitted again.
func TestTooManyTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, Decisions: 8, DecideTimeout: 2 * time.Hour, Authenticated: true})
		const most = 3 * 3072 / 4
		for i := range most + 100 {
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), requestOf("mallory", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		refused := 0
		for i := range most + 100 {
			switch got := answerIn(t, w.store, fmt.Sprint("mallory", i)); {
			case got == fmt.Sprintf("Too much at once: %d of your requests are still to be decided. Ask again when some are answered.", most):
				refused++
			case got != "":
				t.Errorf("answer %q", got)
			}
		}
		if refused != 100 {
			t.Errorf("%d refused, want 100", refused)
		}
		w.publish(requestOf("ada", 0))
		if got := model.asked(); len(got) != 7 || got[6] != "ada0" {
			t.Errorf("decided about %q, want about ada0 too", got)
		}
		w.restart(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("ok") }), Authenticated: true})
		pass(time.Minute)
		for i := range most {
			if got := answerIn(t, w.store, fmt.Sprint("mallory", i)); got != "ok" && !strings.HasPrefix(got, "Too much at once") {
				t.Fatalf("answer %q after a restart", got)
			}
		}
	})
}

// TestChainIsItsSenders checks that an agent's request in the course of a person's request counts for the person.
func TestChainIsItsSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		decider := decideFunc(func(ctx context.Context, turn *llm.Turn, stream func(string)) (*llm.Decision, error) {
			if turn.User == "go" {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}), nil
			}
			return model.Decide(ctx, turn, stream)
		})
		w := newWorld(t, decider)
		w.restart(cortex.Config{Decider: decider, Decisions: 1, DecideTimeout: 2 * time.Hour})
		w.say("m1", "go")
		e := userEvent("a1", "and this?")
		e.From, e.TaskID = "alpha", w.onlyTask("alpha")
		w.publish(e)
		e = requestOf("", 0)
		e.From = "user"
		w.publish(e)
		if got := w.orch.Trouble(); len(got) != 1 || !strings.HasSuffix(got[0], "most are of user: 1 wait, 1 are made") {
			t.Errorf("trouble %q, want both to be the user's", got)
		}
	})
}

// computer is a slowModel that computes, and knows of no time limit.
type computer struct{ slowModel }

func (c *computer) Decide(ctx context.Context, t *llm.Turn, say func(string)) (*llm.Decision, error) {
	return c.slowModel.Decide(context.WithoutCancel(ctx), t, say)
}

func (*computer) Computes() bool { return true }

// TestComputedDecisionsAreBounded has two senders ask for much of a decider that computes: few decisions are made at a time, and who comes then waits for one of each
// of them, whatever they asked before, and however long.
func TestComputedDecisionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, most := new(computer), max(1, runtime.GOMAXPROCS(0)/2)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, DecideTimeout: 61 * time.Minute})
		for i := range 4 * most {
			w.publish(requestOf("mallory", i))
			w.publish(requestOf("eve", i))
		}
		pass(90 * time.Minute)
		w.publish(requestOf("ada", 0))
		before := len(model.asked())
		pass(3 * time.Hour)
		if got := model.asked()[before:]; !slices.Contains(got[:min(len(got), 2+most)], "ada0") {
			t.Errorf("then decided about %q, want ada0 behind one of each", got)
		}
		pass(24 * time.Hour)
		if got := answerIn(t, w.store, fmt.Sprint("eve", 4*most-1)); got == "" {
			t.Error("not all are answered")
		}
		if model.most != most {
			t.Errorf("%d decisions at a time, want %d", model.most, most)
		}
	})
}

// TestManyNewSenders has somebody with two questions, while new senders come without end: the second one is decided when it is its turn.
func TestManyNewSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := new(slowModel)
		w := newWorld(t, model)
		w.restart(cortex.Config{Decider: model, Decisions: 1, DecideTimeout: 61 * time.Minute})
		w.publish(requestOf("ada", 0))
		w.publish(requestOf("ada", 1))
		for n := range 8 {
			w.publish(requestOf(fmt.Sprint("new", 2*n, "."), 0))
			w.publish(requestOf(fmt.Sprint("new", 2*n+1, "."), 0))
			pass(time.Hour)
		}
		if got := model.asked(); !slices.Contains(got, "ada1") {
			t.Errorf("decided about %q, want ada1 among them", got)
		}
		pass(48 * time.Hour)
	})
}

// TestModelKnowsTheRequester checks that a model is asked in the name of who began the chain, also where it judges, and decides about, what an agent sends.
func TestModelKnowsTheRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		d := judging{func(ctx context.Context, turn *llm.Turn, say func(string)) (*llm.Decision, error) {
			asked = append(asked, "decide "+llm.Requester(ctx))
			return once(toAlpha)(ctx, turn, say)
		}, func(ctx context.Context, _, _ string, _ []string) (*llm.Verdict, error) {
			asked = append(asked, "judge "+llm.Requester(ctx))
			return &llm.Verdict{Score: 1}, nil
		}}
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, "rules: [{agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}")})
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		if want := []string{"decide user", "judge user", "decide user"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
}
