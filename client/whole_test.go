package client_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// twoSteps has one agent work on the result of another.
type twoSteps struct{}

func (twoSteps) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		return &llm.Decision{Kind: llm.KindRespond, Say: "done"}, nil
	}
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{
		{ID: "1", Agent: "first", Skill: "echo", Task: "do"}, {ID: "2", Agent: "second", Skill: "echo", Task: "do", DependsOn: []string{"1"}},
	}}, nil
}

// TestFilesAreWhole has files, a small and a large one, go from a person to an agent, from there to the next one and into the answer, within one
// process. They are erased with their conversation.
func TestFilesAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		var list []prompt.Agent
		for _, id := range []string{"first", "second"} {
			card, _, _ := agents.Lookup("echo")
			card.Name = id
			list = append(list, prompt.Agent{ID: id, Card: card})
			copies := func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
				for _, f := range task.Files() {
					r, err := f.Open(ctx)
					if err == nil {
						err = task.AddFile(ctx, id+" "+f.Name, f.Type, r)
					}
					if err != nil {
						return nil, err
					}
				}
				return nil, nil
			}
			go agents.Serve(t.Context(), bus, card, agents.Handler(copies), nil) //nolint:errcheck // it ends with the test
		}
		orch, err := cortex.New(cortex.Config{Transport: bus, Store: store, Decider: twoSteps{}, Agents: func(string) []prompt.Agent { return list }})
		if err != nil {
			t.Fatal(err)
		}
		go orch.Run(t.Context()) //nolint:errcheck // it ends with the test
		synctest.Wait()

		dir, c := t.TempDir(), &client.Client{Transport: bus}
		files := map[string][]byte{"small.csv": []byte("a,b"), "large.png": bytes.Repeat([]byte("large"), 1<<20)}
		m := client.Text("c1", "work on these")
		for name, b := range files {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := client.Attach(t.Context(), c, "c1", path, 0)
			if err != nil {
				t.Fatal(err)
			}
			m.Parts = append(m.Parts, p)
		}
		var answer *a2a.Message
		for e, err := range c.Ask(t.Context(), m) {
			if err != nil {
				t.Fatal(err)
			}
			if is, ok := e.Payload.(*a2a.Message); ok {
				answer = is
			}
		}
		got := transport.FilesOf(answer.Parts)
		for _, p := range got {
			b, err := transport.ReadPart(t.Context(), bus, "", p, 1<<30)
			if want := files[p.Filename[len(p.Filename)-len("small.csv"):]]; err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s is %d bytes, %v, want %d", p.Filename, len(b), err, len(want))
			}
		}
		if len(got) != 2+4 { // of the first agent, and of the second, which also got the person's
			t.Errorf("the answer has %d files, want 6", len(got))
		}
		if _, err := erase.Conversation(t.Context(), store, bus, "", "c1"); err != nil {
			t.Fatal(err)
		}
		gone := 0
		for _, p := range got {
			if _, err := transport.ReadPart(t.Context(), bus, "", p, 1<<30); errors.Is(err, transport.ErrFileGone) {
				gone++
			}
		}
		if gone != 3 {
			t.Errorf("%d of the large files are gone with their conversation, want all 3", gone)
		}
	})
}
