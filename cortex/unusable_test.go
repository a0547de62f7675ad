package cortex_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// counted counts what is looked for.
type counted struct {
	*keeper
	looks int
}

func (c *counted) Chunk(ctx context.Context, o transport.Object, n int) ([]byte, error) {
	c.looks++
	return c.keeper.Chunk(ctx, o, n)
}

// stored stores a file of three chunks for a conversation, and returns a reference to it.
func stored(t *testing.T, f transport.Files, contextID, from string) transport.FileRef {
	t.Helper()
	ref, err := transport.PutFile(t.Context(), f, "", contextID, from, bytes.NewReader(make([]byte, 2*transport.FileChunk+1)), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// lost are files that cannot be had, by what a sender is told of report.pdf.
func lost(t *testing.T, k *keeper, from string) map[string]*a2a.Part {
	without := func(n ...int) *a2a.Part {
		ref := stored(t, k, theContext, from)
		for _, i := range n {
			delete(k.chunks, fmt.Sprint(ref.Object, i))
		}
		return ref.Part("report.pdf", "")
	}
	damaged := stored(t, k, theContext, from)
	k.chunks[fmt.Sprint(damaged.Object, 2)][3] ^= 1
	shorter := stored(t, k, theContext, from)
	shorter.Size -= transport.FileChunk
	broken := stored(t, k, theContext, from).Part("report.pdf", "")
	delete(broken.Metadata, "file_key")
	const again = "; send it again"
	gone := "report.pdf is not here any more: a file goes some minutes after it came when no message has named it, and with its conversation" + again
	notIt := "report.pdf is damaged where it is kept, or is not the file that is meant" + again
	return map[string]*a2a.Part{
		gone: without(0, 1, 2), gone + "\x00its beginning": without(0), gone + "\x00its end": without(2),
		notIt: damaged.Part("report.pdf", ""), notIt + "\x00cut": shorter.Part("report.pdf", ""),
		"report.pdf was stored for another conversation; send it again in this one": stored(t, k, "another", from).Part("report.pdf", ""),
		"report.pdf is named by a reference that is broken; send the file again":    broken,
	}
}

// filesWorld is a world whose transport keeps files in a map.
func filesWorld(t *testing.T) (*world, *counted) {
	w := newWorld(t, once(toAlpha))
	c := &counted{keeper: &keeper{w.bus.(*memory.Bus), map[string][]byte{}}}
	w.restart(cortex.Config{Decider: once(toAlpha), Transport: c})
	return w, c
}

// TestMessageWithoutItsFile refuses a message in words when a file that it names is not there, or not for its conversation. One that came before is
// recognised, though its file has gone since, and nothing is looked for then, nor when the log is read again.
func TestMessageWithoutItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := filesWorld(t)
		n := 0
		for why, p := range lost(t, c.keeper, "user") {
			n++
			e := userEvent(fmt.Sprint("x", n), "look at it")
			e.Payload.(*a2a.Message).Parts = append(e.Payload.(*a2a.Message).Parts, p)
			w.publish(e)
			why, what, _ := strings.Cut(why, "\x00")
			shown := w.liveAnswers()
			if want := "Nothing was done: " + why + "."; len(shown) != n || shown[n-1] != want {
				t.Fatalf("%s: the sender is told %q, want %q at last", what, shown, want)
			}
		}
		if got := w.deadLetters(); len(got) > 0 || len(entries(t, w.store)) > 0 {
			t.Errorf("%d entries and the dead letters %q are left of what was refused", len(entries(t, w.store)), got)
		}
		e := userEvent("m1", "look at them")
		ref := stored(t, c, theContext, "user")
		m := e.Payload.(*a2a.Message)
		m.Parts = append(m.Parts, ref.Part("a.pdf", ""), ref.Part("b.pdf", ""), transport.ForgottenFile(ref.Part("c.pdf", "")))
		c.looks = 0
		w.publish(e)
		if got := w.filesOf("alpha"); got != "a.pdf b.pdf c.pdf" || c.looks != 2 {
			t.Errorf("alpha is given %q after %d looks, want what is there after 2", got, c.looks)
		}
		w.finish("alpha", w.onlyTask("alpha"), "done")
		w.wantAnswer("m1", "alpha COMPLETED done; ")
		maps.DeleteFunc(c.chunks, func(string, []byte) bool { return true })
		for range 2 {
			w.publish(transportAgain(e))
			w.restart(cortex.Config{Decider: once(toAlpha), Transport: c})
		}
		if shown := w.liveAnswers(); shown[len(shown)-1] != "alpha COMPLETED done; " || c.looks != 2 {
			t.Errorf("what came before is answered with %q after %d looks", shown[len(shown)-1], c.looks-2)
		}
		m2 := userEvent("m2", "and these")
		for i := range 3 {
			m2.Payload.(*a2a.Message).Parts = append(m2.Payload.(*a2a.Message).Parts, stored(t, c, "another", "user").Part(fmt.Sprint(i, ".pdf"), ""))
		}
		w.publish(m2)
		want := "Nothing was done: 0.pdf was stored for another conversation; send it again in this one (as is so of 2 more of its files)."
		if shown := w.liveAnswers(); shown[len(shown)-1] != want {
			t.Errorf("of three files the sender is told %q, want %q", shown[len(shown)-1], want)
		}
	})
}

