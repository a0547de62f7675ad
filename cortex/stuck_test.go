package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// stubborn is a decider that ignores its context: for a message "stay" it decides when it is released.
type stubborn chan struct{}

func (s stubborn) Decide(_ context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	if t.User != "stay" {
		return respond(fmt.Sprintf("quick, after %d", len(t.History))), nil
	}
	<-s
	stream("too late")
	for i := range t.History { // the decider has its own copy
		t.History[i].Answer = ""
	}
	d := respond("too late")
	d.Usage = each
	return d, nil
}

const leftBehind = "I could not decide what to do: the model took too long. Ask again; if it stays slow, choose another model or raise the time limit. " +
	"(no decision within 2m0s, and the decider did not return within 10s after that)"

// TestDeciderThatStays has a decider hang: its turn ends, its conversation goes on, and Trouble shows the abandoned decision until it ends.
func TestDeciderThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(stubborn)
		w := newWorld(t, free)
		w.say("m1", "hello")
		w.say("m2", "stay")
		pass(2*time.Minute + 9*time.Second)
		w.wantAnswer("m2", "")
		pass(2 * time.Second)
		w.wantAnswer("m2", leftBehind)
		w.say("m3", "go on")
		w.wantAnswer("m3", "quick, after 2")
		w.say("m4", "stay") // behind the turn that is being decided
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancelEvent("x1", &transport.Cancel{Turn: turnOf("m4")})); err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		w.wantAnswer("m4", conversation.AnswerCanceled)
		if got := w.orch.Trouble(); len(got) != 1 || !strings.Contains(got[0], "does not heed its time limit: 2; at 32") {
			t.Errorf("trouble %q, want two decisions that do not end", got)
		}
		w.wantFold()
		close(free)
		synctest.Wait()
		if got := w.orch.Trouble(); len(got) != 0 {
			t.Errorf("trouble %q behind the end of it", got)
		}
		if got, want := w.spentOn(time.Now()), each.Add(each); got != want {
			t.Errorf("on the day %+v, want %+v, which was known too late", got, want)
		}
		for _, a := range w.liveAnswers() {
			if strings.Contains(a, "too late") {
				t.Errorf("shown %q", a)
			}
		}
		w.wantFold()
		w.say("m5", "and on")
		w.wantAnswer("m5", "quick, after 4")
	})
}

// TestTooManyStay has so many decisions hang that no further one is begun.
func TestTooManyStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(stubborn)
		w := newWorld(t, free)
		const most = 32
		for i := range most {
			e := userEvent(fmt.Sprint("s", i), "stay")
			e.ContextID = fmt.Sprint("other", i)
			w.publish(e)
		}
		pass(3 * time.Minute)
		began, calls := time.Now(), len(w.decisions())
		w.say("m1", "hello")
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "Nothing can be decided now: 32 earlier decisions have not ended") || time.Since(began) != 0 {
			t.Errorf("answer %q after %v, want at once why nothing is decided", got, time.Since(began))
		}
		if got := len(w.decisions()); calls != most || got != calls {
			t.Errorf("the decider was called %d times, then %d times, want %d", calls, got, most)
		}
		close(free)
		synctest.Wait()
		w.say("m2", "hello")
		w.wantAnswer("m2", "quick, after 1")
	})
}

// TestStopsThoughDeciderStays stops an orchestrator whose decider ignores its context: the next one decides.
func TestStopsThoughDeciderStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(stubborn)
		w := newWorld(t, free)
		w.say("m1", "stay")
		w.restart(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("ok") })})
		pass(time.Second)
		w.wantAnswer("m1", "ok")
		close(free)
	})
}

// TestCompactorThatStays has the decider hang in a summary.
func TestCompactorThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		w := newWorld(t, compacting{
			simple(func(*llm.Turn) *llm.Decision { return respond("ok") }).Decide,
			func(_ context.Context, t *llm.Turn, _ bool) (*llm.Summary, error) {
				if t.User == "stay" {
					<-free
				}
				return nil, nil
			},
		})
		w.say("m1", "stay")
		pass(3 * time.Minute)
		w.wantAnswer("m1", leftBehind)
		w.say("m2", "go on")
		w.wantAnswer("m2", "ok")
		w.wantFold()
		close(free)
	})
}
