package cortex_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// silent is a store that does not say in time that it has stored the first entry of each turn's end: with late, it stores it when the next attempt comes.
type silent struct {
	storage.Store
	storage.SpendLog
	late bool

	mu   sync.Mutex
	held map[string]func() error // entries to store, by turn; nil: it is stored
}

var errSilent = errors.New("no answer in time")

func (s *silent) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, again := s.held[e.Turn]
	if !again {
		copied := *e
		store := func() error {
			_, err := s.Store.Append(context.WithoutCancel(ctx), tenant, contextID, after, &copied)
			return err
		}
		if !s.late {
			if err := store(); err != nil {
				return 0, err
			}
			store = nil
		}
		s.held[e.Turn] = store
		return 0, errSilent
	}
	if held != nil {
		s.held[e.Turn] = nil
		if err := held(); err != nil {
			return 0, err
		}
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// ends notes the turns that it is told have ended.
type ends struct {
	mu    sync.Mutex
	turns []string
}

func (n *ends) Appended(conv *conversation.Conversation, e *conversation.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, turn := range conv.Turns {
		if turn.AnswerSeq == e.Seq {
			n.turns = append(n.turns, turn.ID)
		}
	}
}

// TestStoredWithoutAWord: observers are told once of a turn whose end the store has taken without an answer in time.
func TestStoredWithoutAWord(t *testing.T) {
	for name, late := range map[string]bool{"before it comes again": false, "while it is stored again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, answering)
				w.stop()
				n := &ends{}
				w.start(cortex.Config{
					Decider: answering, Observers: []cortex.Observer{n},
					Store: &silent{Store: w.store, SpendLog: w.store.(storage.SpendLog), late: late, held: map[string]func() error{}},
				})
				for _, m := range []string{"m1", "m2"} {
					w.say(m, "a")
					pass(2 * time.Minute)
				}
				w.wantAnswer("m1", "heard a")
				w.wantAnswer("m2", "heard a")
				n.mu.Lock()
				defer n.mu.Unlock()
				want := []string{w.load().Turns[0].ID, w.load().Turns[1].ID}
				if !slices.Equal(n.turns, want) {
					t.Errorf("the turns %q were told to have ended, want %q", n.turns, want)
				}
			})
		})
	}
}
