package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestLargeConversationsInUse has one person speak in many conversations whose open turns are large, all at the same time, also just after a start, which
// has to read all of them. Few are in use at a time; other conversations, of that person and of others, do not wait for them.
func TestLargeConversationsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string // the last word of what is being decided for an hour
		model := decideFunc(func(ctx context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			word := turn.User[strings.LastIndex(turn.User, " ")+1:]
			mu.Lock()
			asked = append(asked, word)
			mu.Unlock()
			select {
			case <-time.After(time.Hour):
				return respond("done"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		w := newWorld(t, model)
		cfg := cortex.Config{Decider: model, Authenticated: true, DecideTimeout: 2 * time.Hour, TaskTimeout: 20 * time.Hour}
		w.restart(cfg)
		publish := func(person, conversation string, e *transport.Event) {
			e.From, e.ContextID = "user:"+person, conversation
			w.publish(e)
		}
		say := func(person, conversation, id, text string) { publish(person, conversation, userEvent(id, text)) }
		// decided returns what is decided since it was called last.
		decided := func() []string {
			mu.Lock()
			defer mu.Unlock()
			now := slices.Sorted(slices.Values(asked))
			asked = nil
			return now
		}
		large := strings.Repeat("large ", 160_000)
		open := func(person string, conversations int) {
			for i := range conversations {
				for turn := range 7 {
					publish(person, fmt.Sprint(person, i), directEvent(t, fmt.Sprint("m", turn), large, transport.Direct{Agent: "alpha"}))
				}
			}
		}
		open("mallory", 4)
		open("ada", 1)
		for start := range 2 {
			if start > 0 {
				w.restart(cfg)
			}
			for i := range 4 {
				say("mallory", fmt.Sprint("mallory", i), fmt.Sprint("next", start), "large")
			}
			say("mallory", "small", fmt.Sprint("next", start), "small")
			say("ada", "ada0", fmt.Sprint("next", start), "ada's")
			if got, want := decided(), []string{"ada's", "large", "large", "small"}; !slices.Equal(got, want) {
				t.Errorf("at the start %d, %q are decided at a time, want %q", start, got, want)
			}
			pass(time.Hour)
			if got := decided(); len(got) != 2 {
				t.Errorf("an hour later, %q are decided, want the other two", got)
			}
			pass(2 * time.Hour)
		}
		for _, letter := range w.deadLetters() {
			t.Error(letter)
		}
	})
}

