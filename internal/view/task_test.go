package view_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
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
