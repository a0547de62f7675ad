package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// sayWith is say with files, whose bytes are their names.
func (w *world) sayWith(id, text string, names ...string) {
	w.t.Helper()
	e := userEvent(id, text)
	m := e.Payload.(*a2a.Message)
	for _, name := range names {
		m.Parts = append(m.Parts, &a2a.Part{Content: a2a.Raw(name), Filename: name})
	}
	w.publish(e)
}

// filesOf returns the names of the files of an agent's newest task.
func (w *world) filesOf(agent string) string {
	w.t.Helper()
	work := w.tasksOf(agent)
	if len(work) == 0 {
		w.t.Fatalf("%s got no task", agent)
	}
	var names []string
	for _, p := range transport.FilesOf(work[len(work)-1].Payload.(*a2a.Message).Parts) {
		names = append(names, p.Filename)
	}
	return strings.Join(names, " ")
}

// TestYesToFiles checks that a question lists the files to be sent, and that these are sent, after a restart and when it is asked twice.
func TestYesToFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			return delegate(
				llm.Delegation{ID: "1", Agent: "alpha", Task: "print it", Files: []string{"f2"}},
				llm.Delegation{ID: "2", Agent: "beta", Task: "keep it"},
				llm.Delegation{ID: "3", Agent: "gamma", Task: "forget it", Files: []string{}})
		})
		w := consenting(t, d)
		w.sayWith("m1", "print it", "a.csv", "b\n\"c\".pdf")
		w.wantAnswer("m1", `This needs your yes:
1. alpha is to: "print it", with the file "b__c_.pdf"
2. beta is to: "keep it", with the files "a.csv", "b__c_.pdf"
3. gamma is to: "forget it"

Do all of it? Answer yes or no.`)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, alphaConfirms)})
		w.say("m2", "yes")
		for agent, want := range map[string]string{"alpha": "b\n\"c\".pdf", "beta": "a.csv b\n\"c\".pdf", "gamma": ""} {
			if got := w.filesOf(agent); got != want {
				t.Errorf("%s got the files %q, want %q", agent, got, want)
			}
		}
		w.wantFold()
	})
}

// TestFilesOfTheConversation has a decider open the files that it may give, and give a later task files of an earlier message and result.
func TestFilesOfTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []string
		d := simple(func(turn *llm.Turn) *llm.Decision {
			for _, key := range append(turn.Available, "f99") {
				b, err := turn.Open(t.Context(), key, 1<<20)
				if err != nil && !errors.Is(err, transport.ErrFileGone) {
					t.Errorf("Open(%s) = %v", key, err)
				}
				opened = append(opened, key+":"+string(b))
			}
			if len(turn.Steps) > 0 {
				return respond("done")
			}
			del := llm.Delegation{ID: "1", Agent: "alpha", Task: "do"}
			if strings.HasPrefix(turn.User, "both") {
				del.Files = []string{"f1", "f2"}
			}
			return delegate(del)
		})
		w := newWorld(t, d)
		w.sayWith("m1", "draw it", "data.csv")
		if got := w.filesOf("alpha"); got != "data.csv" {
			t.Errorf("the first task has the files %q", got)
		}
		task := w.onlyTask("alpha")
		e := resultEvent("r1", "alpha", task, a2a.TaskStateCompleted, "here")
		e.Payload.(*a2a.Task).Artifacts = []*a2a.Artifact{{ID: "1", Name: "plot", Parts: a2a.ContentParts{{Content: a2a.Raw("plot.png"), Filename: "plot.png"}}}}
		w.publish(e)
		w.say("m2", "both of them")
		if got := w.filesOf("alpha"); got != "data.csv plot.png" {
			t.Errorf("the second task has the files %q, want those of the message and the result before", got)
		}
		want := []string{"f1:data.csv", "f99:", "f1:data.csv", "f2:plot.png", "f99:", "f1:data.csv", "f2:plot.png", "f99:"}
		if diff := cmp.Diff(want, opened); diff != "" {
			t.Errorf("opened (-want +got):\n%s", diff)
		}
		if files := w.load().Files(w.load().Turns[1], 1); len(conversation.Keys(files)) != 0 {
			t.Errorf("behind a summary of the first turn there are the files %v", files)
		}
		w.wantFold()
	})
}

