package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestAskInterrupted interrupts a question whose agent never comes: the exit status shows that, and there is no output that looks like an answer.
func TestAskInterrupted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "wk.json")
	if err := os.WriteFile(file, []byte(`[{"agentName": "research", "description": "Researches a topic", "version": "1"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CORTEX_WELL_KNOWN", file)
	for _, form := range []string{"--verbose", "--json"} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout, stderr, code := new(output), new(output), make(chan int, 1)
		go func() {
			args := []string{"ask", form, "--data", dir, "research a topic: tea"}
			code <- cli.Run(ctx, args, strings.NewReader(""), stdout, stderr)
		}()
		eventually(t, "the task is given", func() bool { return strings.Contains(stdout.String()+stderr.String(), "research") })
		cancel()
		if got := <-code; got != 130 {
			t.Errorf("ask %s, interrupted: exit status %d, want 130; stderr:\n%s", form, got, stderr)
		}
		if form == "--verbose" && stdout.String() != "" {
			t.Errorf("ask, interrupted, writes %q on standard output", stdout)
		}
	}
}

// TestAskJSON checks that each event of a turn is a line: the message, the delegations with their reasons, the results, and the answer; and that the
// last line has the summary for scripts.
func TestAskJSON(t *testing.T) {
	var stdout, stderr output
	if code := cli.Run(t.Context(), []string{"ask", "--data", t.TempDir(), "--json", "Echo this!"}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	var kinds []string
	last := ""
	for line := range strings.Lines(stdout.String()) {
		var e struct {
			From, Kind string
			Payload    struct {
				Metadata map[string]any
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Kind == "delta" {
			continue
		}
		if e.Kind == "" {
			last = line
			continue
		}
		kinds = append(kinds, e.From+" "+e.Kind)
		if reason, _ := e.Payload.Metadata["reason"].(string); e.Kind == "task" && reason == "" {
			t.Errorf("the delegation says no reason: %s", line)
		}
	}
	if got, want := strings.Join(kinds, ", "), "user message, cortex task, cortex status-update, cortex message"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	var got struct {
		Answer, Conversation, Turn, Decision string
		Files                                []any
		Failed                               bool
	}
	d := json.NewDecoder(strings.NewReader(last))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || got.Answer != "Echo: Echo this!" || got.Conversation == "" || got.Turn == "" || got.Decision != "respond" || got.Files == nil || got.Failed {
		t.Errorf("the last line is %s, %v; want the answer", last, err)
	}
	if !strings.HasSuffix(stdout.String(), last) {
		t.Errorf("the answer is not in the last line: %s", &stdout)
	}
}

// TestOutcomeOfDecisions holds that clients know by their words the kinds of decisions that are no answers.
func TestOutcomeOfDecisions(t *testing.T) {
	for _, kind := range llm.Kinds() {
		want := map[llm.Kind]error{llm.KindClarify: repl.ErrAsks, llm.KindRefuse: repl.ErrRefused}[kind]
		if got := repl.Outcome(&a2a.Message{Metadata: map[string]any{transport.MetaDecision: string(kind)}}); !errors.Is(got, want) {
			t.Errorf("an answer of kind %s is %v, want %v", kind, got, want)
		}
		failed := &a2a.Message{Metadata: map[string]any{transport.MetaDecision: string(kind), transport.MetaFailed: true}}
		if got := repl.Outcome(failed); !errors.Is(got, repl.ErrFailed) {
			t.Errorf("a failure of kind %s is %v, want a failure", kind, got)
		}
	}
}
