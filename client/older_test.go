package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// oneStep has the agent do it.
type oneStep struct{}

func (oneStep) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		return &llm.Decision{Kind: llm.KindRespond, Say: "done"}, nil
	}
	return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "echo", Skill: "echo", Task: t.User}}}, nil
}

// illegible is a store whose second reading fails.
type illegible struct {
	storage.Store
	err   error
	loads int
}

func (s *illegible) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	if s.loads++; s.loads == 2 {
		return func(yield func(*conversation.Entry, error) bool) { yield(nil, s.err) }
	}
	return s.Store.Load(ctx, tenant, contextID, after)
}

// lengthy is a store in which each second reading takes longer than anybody waits.
type lengthy struct {
	*memstore.Store
	loads atomic.Int32
}

func (s *lengthy) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	if s.loads.Add(1)%2 == 0 {
		return func(yield func(*conversation.Entry, error) bool) {
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}
	return s.Store.Load(ctx, tenant, contextID, after)
}

// TestOlderAnswersHaveTheirFiles reads answers again after the conversation has dropped the bytes of their files: they are read from the log,
// also when the same answer is requested twice. When the log is permanently unreadable, or takes too long to read, the answer comes without them, and says so.
func TestOlderAnswersHaveTheirFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		card, _, _ := agents.Lookup("echo")
		card.Name = "echo"
		plot := func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			r := &agents.Result{}
			for i := range 4 {
				r.Parts = append(r.Parts, &a2a.Part{Content: a2a.Raw(bytes.Repeat([]byte(task.Text()), 120<<10)), Filename: fmt.Sprint(i, ".png")})
			}
			return r, nil
		}
		go agents.Serve(t.Context(), bus, card, agents.Handler(plot), nil) //nolint:errcheck // it ends with the test
		orch, err := cortex.New(cortex.Config{
			Transport: bus, Store: store, Decider: oneStep{}, Agents: func(string) []prompt.Agent { return []prompt.Agent{{ID: "echo", Card: card}} },
		})
		if err != nil {
			t.Fatal(err)
		}
		go orch.Run(t.Context()) //nolint:errcheck // it ends with the test
		synctest.Wait()

		c := &client.Client{Transport: bus, Log: client.ReadLog(store, "")}
		var turns []client.Turn
		for _, text := range []string{"a", "b", "c"} {
			m := client.Text("c1", text)
			m.ID = "m-" + text
			turn, err := c.Send(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Answer(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			turns = append(turns, turn)
		}
		conv, err := storage.Load(t.Context(), store, "", "c1")
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := conv.AnswerOf("user", "m-a"); !ok || !transport.IsForgotten(transport.FilesOf(m.Parts)[0]) {
			t.Fatalf("the fold has the files of %v: there is nothing to be read", m)
		}
		for i, turn := range append(turns, turns[0]) {
			m, err := c.Answer(t.Context(), turn)
			if err != nil {
				t.Fatal(err)
			}
			files := transport.FilesOf(m.Parts)
			if len(files) != 4 || transport.MetaString(m, transport.MetaMessage) != turn.MessageID {
				t.Errorf("answer %d is %v with %d files", i, m.Metadata, len(files))
			}
			for _, p := range files {
				want := bytes.Repeat([]byte(turn.MessageID[2:]), 120<<10)
				if b, err := transport.ReadPart(t.Context(), bus, "", p, 1<<20); err != nil || !bytes.Equal(b, want) {
					t.Errorf("%s of answer %d is %d bytes, %v", p.Filename, i, len(b), err)
				}
			}
		}
		c.Log = client.ReadLog(&lengthy{Store: store}, "")
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if m, err := c.Answer(ctx, turns[0]); err != nil || !transport.IsForgotten(transport.FilesOf(m.Parts)[0]) || !strings.Contains(transport.Text(m.Parts), "cannot be read now") {
			t.Errorf("a log that takes long to read: %v, %v", m, err)
		}
		for err, want := range map[error]error{conversation.ErrDamaged: nil, context.DeadlineExceeded: nil, transport.ErrUnavailable: transport.ErrUnavailable} {
			m, ok, got := client.ReadLog(&illegible{Store: store, err: err}, "")(t.Context(), turns[0])
			if !errors.Is(got, want) || ok != (want == nil) || ok && (!transport.IsForgotten(transport.FilesOf(m.Parts)[0]) || !strings.Contains(transport.Text(m.Parts), "The files of this answer")) {
				t.Errorf("a log that cannot be read (%v): %v, %v, %v", err, m, ok, got)
			}
		}
	})
}
