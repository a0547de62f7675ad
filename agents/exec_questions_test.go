package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestQuestionsHaveRoom fills the folder of questions, whose texts are those of others, with files without content: the oldest make room.
func TestQuestionsHaveRoom(t *testing.T) {
	dir := t.TempDir()
	const each = 64 << 20
	for i := range 2 * questionBytes / each {
		path := filepath.Join(dir, fmt.Sprintf("%d.json", i))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, each)); err != nil {
			t.Fatal(err)
		}
	}
	openQuestions(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != questionBytes/each {
		t.Errorf("%d questions of %d bytes are left, want %d: %v", len(left), each, questionBytes/each, err)
	}
}

// TestQuestionsOfOthersStay has somebody ask until the folder of questions is full: the question that waits longest is another one's, and stays, also for
// a program that was started again.
func TestQuestionsOfOthersStay(t *testing.T) {
	dir := t.TempDir()
	ask := func(from, contextID string) *Task {
		t.Helper()
		q := openQuestions(dir)
		q.files.Most = 5
		task := &Task{ID: "1", ContextID: contextID, Message: a2a.NewMessage(a2a.MessageRoleUser)}
		task.Message.Metadata = map[string]any{transport.MetaRequester: from}
		if err := q.asked(task, &jsonl.Task{Text: "book"}, &jsonl.Line{Text: new("when?")}); err != nil {
			t.Fatal(err)
		}
		if err := q.files.Sweep(time.Now()); err != nil {
			t.Fatal(err)
		}
		return task
	}
	task := ask("ada", "c")
	for n := range 8 {
		ask("mallory", fmt.Sprint(n))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 5 {
		t.Errorf("%d questions are left: %v", len(left), err)
	}
	task.Message = a2a.NewMessage(a2a.MessageRoleUser)
	task.Message.Metadata = map[string]any{transport.MetaRequester: "ada", transport.MetaContinued: true}
	if all, err := openQuestions(dir).read(task); err != nil || len(all) != 1 {
		t.Errorf("the question of the other one: %v, %v", all, err)
	}
}
