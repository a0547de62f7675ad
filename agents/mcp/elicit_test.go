package mcp_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

// task is a task for a tool, with structured input when that is not nil.
func task(id, message, skill, words string, input map[string]any) *agents.Task {
	m := &a2a.Message{ID: message, Parts: a2a.ContentParts{a2a.NewTextPart(words)}}
	if input != nil {
		m.Parts = append(m.Parts, a2a.NewDataPart(input))
	}
	return &agents.Task{ID: a2a.TaskID(id), ContextID: "c", Skill: skill, Delivery: 1, Message: m}
}

// reply is what the user says to the question of a task.
func reply(id, message, words string) *agents.Task {
	t := task(id, message, "", words, nil)
	t.Message.Metadata = map[string]any{transport.MetaContinued: true}
	return t
}

// A server of the newest revision asks, and gets the answer, also when the agent was started anew in between.
func TestElicitation(t *testing.T) {
	for name, restarts := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, notes := t.TempDir(), filepath.Join(t.TempDir(), "notes")
			var a *mcp.Agent
			start := func() (end func()) {
				ctx, cancel := context.WithCancel(context.Background())
				var err error
				if a, err = mcp.Open(t.Context(), program(t, "NOTES="+notes), &mcp.Options{Dir: dir}); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() { ended <- a.Run(ctx) }()
				return func() {
					cancel()
					<-ended
					a.Close()
				}
			}
			end := start()
			step := func(task *agents.Task, want string) {
				t.Helper()
				for delivery := range 2 { // the same again, as when the answer to it was lost
					if restarts {
						end()
						end = start()
					}
					task.Delivery = delivery + 1
					got, err := do(t, a, task)
					if err != nil {
						got = "error: " + err.Error()
					}
					if !strings.HasPrefix(got, want) {
						t.Errorf("delivery %d: got %q, want %q", task.Delivery, got, want)
					}
				}
			}
			const question = "asks: What will it be? (asks the MCP server test)\nAnswer with a line such as `name: value` for each of:\nhot: yes or no. (may be left out)\nmeal: one of fish, soup. (needed)\nOr decline."
			step(task("1", "m1", "order", "", map[string]any{"table": 7}), question)
			unfit := reply("1", "m2", "pizza")
			if got, err := do(t, a, unfit); err != nil || !strings.HasPrefix(got, "asks: that does not answer it: want one of fish, soup.\nWhat will it be?") {
				t.Errorf("an answer that does not fit: %q, %v", got, err)
			}
			step(reply("1", "m3", "Soup"), "soup, hot true, for table 7")
			step(task("2", "m4", "order", "", map[string]any{"table": 8}), question)
			step(reply("2", "m5", "meal: fish\nhot: no"), "fish, hot false, for table 8")
			step(task("3", "m6", "order", "", map[string]any{"table": 9}), question)
			step(reply("3", "m7", "decline"), "nothing: decline")
			end()
			if b, err := os.ReadFile(notes); err != nil || string(b) != "soup\nfish\n" {
				t.Errorf("notes %q, %v, want each meal once", b, err)
			}
		})
	}
}

// An older server waits for the answer in its call: it gets it as long as it is the same, and the task is told when it is not.
func TestOldElicitation(t *testing.T) {
	for name, reach := range map[string]func(*testing.T) *mcp.Server{
		"program":  func(t *testing.T) *mcp.Server { return program(t, "REVISION=2025-06-18") },
		"stateful": func(t *testing.T) *mcp.Server { return address(t, "stateful") },
		"sse":      func(t *testing.T) *mcp.Server { return address(t, "sse") },
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, reach(t), t.TempDir(), nil)
			for i, id := range []string{"1", "2"} { // the first waits while the second is asked
				got, err := do(t, a, task(id, "m"+id, "order", "", map[string]any{"table": i}))
				if err != nil || !strings.HasPrefix(got, "asks: What will it be?") {
					t.Fatalf("got %q, %v", got, err)
				}
			}
			if got, err := do(t, a, task("3", "m3", "upper", "others go on", nil)); err != nil || got != "OTHERS GO ON" {
				t.Errorf("got %q, %v", got, err)
			}
			for id, want := range map[string]string{"2": "fish, hot true, for table 1", "1": "soup, hot true, for table 0"} {
				meal, _, _ := strings.Cut(want, ",")
				if got, err := do(t, a, reply(id, "r"+id, meal)); err != nil || got != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			}
		})
	}
	t.Run("it dies", func(t *testing.T) {
		a := open(t, program(t, "REVISION=2025-06-18"), t.TempDir(), nil)
		if got, err := do(t, a, task("1", "m1", "order", "", map[string]any{"table": 1})); err != nil || !strings.HasPrefix(got, "asks: ") {
			t.Fatalf("got %q, %v", got, err)
		}
		_, _ = do(t, a, task("2", "m2", "die", "now", nil))
		if got, err := do(t, a, reply("1", "r1", "soup")); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("got %q, %v, want that it is unknown", got, err)
		}
	})
	t.Run("it asks without end", func(t *testing.T) {
		a := open(t, program(t, "REVISION=2025-06-18"), t.TempDir(), nil)
		if got, err := do(t, a, task("1", "m1", "nag", "", nil)); err == nil || !strings.Contains(err.Error(), "it asks again and again what cannot be shown") {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := do(t, a, task("2", "m2", "upper", "x", nil)); err != nil || got != "X" {
			t.Errorf("behind it: %q, %v", got, err)
		}
	})
	t.Run("the agent is another one", func(t *testing.T) {
		a := open(t, program(t), t.TempDir(), nil)
		if got, err := do(t, a, reply("1", "r1", "soup")); err == nil || !strings.Contains(err.Error(), "ask again for all of it") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestUnreadableResult has a server answer one person by what the SDK does not read, while another is asked something: only the one call fails, in words.
func TestUnreadableResult(t *testing.T) {
	for name, reach := range map[string]func(*testing.T) *mcp.Server{
		"program": func(t *testing.T) *mcp.Server { return program(t, "REVISION=2025-06-18") },
		"stream":  func(t *testing.T) *mcp.Server { return address(t, "stateful") },
		"json":    func(t *testing.T) *mcp.Server { return address(t, "json") },
		"sse":     func(t *testing.T) *mcp.Server { return address(t, "sse") },
	} {
		t.Run(name, func(t *testing.T) {
			log := &safe{}
			a := open(t, reach(t), t.TempDir(), slog.New(slog.NewTextHandler(log, nil)))
			hears(t, a, task("1", "m1", "order", "", map[string]any{"table": 1}), "asks: What will it be?")
			for words, want := range map[string]string{"not a number": "is not JSON: what was asked of it may be done all the same", "too deep": "is nested too deep to be read"} {
				hears(t, a, task(words, "m2", "upper", words, nil), "error: ", want)
			}
			if strings.Contains(log.String(), "server was lost") {
				t.Fatalf("the log says:\n%s", log.String())
			}
			hears(t, a, task("3", "m3", "upper", "others go on", nil), "OTHERS GO ON")
			hears(t, a, reply("1", "r1", "fish"), "fish, hot true, for table 1")
		})
	}
}