// transportAgain is an event that is delivered once more, as who does not know that it arrived sends it.
func transportAgain(e *transport.Event) *transport.Event {
	again := *e
	again.ID = transport.AgainID(e.ID, fmt.Sprint(e.Time.UnixNano()))
	return &again
}

// TestResultWithoutItsFile takes a result, or a question, for a failure when a file that it names is not there. What an agent says of a task that failed is
// taken as it is.
func TestResultWithoutItsFile(t *testing.T) {
	for _, state := range []a2a.TaskState{a2a.TaskStateCompleted, a2a.TaskStateInputRequired, a2a.TaskStateFailed} {
		for _, form := range []string{"task", "artifact", "status", "message"} {
			if form == "message" && state != a2a.TaskStateCompleted {
				continue
			}
			t.Run(form+string(state), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, c := filesWorld(t)
					n := 0
					for why, p := range lost(t, c.keeper, "alpha") {
						n++
						w.say(fmt.Sprint("m", n), "go")
						tasks := w.tasksOf("alpha")
						e := resultEvent(fmt.Sprint("r", n), "alpha", tasks[len(tasks)-1].TaskID, state, "here")
						task := e.Payload.(*a2a.Task)
						said := task.Status.Message
						switch form {
						case "artifact":
							task.Artifacts = []*a2a.Artifact{{ID: "1", Parts: a2a.ContentParts{p}}}
						case "status":
							said.Parts = append(said.Parts, p)
							e.Payload = &a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: theContext, Status: task.Status}
						case "message":
							said.Parts, said.TaskID = append(said.Parts, p), task.ID
							e.Payload = said
						default:
							said.Parts = append(said.Parts, p)
						}
						w.publish(e)
						why, _, _ = strings.Cut(why, "\x00")
						want := "alpha FAILED " + why + "; "
						if state == a2a.TaskStateFailed {
							want = "alpha FAILED here"
						}
						if got := w.answers()[fmt.Sprint("m", n)]; !strings.HasPrefix(got, want) {
							t.Errorf("the turn ends with %q, want %q", got, want)
						}
					}
					looks := c.looks
					w.restart(cortex.Config{Decider: once(toAlpha), Transport: c})
					w.say("last", "go")
					if c.looks != looks {
						t.Errorf("%d files are looked for when the log is read again", c.looks-looks)
					}
					w.wantFold()
				})
			})
		}
	}
}

// TestBrought bounds how many files of an event are looked for.
func TestBrought(t *testing.T) {
	var parts a2a.ContentParts
	for i := range 3 * transport.MaxFiles {
		ref := transport.FileRef{Object: transport.Object{ContextID: "c", From: "alpha", ID: fmt.Sprint(i / 2)}}
		parts = append(parts, ref.Part("a", ""), a2a.NewTextPart("b"))
	}
	e := resultEvent("r", "alpha", "t", a2a.TaskStateCompleted, "here")
	e.Payload.(*a2a.Task).Artifacts = []*a2a.Artifact{{Parts: parts[:10]}, nil, {Parts: parts[10:]}}
	if n := len(conversation.Brought(e)); n != transport.MaxFiles {
		t.Errorf("%d files are looked for, want %d", n, transport.MaxFiles)
	}
}
