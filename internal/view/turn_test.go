package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestWeightOfEntries: what turns know of each entry of a long log weighs, although few turns are kept.
func TestWeightOfEntries(t *testing.T) {
	turns := view.NewTurns("", "c", view.Keep{Turns: 1})
	for seq := range uint64(2000) {
		id := fmt.Sprint("m", seq)
		e := &conversation.Entry{
			Seq: seq + 1, Time: time.Unix(int64(seq), 0), Turn: id, //nolint:gosec // few
			Cause: &transport.Event{ID: id, From: "user", ContextID: "c", Payload: &a2a.Message{
				ID: id, ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")},
			}},
			Decision: &llm.Decision{Kind: llm.KindRespond, Say: "hi"},
		}
		if _, err := turns.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if own := turns.Weight() - turns.Conversation.Weight(); len(turns.List) != 1 || own < 2000*48 {
		t.Errorf("%d turns of 2000 entries weigh %d bytes beside the conversation", len(turns.List), own)
	}
}

// TestKeepOfFiles has turns with files, of which pages keep what they show, and the weight is counted: of files in messages, of results and answers, and of
// what evaluators advise.
func TestKeepOfFiles(t *testing.T) {
	const size = 100_000
	file := func() *a2a.Part {
		return &a2a.Part{Content: a2a.Raw(make([]byte, size)), Filename: strings.Repeat("n", size) + ".png", MediaType: "image/png", Metadata: map[string]any{"x": "y"}}
	}
	fold := func(keep view.Keep) *view.Turns {
		turns := view.NewTurns("", "c", keep)
		seq := uint64(0)
		add := func(e *conversation.Entry) {
			t.Helper()
			seq++
			e.Seq, e.Time, e.Cause.ContextID = seq, time.Unix(int64(seq), 0), "c" //nolint:gosec // few
			if _, err := turns.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			id := fmt.Sprint("m", i)
			turn := transport.TurnID("", "c", "user", id)
			add(&conversation.Entry{Turn: turn, Cause: &transport.Event{ID: id, From: "user", Payload: &a2a.Message{
				ID: id, ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi"), file()},
			}}, Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "alpha", Task: "do it"}}}})
			task := turns.Conversation.Running()[0].ID
			add(&conversation.Entry{Turn: turn, Cause: &transport.Event{ID: "r" + id, From: "alpha", Payload: &a2a.Task{
				ID: task, ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}, Artifacts: []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{file()}}},
			}}, Decision: &llm.Decision{Kind: llm.KindRespond, Say: "done"}, Verdicts: []evaluate.Verdict{{Evaluator: "tone", Advice: strings.Repeat("v", size)}}})
		}
		return turns
	}
	own := func(ts *view.Turns) int { return ts.Weight() - ts.Conversation.Weight() }
	whole := fold(view.Keep{})
	if n := own(whole); len(whole.List) != 5 || len(whole.List[0].Tasks) != 1 || n < 5*7*size {
		t.Errorf("%d turns with all that is in them weigh %d", len(whole.List), n)
	}
	if some := fold(view.Keep{All: 15 * size}); len(some.List) != 2 || some.Earlier != 3 || own(some) > 15*size {
		t.Errorf("%d turns are kept, which weigh %d", len(some.List), own(some))
	}
	cut := fold(view.Keep{Text: 1000})
	if n := own(cut); len(cut.List) != 5 || n > 5*10_000 {
		t.Errorf("%d turns without the bytes of files weigh %d", len(cut.List), n)
	}
	files := func(turn *view.Turn) [][]*a2a.Part {
		return [][]*a2a.Part{turn.Files, turn.Tasks[0].Files, turn.Answer.Files}
	}
	for i, of := range files(cut.List[0]) {
		was := files(whole.List[0])[i]
		if len(of) != 1 || len(was) != 1 {
			t.Fatalf("%d files are kept of %d", len(of), len(was))
		}
		name, kind, n, ok := transport.FileOf(of[0])
		if len(name) > transport.MaxFileName || !strings.HasSuffix(name, ".png") || kind != "image/png" || n != size || !ok || transport.IsForgotten(of[0]) ||
			conversation.FileKey(of[0]) == "" || conversation.FileKey(of[0]) != conversation.FileKey(was[0]) || len(was[0].Raw()) != size {
			t.Errorf("file %d is %s, %s, %d bytes, with the key %s", i, name, kind, n, conversation.FileKey(of[0]))
		}
	}
}
