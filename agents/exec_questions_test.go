package agents

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestQuestionsHaveRoom fills the folder of questions, whose texts are those of others, with files without content: the oldest make room.
func TestQuestionsHaveRoom(t *testing.T) {
	dir := t.TempDir()
	const each = 64 << 20
	for i := range 2 * questionBytes / each {
		path := (&taskfile.Folder{Dir: dir}).Path("", "context", a2a.TaskID(fmt.Sprint(i)))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, each)); err != nil {
			t.Fatal(err)
		}
	}
	openQuestions(dir, func(string) {})
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
		q := openQuestions(dir, func(string) {})
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
	if all, err := openQuestions(dir, func(string) {}).read(task); err != nil || len(all) != 1 {
		t.Errorf("the question of the other one: %v, %v", all, err)
	}
}

// TestReplyWithoutQuestion has a reply come whose question is not kept here: the program gets it without state and history, and the log says so, once.
func TestReplyWithoutQuestion(t *testing.T) {
	for dir, want := range map[string]int{t.TempDir(): 1, "": 0} { // without a folder nothing is kept at all
		said := 0
		q := openQuestions(dir, func(string) { said++ })
		task := &Task{ID: "1", ContextID: "c", Message: a2a.NewMessage(a2a.MessageRoleUser)}
		task.Message.Metadata = map[string]any{transport.MetaContinued: true}
		given := &jsonl.Task{}
		if err := q.replied(task, given); err != nil || !given.Reply || given.State != nil {
			t.Errorf("the program gets %+v, %v", given, err)
		}
		if err := q.asked(task, given, &jsonl.Line{Text: new("when?")}); err != nil {
			t.Error(err)
		}
		if err := q.replied(task, given); err != nil {
			t.Error(err)
		}
		if said != want {
			t.Errorf("in %q, it is said %d times, want %d", dir, said, want)
		}
	}
}
