package conversation_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

func file(name string, size int) *a2a.Part {
	return &a2a.Part{Content: a2a.Raw(bytes.Repeat([]byte(name[:1]), size)), Filename: name, MediaType: "image/png"}
}

func stored(name, id string) *a2a.Part {
	ref := transport.FileRef{
		Object: transport.Object{ContextID: "c1", From: "user", ID: id}, Key: make([]byte, 32), Size: 5 << 20, SHA256: strings.Repeat("00", 32),
	}
	return ref.Part(name, "application/pdf")
}

// brings adds files to what an event says.
func brings(e *transport.Event, files ...*a2a.Part) *transport.Event {
	switch p := e.Payload.(type) {
	case *a2a.Message:
		p.Parts = append(p.Parts, files...)
	case *a2a.Task:
		p.Artifacts = append(p.Artifacts, &a2a.Artifact{ID: "1", Name: "made.png", Parts: files})
	}
	return e
}

// filesTo returns the files of what the last entry sends to a topic.
func (s *script) filesTo(topic transport.Topic) []*a2a.Part {
	var files []*a2a.Part
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if m, ok := out.Event.Payload.(*a2a.Message); ok && out.Topic == topic {
			files = append(files, transport.FilesOf(m.Parts)...)
		}
	}
	return files
}

func say(text string) *llm.Decision { return &llm.Decision{Kind: llm.KindRespond, Say: text} }

// TestFilesGoAlong follows files: from the user to the first agent, from there to the one that waits for it, and to the answer.
func TestFilesGoAlong(t *testing.T) {
	s := newScript(t)
	report, plot, unnamed := stored("report.pdf", "1"), file("plot.png", 1000), file("x", 10)
	unnamed.Filename = ""
	s.apply(brings(says("user", "m1", "look at this"), report, plot), &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{
		{ID: "1", Agent: "alpha", Task: "first"}, {ID: "2", Agent: "beta", Task: "then", DependsOn: []string{"1"}},
	}})
	same := func(what string, got []*a2a.Part, want ...*a2a.Part) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	same("the first agent gets what the user brings", s.filesTo(transport.Inbox("", "alpha")), report, plot)
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if task, ok := out.Event.Payload.(*a2a.Task); ok {
			same("who watches is shown that", transport.FilesOf(task.History[0].Parts), transport.ForgottenFile(report), transport.ForgottenFile(plot))
		}
	}
	first, made := s.conv.Running()[0].ID, file("made.png", 7)
	s.apply(brings(reports("alpha", "r1", first, a2a.TaskStateCompleted, "here"), made, unnamed), nil)
	named := *unnamed
	named.Filename = "made.png"
	same("the next agent gets what the first one made, too", s.filesTo(transport.Inbox("", "beta")), report, plot, made, &named)
	second := s.conv.Running()[0].ID
	s.apply(brings(reports("beta", "r2", second, a2a.TaskStateCompleted, "done"), made, stored("big.pdf", "2")), say("all done"))
	same("the answer has what came of it, each once", s.filesTo(transport.Live("", "c1")), made, &named, stored("big.pdf", "2"))
	m, ok := s.conv.AnswerOf("user", "m1")
	if !ok || len(transport.FilesOf(m.Parts)) != 3 {
		t.Errorf("AnswerOf = %v, %v, want the files", m, ok)
	}
	b, err := s.conv.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again, err := conversation.ReadSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s.conv.Turns[0].Out, again.Turns[0].Out); d != "" {
		t.Errorf("the snapshot has other files: %s", d)
	}
}

// TestFilesOfAYes has the files of a request go with its tasks when these wait for a yes.
func TestFilesOfAYes(t *testing.T) {
	s := newScript(t)
	e := brings(says("user", "m1", "delete what is in it"), file("list.txt", 5))
	entry := &conversation.Entry{
		Version: 1, Seq: 1, Time: t0, Cause: e, Turn: "t1", Decision: gives("alpha"), Consent: "Really?", Asked: t0, ReplyBy: t0.Add(1e12),
	}
	if err := s.conv.Apply(entry); err != nil {
		t.Fatal(err)
	}
	asked := s.conv.Asked()[0]
	s.apply(&transport.Event{ID: s.deliveredID(), From: transport.Cortex, ContextID: "c1", Payload: &transport.Deadline{At: t0}}, nil)
	d := gives("alpha")
	d.Delegations[0].ID = string(asked.ID)
	s.apply(says("user", "m2", "yes"), d)
	if got := s.filesTo(transport.Inbox("", "alpha")); len(got) != 1 || got[0].Filename != "list.txt" {
		t.Errorf("the agent got %v, want the file of the request", got)
	}
}

// deliveredID returns the id of the note that the last question was delivered.
func (s *script) deliveredID() string {
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if _, ok := out.Event.Payload.(*transport.Deadline); ok && out.Event.DeliverAt.IsZero() {
			return out.Event.ID
		}
	}
	s.t.Fatal("no question was asked")
	return ""
}

// TestFilesAreBounded holds that no message of Cortex is larger than a transport takes, whatever agents give back, and that a conversation
// keeps little of what was answered.
func TestFilesAreBounded(t *testing.T) {
	s := newScript(t)
	d := &llm.Decision{Kind: llm.KindDelegate}
	for _, id := range []string{"1", "2", "3"} {
		d.Delegations = append(d.Delegations, llm.Delegation{ID: id, Agent: "alpha", Task: "do"})
	}
	s.apply(says("user", "m1", "three of them"), d)
	for i, task := range s.conv.Running() {
		end := (*llm.Decision)(nil)
		if i == 2 {
			end = say("done")
		}
		s.apply(brings(reports("alpha", "r"+string(task.ID), task.ID, a2a.TaskStateCompleted, ""), file(string(rune('a'+i))+".png", 900<<10)), end)
	}
	m, _ := s.conv.AnswerOf("user", "m1")
	if _, _, _, err := transport.EncodePayload(m); err != nil {
		t.Errorf("the answer cannot be sent: %v", err)
	}
	if n, text := len(transport.FilesOf(m.Parts)), transport.Text(m.Parts); n != 2 || !strings.Contains(text, "c.png, image/png, 922 kB: left out") {
		t.Errorf("the answer has %d files and says %q", n, text)
	}
	s.apply(brings(says("user", "m2", "and this"), file("x.png", 400<<10)), say("seen"))
	s.apply(brings(says("user", "m3", "and this"), file("y.png", 400<<10)), say("seen"))
	inline := 0
	for _, turn := range s.conv.Turns {
		for _, p := range append(turn.Files, turn.Out...) {
			raw, _ := p.Content.(a2a.Raw)
			inline += len(raw)
		}
	}
	if inline != 400<<10 {
		t.Errorf("%d bytes of files are kept, want those of the newest turn", inline)
	}
	if name, kind, size, ok := transport.FileOf(s.conv.Turns[0].Out[0]); name != "a.png" || kind != "image/png" || size != 900<<10 || !ok {
		t.Errorf("what was let go is %q, %q, %d, %v, want what it was", name, kind, size, ok)
	}
}