// keeper is a transport that stores files.
type keeper struct {
	*memory.Bus
	chunks map[string][]byte
}

func (k *keeper) PutChunk(_ context.Context, o transport.Object, n int, sealed []byte) error {
	k.chunks[fmt.Sprint(o, n)] = sealed
	return nil
}

func (k *keeper) Chunk(_ context.Context, o transport.Object, n int) ([]byte, error) {
	if b, ok := k.chunks[fmt.Sprint(o, n)]; ok {
		return b, nil
	}
	return nil, transport.ErrNotFound
}

// TestOpenStoredFiles has a decider open a file that messages only refer to, and checks that it sees the beginning of a text. An image that is
// too large is not read.
func TestOpenStoredFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []int
		var failed []error
		var shown []prompt.File
		d := simple(func(turn *llm.Turn) *llm.Decision {
			for _, key := range turn.Available {
				b, err := turn.Open(t.Context(), key, 1<<20)
				opened, failed = append(opened, len(b)), append(failed, err)
			}
			shown = turn.Files
			return respond("seen")
		})
		w := newWorld(t, d)
		k := &keeper{w.bus.(*memory.Bus), map[string][]byte{}}
		w.restart(cortex.Config{Decider: d, Transport: k})
		e := userEvent("m1", "look")
		m := e.Payload.(*a2a.Message)
		for _, p := range []*a2a.Part{
			{Content: a2a.Raw(strings.Repeat("1,2\n", 100_000)), Filename: "big.csv"},
			{Content: a2a.Raw(make([]byte, llm.MaxImageBytes+1)), Filename: "huge.png"},
		} {
			m.Parts = append(m.Parts, p)
		}
		var err error
		if m.Parts, err = transport.PackFiles(t.Context(), k, "", theContext, "user", m.Parts, nil); err != nil {
			t.Fatal(err)
		}
		w.publish(e)
		w.wantAnswer("m1", "seen")
		if len(opened) != 2 || opened[0] != 400_000 || failed[0] != nil || opened[1] != 0 || !errors.Is(failed[1], transport.ErrTooLarge) {
			t.Errorf("opened %v, %v", opened, failed)
		}
		want := []prompt.File{
			{Key: "f1", Name: "big.csv", Type: "text/csv", Size: 400_000, Head: strings.Repeat("1,2\n", 100)},
			{Key: "f2", Name: "huge.png", Type: "image/png", Size: llm.MaxImageBytes + 1},
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("the prompt shows (-want +got):\n%s", diff)
		}
		if n := w.load().Weight(); n > 16<<10 {
			t.Errorf("the conversation weighs %d bytes, with the files that it has references to", n)
		}
	})
}

// TestAgentAsksAgainForFiles has a restarted agent ask again after other turns were answered: the answer still has its files, and the
// conversation keeps no more of them than before.
func TestAgentAsksAgainForFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		var heard [][]*a2a.Part
		w.listen(transport.Control("", "alpha"), func(e *transport.Event) {
			if m, ok := e.Payload.(*a2a.Message); ok {
				heard = append(heard, transport.FilesOf(m.Parts))
			}
		})
		done := func(id string) {
			t.Helper()
			tasks := w.tasksOf("beta")
			e := resultEvent(id, "beta", tasks[len(tasks)-1].TaskID, a2a.TaskStateCompleted, "here")
			plot := &a2a.Part{Content: a2a.Raw(strings.Repeat(id, 200<<10)), Filename: "plot.png"}
			e.Payload.(*a2a.Task).Artifacts = []*a2a.Artifact{{ID: "1", Parts: a2a.ContentParts{plot}}}
			w.publish(e)
		}
		asked := userEvent("a1", "beta: plot")
		asked.From = "alpha"
		w.publish(asked)
		done("r1")
		w.say("m2", "beta: plot")
		done("r2")
		w.wantFold()
		again := *asked
		again.ID = transport.AgainID(asked.ID, "1")
		w.publish(&again)
		if len(heard) != 2 || len(heard[1]) != 1 || transport.IsForgotten(heard[1][0]) {
			t.Fatalf("the agent heard the answers %v, want the same twice", heard)
		}
		if diff := cmp.Diff(heard[0], heard[1]); diff != "" {
			t.Errorf("asked again, the files are (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}
