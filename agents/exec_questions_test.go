package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
