package agents_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// script is an Executor that yields its events, and then its error, if any.
type script struct {
	events []a2a.Event
	err    error
}

func (s script) Execute(context.Context, *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

func status(s a2a.TaskState, text string) *a2a.TaskStatusUpdateEvent {
	u := &a2a.TaskStatusUpdateEvent{Status: a2a.TaskStatus{State: s}}
	if text != "" {
		u.Status.Message = said(text)
	}
	return u
}

func said(text string) *a2a.Message {
	return &a2a.Message{Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
}

// An executor ends its task exactly once; any other behaviour fails the task with a text that says what is wrong.
func TestExecutorEnds(t *testing.T) {
	artifact := &a2a.Artifact{Name: "plot", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}
	for name, c := range map[string]struct {
		script script
		want   string
	}{
		"a message":          {script{events: []a2a.Event{said("done")}}, "COMPLETED: done"},
		"a status":           {script{events: []a2a.Event{status(a2a.TaskStateWorking, "half"), status(a2a.TaskStateCompleted, "all")}}, "COMPLETED: all"},
		"a question":         {script{events: []a2a.Event{status(a2a.TaskStateInputRequired, "which?")}}, "INPUT_REQUIRED: which?"},
		"a login":            {script{events: []a2a.Event{status(a2a.TaskStateAuthRequired, "log in")}}, "AUTH_REQUIRED: log in"},
		"a failure":          {script{events: []a2a.Event{status(a2a.TaskStateFailed, "")}}, "FAILED: the agent gave no reason"},
		"an error":           {script{events: []a2a.Event{status(a2a.TaskStateWorking, "")}, err: errors.New("no luck")}, "FAILED: no luck"},
		"a rejection":        {script{err: agents.Rejected(errors.New("not me"))}, "REJECTED: not me"},
		"a task":             {script{events: []a2a.Event{&a2a.Task{Artifacts: []*a2a.Artifact{artifact}, Status: status(a2a.TaskStateCompleted, "whole").Status}}}, "COMPLETED: whole"},
		"no end":             {script{events: []a2a.Event{status(a2a.TaskStateWorking, "half")}}, "FAILED: the agent is broken: it stopped without a result, a question or a failure"},
		"two ends":           {script{events: []a2a.Event{said("one"), said("two")}}, "FAILED: the agent is broken: it went on after it had ended the task as completed"},
		"an error behind it": {script{events: []a2a.Event{status(a2a.TaskStateCanceled, "")}, err: errors.New("no luck")}, "FAILED: the agent is broken: it went on after it had ended the task as canceled"},
		"no event":           {script{events: []a2a.Event{nil}}, "FAILED: the agent is broken: it yielded nothing"},
		"another state":      {script{events: []a2a.Event{status("DONE", "")}}, `FAILED: the agent is broken: it named the state "DONE", which does not exist`},
		"another task":       {script{events: []a2a.Event{&a2a.Message{TaskID: "t9"}}}, `FAILED: the agent is broken: it spoke of task "t9" while it worked on "t1"`},
		"an empty artifact":  {script{events: []a2a.Event{&a2a.TaskArtifactUpdateEvent{}}}, "FAILED: the agent is broken: the artifact is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				stop := b.execute(c.script, nil)
				b.give(task("t1", "go", nil))
				b.want("t1 " + c.want)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Streamed text is shown in pieces of whole characters, and is the result when there is no other.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			for _, piece := range []string{"Grü", "n\xc3", "\xa4 und ", "blau", "\xff"} {
				task.Stream(piece)
				<-time.After(time.Second)
			}
			if task.Text() == "words" {
				return agents.Text("its own words"), nil
			}
			return nil, nil
		}), nil)
		b.give(task("t1", "go", nil))
		pass(10 * time.Second)
		b.want("t1 COMPLETED: Grünä und blau\uFFFD")
		text, first := "", true
		for _, e := range b.live {
			u, ok := e.Payload.(*a2a.TaskArtifactUpdateEvent)
			if !ok {
				continue
			}
			piece := transport.Text(u.Artifact.Parts)
			if u.Artifact.ID != transport.TextArtifact || u.Append == first || strings.Contains(piece, "\uFFFD") && piece != "\uFFFD" {
				t.Errorf("piece %q: id %q, append %v", piece, u.Artifact.ID, u.Append)
			}
			text, first = text+piece, false
		}
		if text != "Grünä und blau\uFFFD" {
			t.Errorf("shown %q", text)
		}
		b.give(task("t2", "words", nil))
		pass(10 * time.Second)
		if got := b.got()[1]; got != "t2 COMPLETED: its own words" {
			t.Errorf("a result of its own: %q", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// An artifact is made of pieces, with its id, description and metadata; pieces that do not fit together are an error.
func TestArtifactPieces(t *testing.T) {
	piece := func(id, text string, add, last bool) *a2a.TaskArtifactUpdateEvent {
		return &a2a.TaskArtifactUpdateEvent{
			Artifact: &a2a.Artifact{ID: a2a.ArtifactID(id), Name: "report", Description: "what was found", Metadata: map[string]any{"k": "v"}, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
			Append:   add, LastChunk: last,
		}
	}
	raw := func(b string, add, last bool) *a2a.TaskArtifactUpdateEvent {
		return &a2a.TaskArtifactUpdateEvent{Append: add, LastChunk: last, Artifact: &a2a.Artifact{
			ID: "r", Parts: a2a.ContentParts{{Content: a2a.Raw(b), Filename: "f.bin", MediaType: "application/x"}},
		}}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.execute(agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			for i, c := range []struct {
				u    *a2a.TaskArtifactUpdateEvent
				want string
			}{
				{piece("a", "one ", true, false), "was not begun"},
				{piece("a", "one ", false, false), ""},
				{raw("\x00\x01", false, false), ""},
				{piece("a", "two", true, true), ""},
				{raw("\x02", true, true), ""},
				{piece("a", "three", true, true), "it was whole"},
				{&a2a.TaskArtifactUpdateEvent{Artifact: &a2a.Artifact{Name: "e"}}, "is empty"},
			} {
				err := task.Update(c.u)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("piece %d: %v, want %q", i, err, c.want)
				}
			}
			return nil, task.Artifact("plain", a2a.NewTextPart("p"))
		}), nil)
		b.give(task("t1", "go", nil))
		b.want("t1 COMPLETED")
		want := []*a2a.Artifact{
			{ID: "a", Name: "report", Description: "what was found", Metadata: map[string]any{"k": "v"}, Parts: a2a.ContentParts{a2a.NewTextPart("one two")}},
			{ID: "r", Parts: a2a.ContentParts{{Content: a2a.Raw("\x00\x01\x02"), Filename: "f.bin", MediaType: "application/x"}}},
			{ID: "3", Name: "plain", Parts: a2a.ContentParts{a2a.NewTextPart("p")}},
		}
		if diff := cmp.Diff(want, b.results[0].Payload.(*a2a.Task).Artifacts); diff != "" {
			t.Errorf("artifacts (-want +got):\n%s", diff)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Deliveries bounds how often a task is started, and can remove the bound.
func TestDeliveriesOption(t *testing.T) {
	for most, want := range map[int]string{0: "t1 FAILED: the agent stopped 3 times while working on this", 5: "t1 FAILED: the agent stopped 5 times while working on this", -1: "t1 COMPLETED: GO"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			for range 6 {
				h := newHold()
				stop := b.execute(agents.Handler(h.handle), &agents.Options{Deliveries: most, Grace: -1})
				if b.waiting() == 0 {
					b.give(task("t1", "go", nil))
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			stop := b.execute(agents.Handler(shout), &agents.Options{Deliveries: most})
			pass(10 * time.Second)
			b.want(want)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
