package persona_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// TestRecordNotWritten has an agent whose records cannot be written any more, as on a full disk. An answer is passed on all the same; a task that cannot
// go on says what it has done.
func TestRecordNotWritten(t *testing.T) {
	for name, test := range map[string]struct {
		last string // reply of the model, when nothing more can be written
		want []string
	}{
		"at the answer": {answer("noted"), []string{"completed: ", "noted"}},
		"at a call": {
			call("mcp__notes__append", `{"text":"twice"}`),
			[]string{"failed: ", "what is asked cannot be kept", "What was done before: mcp__notes__append (1)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, notes := withServers(t)
			o.Dir = t.TempDir()
			o.Model = llm.NewAsker(llmtest.Script(
				llmtest.Text(call("mcp__notes__append", `{"text":"once"}`)),
				llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer {
					dir := filepath.Join(o.Dir, "helper", "tasks")
					if err := os.Rename(dir, dir+".old"); err != nil {
						t.Error(err)
					}
					if err := os.WriteFile(dir, nil, 0o600); err != nil { // a folder cannot be made here
						t.Error(err)
					}
					return llmtest.Text(test.last)
				}),
			), nil)
			w := open(t, "", o)
			got := w.do(task("note it"))
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("the task is %q, want %q", got, want)
				}
			}
			if b, _ := os.ReadFile(notes); string(b) != "once\n" {
				t.Errorf("notes are %q", b)
			}
		})
	}
}
