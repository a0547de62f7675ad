package torture

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
)

// Agent runs an instance of the n-th agent of the plan in folder until ctx ends. name is that of the instance, and of the file to which it writes the
// tasks that it begins. Agent processes of a run execute it.
func Agent(ctx context.Context, folder string, n int, name string, log *slog.Logger) error {
	plan, err := readPlan(folder)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, name+runsSuffix), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	bus, err := dial(ctx, plan.URL, name, log)
	if err != nil {
		return err
	}
	defer bus.Close()
	id := agentName(n)
	w := worker{id: id, pace: n == plan.Agents-1, runs: f}
	card := &a2a.AgentCard{
		Name: id, Version: "1.0.0", Description: "Works for the torture",
		Skills: []a2a.AgentSkill{{ID: "sum", Name: "Sum", Description: "Makes a sum of a token"}},
	}
	return agents.Serve(ctx, bus, card, agents.Handler(w.do), &agents.Options{Concurrency: 64, Grace: time.Second, Logger: log})
}

// runsSuffix is the suffix of the files in which agents record the tasks that they begin.
const runsSuffix = ".runs"

// worker is the handler of an agent.
type worker struct {
	id   string
	pace bool // it delays everything

	mu   sync.Mutex
	runs *os.File
}

// do answers a text as the plan expects.
func (w *worker) do(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	verb, token, _ := strings.Cut(t.Text(), " ")
	if err := w.note(string(t.ID), token); err != nil {
		return nil, err
	}
	if w.pace || verb == "slowly" {
		select {
		case <-time.After(delay(token)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	switch verb {
	case "sum", "slowly":
		return agents.Text(sum(w.id, token)), nil
	case "inquire":
		return agents.InputRequired(question(token, string(t.ID))), nil
	case "reply":
		return agents.Text(reply(w.id, token, string(t.ID))), nil
	}
	return nil, fmt.Errorf("nobody says %.100q to %s", t.Text(), w.id)
}

// note records that a task begins.
func (w *worker) note(task, token string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.runs.WriteString(task + " " + token + "\n")
	return err
}

// delay returns the duration of slow work, from 50 to 250 ms.
func delay(token string) time.Duration {
	var n byte
	for i := range len(token) {
		n = n*31 + token[i]
	}
	return 50*time.Millisecond + time.Duration(n%201)*time.Millisecond
}

// tasksRun counts the tasks that agents began, and those that they began more than once.
func tasksRun(folder string) (tasks, twice int, err error) {
	files, err := fs.Glob(os.DirFS(folder), "*"+runsSuffix) // a pattern within the folder, whose name may have special characters
	if err != nil {
		return 0, 0, err
	}
	begun := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(folder, f))
		if err != nil {
			return 0, 0, err
		}
		for line := range strings.Lines(string(b)) {
			begun[line]++
		}
	}
	for _, n := range begun {
		if n > 1 {
			twice++
		}
	}
	return len(begun), twice, nil
}
