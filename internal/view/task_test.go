package view_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// failing is a store that fails to load a conversation with the error of its name.
type failing struct {
	storage.Store
	with map[string]error
}

func (s failing) Load(_ context.Context, _, contextID string, _ conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		if err := s.with[contextID]; err != nil {
			yield(nil, err)
		}
	}
}

// TestWholeIsReadOn reads tasks of a conversation that is damaged by now, and of one that was erased: the others are read all the same. A store that is away
// ends it.
func TestWholeIsReadOn(t *testing.T) {
	away := errors.New("away")
	r := &view.Reader{Store: failing{with: map[string]error{"damaged": conversation.ErrDamaged, "away": away}}}
	n, last := 0, error(nil)
	for _, err := range view.Whole(t.Context(), r, []view.Task{{ContextID: "damaged"}, {ContextID: "erased"}, {ContextID: "away"}, {ContextID: "erased"}}) {
		n, last = n+1, err
	}
	if n != 1 || !errors.Is(last, away) {
		t.Errorf("%d values came, the last with %v, want the error of the store that is away alone", n, last)
	}
}

// counting is a store in which each conversation has twenty tasks, which counts how often one is read.
type counting struct {
	storage.Store
	loads *int
}

func (s counting) Load(_ context.Context, _, contextID string, _ conversation.Version) iter.Seq2[*conversation.Entry, error] {
	*s.loads++
	return func(yield func(*conversation.Entry, error) bool) {
		d := &llm.Decision{Kind: llm.KindDelegate}
		for i := range 20 {
			d.Delegations = append(d.Delegations, llm.Delegation{ID: fmt.Sprint(i), Agent: "worker", Task: fmt.Sprint("do ", i)})
		}
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("go"))
		yield(&conversation.Entry{Version: 1, Seq: 1, Time: time.Unix(1, 0), Life: "l", Turn: "t", Cause: &transport.Event{ID: "e", From: "user", ContextID: contextID, Payload: m}, Decision: d}, nil)
	}
}

// TestWholeReadsOnce reads tasks of ten conversations that take turns: each is read once.
func TestWholeReadsOnce(t *testing.T) {
	loads := 0
	r := &view.Reader{Store: counting{loads: &loads}}
	const n = 10
	brief := make([]view.Task, 20*n)
	for i := range n {
		contextID := fmt.Sprint("c", i)
		conv, err := storage.Load(t.Context(), r.Store, "", contextID)
		if err != nil {
			t.Fatal(err)
		}
		for j, task := range view.Remembered(conv) {
			brief[j*n+i] = task
			brief[j*n+i].Text = ""
		}
	}
	loads = 0
	i := 0
	for task, err := range view.Whole(t.Context(), r, brief) {
		if err != nil || task.ContextID != brief[i].ContextID || task.TaskID != brief[i].TaskID || task.Text == "" {
			t.Fatalf("task %d is %v, %v, want %v", i, task, err, brief[i])
		}
		i++
	}
	if i != len(brief) || loads != n {
		t.Errorf("%d of %d tasks with %d readings, want %d", i, len(brief), loads, n)
	}
}
