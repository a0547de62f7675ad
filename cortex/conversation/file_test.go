package conversation_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
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

// brings adds files to an event's message or result.
func brings(e *transport.Event, files ...*a2a.Part) *transport.Event {
	switch p := e.Payload.(type) {
	case *a2a.Message:
		p.Parts = append(p.Parts, files...)
	case *a2a.Task:
		p.Artifacts = append(p.Artifacts, &a2a.Artifact{ID: "1", Name: "made.png", Parts: files})
	}
	return e
}

// unkeyed returns files without their keys, as they arrived.
func unkeyed(files []*a2a.Part) []*a2a.Part {
	var out []*a2a.Part
	for _, p := range files {
		plain := *p
		plain.Metadata = maps.Clone(p.Metadata)
		if delete(plain.Metadata, transport.MetaFile); len(plain.Metadata) == 0 {
			plain.Metadata = nil
		}
		out = append(out, &plain)
	}
	return out
}

// filesTo returns the files that the last entry sends to a topic.
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

// TestFilesGoAlong follows files from the user to the first agent, from there to the agent that depends on it, and to the answer.
func TestFilesGoAlong(t *testing.T) {
	s := newScript(t)
	report, plot, unnamed := stored("report.pdf", "1"), file("plot.png", 1000), file("x", 10)
	unnamed.Filename = ""
	s.apply(brings(says("user", "m1", "look at this"), report, plot), &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{
		{ID: "1", Agent: "alpha", Task: "first"}, {ID: "2", Agent: "beta", Task: "then", DependsOn: []string{"1"}},
	}})
	same := func(what string, got []*a2a.Part, want ...*a2a.Part) {
		t.Helper()
		if d := cmp.Diff(want, unkeyed(got)); d != "" {
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

// TestFilesOfAYes checks that the files of a request go with its tasks when these wait for a yes.
func TestFilesOfAYes(t *testing.T) {
	s := newScript(t)
	e := brings(says("user", "m1", "delete what is in it"), file("list.txt", 5))
	entry := &conversation.Entry{
		Version: 1, Seq: 1, Time: t0, Cause: e, Turn: "t1", Decision: gives("alpha"), Consent: "Really?", Asked: t0, ReplyBy: t0.Add(1e12),
	}
	if err := s.conv.Apply(entry); err != nil {
		t.Fatal(err)
	}
	asked := s.conv.Held()[0]
	s.apply(&transport.Event{ID: s.deliveredID(), From: transport.Cortex, ContextID: "c1", Payload: &transport.Deadline{At: t0}}, nil)
	d := gives("alpha")
	d.Delegations[0].ID = string(asked.ID)
	s.apply(says("user", "m2", "yes"), d)
	if got := s.filesTo(transport.Inbox("", "alpha")); len(got) != 1 || got[0].Filename != "list.txt" {
		t.Errorf("the agent got %v, want the file of the request", got)
	}
}

// deliveredID returns the id of the receipt of the last question.
func (s *script) deliveredID() string {
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if _, ok := out.Event.Payload.(*transport.Deadline); ok && out.Event.DeliverAt.IsZero() {
			return out.Event.ID
		}
	}
	s.t.Fatal("no question was asked")
	return ""
}

// TestFilesAreBounded checks that no message of Cortex exceeds the limit of a transport, whatever agents return, and that a conversation
// keeps few bytes of files of answered turns.
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

// TestFilesWeighWhatTheyKeep checks that no more than a little is kept of what is said of files, and that a conversation is weighed with it.
func TestFilesWeighWhatTheyKeep(t *testing.T) {
	heavy := make([]any, 100_000)
	for i := range heavy {
		heavy[i] = map[string]any{}
	}
	for name, change := range map[string]func(p *a2a.Part){
		"objects":    func(p *a2a.Part) { p.SetMeta("x", heavy) },
		"a text":     func(p *a2a.Part) { p.SetMeta("x", strings.Repeat("x", 1<<20)) },
		"its own":    func(p *a2a.Part) { p.SetMeta("file_head", heavy) },
		"its own, 2": func(p *a2a.Part) { p.SetMeta("file_sha256", strings.Repeat("x", 1<<20)) },
		"its type":   func(p *a2a.Part) { p.MediaType = strings.Repeat("x", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			p := stored("big.pdf", "one")
			change(p)
			s.apply(brings(says("user", "m1", "look"), p), say("seen"))
			kept := s.conv.Turns[0].Files[0]
			b, err := json.Marshal(kept)
			if err != nil || len(b) > 4<<10 {
				t.Errorf("%d bytes are kept, %v", len(b), err)
			}
			if is, _, size, ok := transport.FileOf(kept); is != "big.pdf" || size != 5<<20 || !ok || !transport.IsFileRef(kept) || conversation.FileKey(kept) != "f1" {
				t.Errorf("%s has %d bytes, %v", is, size, ok)
			}
		})
	}
	weight := map[bool]int{}
	for _, nested := range []bool{false, true} {
		s := newScript(t)
		p := file("a.png", 1)
		p.SetMeta("note", "kept")
		want := map[string]any{"note": "kept", transport.MetaFile: "f1"}
		if nested {
			p.SetMeta("of", map[string]any{"page": 3.0})
			want["of"] = map[string]any{"page": 3.0}
		}
		s.apply(brings(says("user", "m1", "look"), p), say("seen"))
		if diff := cmp.Diff(want, s.conv.Turns[0].Files[0].Metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		weight[nested] = s.conv.Weight()
	}
	if more := weight[true] - weight[false]; more < 3<<10 {
		t.Errorf("an object weighs %d bytes", more)
	}
}

// keysTo returns the keys of the files that the last entry sends to an agent.
func (s *script) keysTo(agent string) string {
	return strings.Join(conversation.Keys(s.filesTo(transport.Inbox("", agent))), " ")
}

// TestFilesByKey checks that tasks get the files that their decision names, of any message and result still kept, or else the message's.
func TestFilesByKey(t *testing.T) {
	s := newScript(t)
	give := func(files ...string) *llm.Decision {
		d := gives("alpha")
		d.Delegations[0].Files = files
		return d
	}
	available := func(want string) {
		t.Helper()
		turn := s.conv.Turns[len(s.conv.Turns)-1]
		if got := strings.Join(conversation.Keys(s.conv.Files(turn, 0)), " "); got != want {
			t.Errorf("the files %s can be given, want %s", got, want)
		}
	}
	gets := func(what, want string) {
		t.Helper()
		if got := s.keysTo("alpha"); got != want {
			t.Errorf("%s: the agent gets %q, want %q", what, got, want)
		}
	}
	done := func(id string, files ...*a2a.Part) {
		t.Helper()
		s.apply(brings(reports("alpha", id, s.conv.Running()[0].ID, a2a.TaskStateCompleted, "here"), files...), say("done"))
	}
	text := &a2a.Part{Content: a2a.Raw("a,b\n1,2\n"), Filename: "t.csv"}
	foreign := stored("u.pdf", "1")
	foreign.SetMeta(transport.MetaFile, "f7") // a key set by a sender is ignored
	s.apply(brings(says("user", "m1", "take one"), text, foreign, file("v.png", 30)), give("f2"))
	gets("one by its key", "f2")
	done("r1", file("made.png", 40))
	available("f1 f2 f3 f4")

	s.apply(brings(says("user", "m2", "and the others"), file("w.png", 50)), give("f4", "f1", "f9", "f4"))
	gets("files of an earlier message and result", "f4 f1")
	done("r2")
	s.apply(brings(says("user", "m3", "this"), file("x.png", 50)), give())
	gets("that of the message, where nothing is said of files", "f6")
	done("r3")
	d := gives("alpha")
	d.Delegations[0].Files = []string{}
	s.apply(brings(says("user", "m4", "none"), file("y.png", 50)), d)
	gets("no file", "")
	available("f1 f2 f3 f4 f5 f6 f7")

	view := s.conv.View(s.conv.Turns[3], t0)
	if got := view.History[0].User; got != "take one" {
		t.Errorf("the prompt shows that the user said %q", got)
	}
	want := []prompt.File{{Key: "f1", Name: "t.csv", Type: "text/csv", Size: 8, Head: "a,b\n1,2\n"}, {Key: "f2", Name: "u.pdf", Type: "application/pdf", Size: 5 << 20}}
	if diff := cmp.Diff(want, view.History[0].Files[:2]); diff != "" {
		t.Errorf("the prompt shows of the first message (-want +got):\n%s", diff)
	}
	task := view.History[0].Steps[0].Tasks[0]
	if diff := cmp.Diff([]string{"f2"}, task.Along); diff != "" || len(task.Files) != 1 || task.Files[0].Key != "f4" {
		t.Errorf("the prompt shows the task %+v, which was given (-want +got):\n%s", task, diff)
	}
	if len(view.Files) != 1 || view.Files[0].Key != "f7" || view.Steps[0].Tasks[0].Along == nil {
		t.Errorf("the prompt shows of the last message %+v and %+v", view.Files, view.Steps)
	}

	before := s.conv.Effects(s.conv.Seq)
	b, err := s.conv.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if s.conv, err = conversation.ReadSnapshot(b); err != nil {
		t.Fatal(err)
	}
	s.conv.Version = conversation.Version(s.conv.Seq)
	if diff := cmp.Diff(before, s.conv.Effects(s.conv.Seq), cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
		t.Errorf("from the snapshot follows (-want +got):\n%s", diff)
	}
	done("r4", file("z.png", 512<<10))
	s.apply(says("user", "m5", "again"), nil)
	available("f2 f7 f8") // the bytes of older files were dropped
	if got := conversation.FileKey(s.conv.Turns[0].Files[0]); got != "f1" {
		t.Errorf("a file whose bytes are gone has the key %q, want f1", got)
	}
}

// TestFilesOfAYesByKey checks that a task that waits for a yes keeps the files that its decision names.
func TestFilesOfAYesByKey(t *testing.T) {
	s := newScript(t)
	d := gives("alpha")
	d.Delegations[0].Files = []string{"f2"}
	entry := &conversation.Entry{
		Version: 1, Seq: 1, Time: t0, Cause: brings(says("user", "m1", "this one"), file("a.txt", 5), file("b.txt", 5)), Turn: "t1", Decision: d,
		Consent: "Really?", Asked: t0, ReplyBy: t0.Add(1e12),
	}
	if err := s.conv.Apply(entry); err != nil {
		t.Fatal(err)
	}
	asked := s.conv.Held()[0]
	s.apply(&transport.Event{ID: s.deliveredID(), From: transport.Cortex, ContextID: "c1", Payload: &transport.Deadline{At: t0}}, nil)
	s.apply(brings(says("user:bob", "m3", "see"), file("large.txt", 512<<10)), say("seen")) // the bytes of the request's files are dropped for it
	d = gives("alpha")
	d.Delegations[0].ID, d.Delegations[0].Files = string(asked.ID), conversation.Keys(asked.Along)
	s.apply(says("user", "m2", "yes"), d)
	if got := s.filesTo(transport.Inbox("", "alpha")); len(got) != 1 || conversation.FileKey(got[0]) != "f2" || transport.IsForgotten(got[0]) {
		t.Errorf("the agent gets %v, want f2", got)
	}
}

// TestFilesAlone checks that the names of files are the text of a message that has no other.
func TestFilesAlone(t *testing.T) {
	s := newScript(t)
	e := brings(says("user", "m1", " "), file("a.png", 5), stored("b.pdf", "1"))
	s.apply(e, say("seen"))
	if got := s.conv.Turns[0].User; got != " \n[a.png]\n[b.pdf]" {
		t.Errorf("the user said %q", got)
	}
}

// TestFilesOfAnswersAtOnce has one cancellation answer two turns: both answers keep their files until another turn is answered.
func TestFilesOfAnswersAtOnce(t *testing.T) {
	s := newScript(t)
	for i, id := range []string{"m1", "m2"} {
		d := gives("alpha")
		d.Delegations = append(d.Delegations, llm.Delegation{ID: "2", Agent: "beta", Task: "do it"})
		s.apply(says("user", id, "do it"), d)
		running := s.conv.Running()
		s.apply(brings(reports("alpha", "r"+id, running[len(running)-2].ID, a2a.TaskStateCompleted, "here"), file("a.png", 400<<10+i)), nil)
	}
	canceled := s.apply(&transport.Event{ID: "x", From: "user", ContextID: "c1", Payload: &transport.Cancel{}}, nil).Seq
	got := s.filesTo(transport.Live("", "c1"))
	if len(got) != 2 || transport.IsForgotten(got[0]) || transport.IsForgotten(got[1]) {
		t.Errorf("the answers have the files %v, want both", got)
	}
	if s.conv.Trimmed(canceled) {
		t.Error("files are let go of that the last entry sends")
	}
	b, err := s.conv.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	old, err := conversation.ReadSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	s.apply(brings(says("user", "m3", "see"), file("b.png", 512<<10)), say("seen"))
	answers := func() (files []*a2a.Part) {
		for _, id := range []string{"m1", "m2"} {
			m, _ := s.conv.AnswerOf("user", id)
			files = append(files, transport.FilesOf(m.Parts)...)
		}
		return files
	}
	if !s.conv.Trimmed(canceled) || !transport.IsForgotten(answers()[0]) || !transport.IsForgotten(answers()[1]) {
		t.Errorf("another answer later there are the files %v, want none", answers())
	}
	undo := s.conv.Restore(old)
	if diff := cmp.Diff(got, answers()); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if undo(); !s.conv.Trimmed(canceled) {
		t.Error("what was restored stays")
	}
}
