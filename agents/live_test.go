package agents_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// shown returns what was published on the conversation's live topic.
func (b *bench) shown() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.live {
		switch p := e.Payload.(type) {
		case *a2a.TaskStatusUpdateEvent:
			out = append(out, string(p.TaskID)+" "+string(p.Status.State)+" "+transport.Text(p.Status.Message.Parts))
		case *a2a.TaskArtifactUpdateEvent:
			out = append(out, fmt.Sprintf("%s %s %s=%s", p.TaskID, p.Artifact.ID, p.Artifact.Name, transport.Text(p.Artifact.Parts)))
		}
	}
	return out
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			task.Progress("looking\tat \x1b[31mit")
			<-time.After(time.Second)
			task.Progress("   ")
			for i := range 1000 { // one second: ten of them may be seen
				task.Progress(fmt.Sprint("step ", i))
				<-time.After(time.Millisecond)
			}
			task.Progress("last")
			return agents.Text("done"), nil
		}, nil)()
		b.give(task("t1", "hello", nil))
		pass(10 * time.Second)
		got := b.shown()
		if len(got) < 10 || len(got) > 13 {
			t.Fatalf("%d texts were shown, want about ten a second: %q", len(got), got)
		}
		if got[0] != "t1 TASK_STATE_WORKING looking at it" {
			t.Errorf("first text = %q, want it on one line without control characters", got[0])
		}
		if last := got[len(got)-1]; last != "t1 TASK_STATE_WORKING last" {
			t.Errorf("last text = %q, want the last one", last)
		}
		for _, e := range b.live {
			p := e.Payload.(*a2a.TaskStatusUpdateEvent)
			if e.From != "agent_x" || e.TaskID != "t1" || p.ContextID != "ctx" || p.Metadata["turn_id"] != "turn-1" || p.Metadata["agent_id"] != "agent_x" {
				t.Errorf("progress is addressed %+v with %v", e, p.Metadata)
			}
		}
	})
}

func TestProgressIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var kept *agents.Task
		defer b.serve(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			kept = task
			task.Progress(strings.Repeat("é", 5000))
			return nil, nil
		}, nil)()
		b.give(task("t1", "hello", nil))
		got := b.shown()
		if len(got) != 1 || len(got[0]) > 1100 || strings.ContainsRune(got[0], '\uFFFD') {
			t.Errorf("shown = %q, want it cut", got)
		}
		kept.Progress("after the end")
		if got := b.shown(); len(got) != 1 {
			t.Errorf("shown = %q, want nothing after the result", got[1:])
		}
	})
}

// slow is a transport that takes a second to publish a live event.
type slow struct {
	*memory.Bus

	mu    sync.Mutex
	order []transport.Kind // of the published events
}

func (s *slow) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t.Kind == transport.KindLive {
		<-time.After(time.Second)
	}
	s.mu.Lock()
	s.order = append(s.order, t.Kind)
	s.mu.Unlock()
	return s.Bus.Publish(ctx, t, e)
}

// Nothing is shown of a task after its result.
func TestProgressComesBeforeTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := &slow{Bus: b.bus.Dial()}
		go agents.Serve(t.Context(), tr, card(), agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			task.Progress("one")
			return nil, nil
		}), nil)
		b.give(task("t1", "hello", nil))
		pass(10 * time.Second)
		if diff := cmp.Diff([]transport.Kind{transport.KindCards, transport.KindLive, transport.KindInbox}, tr.order); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

func TestArtifacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		errs := make(chan error, 4)
		defer b.serve(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			errs <- task.Artifact("report", a2a.NewTextPart("draft"))
			errs <- task.Artifact("data", a2a.NewTextPart("1,2"))
			errs <- task.Artifact("report", a2a.NewTextPart("final"))
			errs <- task.Artifact("huge", a2a.NewDataPart(strings.Repeat("x", agents.MaxArtifactBytes)))
			return nil, nil
		}, nil)()
		b.give(task("t1", "hello", nil))
		for range 3 {
			if err := <-errs; err != nil {
				t.Errorf("Artifact() = %v", err)
			}
		}
		if err := <-errs; !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("Artifact() of %d bytes = %v, want ErrTooLarge", agents.MaxArtifactBytes, err)
		}
		if diff := cmp.Diff([]string{"t1 1 report=draft", "t1 2 data=1,2", "t1 1 report=final"}, b.shown()); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		b.want("t1 COMPLETED")
		var got []string
		for _, a := range b.results[0].Payload.(*a2a.Task).Artifacts {
			got = append(got, fmt.Sprintf("%s %s=%s", a.ID, a.Name, transport.Text(a.Parts)))
		}
		if diff := cmp.Diff([]string{"1 report=final", "2 data=1,2"}, got); diff != "" {
			t.Errorf("artifacts of the result (-want +got):\n%s", diff)
		}
	})
}

func TestArtifactsAreBounded(t *testing.T) {
	task := &agents.Task{}
	for i := range agents.MaxArtifacts {
		if err := task.Artifact(fmt.Sprint(i), a2a.NewTextPart("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.Artifact("one more", a2a.NewTextPart("x")); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Artifact() after %d = %v, want ErrTooLarge", agents.MaxArtifacts, err)
	}
	task = &agents.Task{}
	for range 10 { // each replaces the one before
		if err := task.Artifact("same", a2a.NewRawPart(make([]byte, agents.MaxArtifactBytes/2))); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.Artifact("empty"); err == nil {
		t.Error("Artifact() without parts = nil")
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.serve(shout, &agents.Options{Instance: "i1"})
		pass(95 * time.Second)
		if len(b.cards) != 4 {
			t.Errorf("%d announcements in 95 s, want 4", len(b.cards))
		}
		want := &transport.Card{AgentID: "agent_x", Instance: "i1", TTL: 90 * time.Second, Heartbeat: 30 * time.Second, Card: card()}
		want.Card.SupportedInterfaces = []*a2a.AgentInterface{}
		want.Card.DefaultInputModes, want.Card.DefaultOutputModes = []string{"text/plain"}, []string{"text/plain"}
		want.Card.Skills[0].Description, want.Card.Skills[0].Tags = "Do", []string{}
		if diff := cmp.Diff(want, b.cards[0]); diff != "" {
			t.Errorf("card (-want +got):\n%s", diff)
		}
		stop()
		synctest.Wait()
		if last := b.cards[len(b.cards)-1]; last.Gone != transport.GoneLeft || last.Instance != "i1" {
			t.Errorf("last card = %+v, want it gone", last)
		}
	})
}

// shallow is a transport that cannot count waiting events.
type shallow struct{ transport.Transport }

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 17 { // two full rounds, and one that takes longer than the grace
			b.give(task(fmt.Sprint("t", i), "hello", nil))
		}
		slow := func(context.Context, *agents.Task) (*agents.Result, error) {
			<-time.After(time.Minute)
			return agents.Text("done"), nil
		}
		if err := agents.Serve(t.Context(), b.bus.Dial(), card(), agents.Handler(slow), &agents.Options{Once: true}); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
		if n := len(b.got()); n != 17 {
			t.Errorf("%d results, want 17", n)
		}
		if last := b.cards[len(b.cards)-1]; last.Gone != transport.GoneLeft {
			t.Errorf("last card = %+v, want it gone", last)
		}
		// Without any tasks.
		if err := agents.Serve(t.Context(), b.bus.Dial(), card(), agents.Handler(slow), &agents.Options{Once: true}); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
		if err := agents.Serve(t.Context(), shallow{b.bus.Dial()}, card(), agents.Handler(slow), &agents.Options{Once: true}); err == nil {
			t.Error("Serve() of a transport that cannot tell what waits = nil, want an error")
		}
	})
}
