package cortex_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// awayStore cannot list its conversations.
type awayStore struct{ storage.Store }

func (awayStore) Contexts(context.Context, string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		yield(storage.ContextInfo{}, fmt.Errorf("%w: no answer", transport.ErrUnavailable))
	}
}

// TestInheritedUnread begins an orchestrator on a store that does not tell which tasks run, of one conversation or of all: that is a warning, once for an
// hour, and stays among the troubles.
func TestInheritedUnread(t *testing.T) {
	for name, c := range map[string]struct {
		store func(storage.Store) storage.Store
		want  string
	}{
		"one is damaged":  {func(s storage.Store) storage.Store { return damagedStore{s, theContext} }, "conversations that cannot be read: 1, such as " + theContext},
		"none are listed": {func(s storage.Store) storage.Store { return awayStore{s} }, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := once(toAlpha)
				w := newWorld(t, d)
				w.say("m1", "go")
				pass(time.Minute)
				if lines := w.orch.Trouble(); len(lines) > 0 {
					t.Errorf("before: %q", lines)
				}
				var log bytes.Buffer
				w.restart(cortex.Config{Decider: d, Store: c.store(w.store), Logger: slog.New(slog.NewTextHandler(&log, nil))})
				pass(30 * time.Minute)
				if lines := w.orch.Trouble(); !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, c.want) }) {
					t.Errorf("Trouble() = %q, want one with %q", lines, c.want)
				}
				if n := strings.Count(log.String(), `level=WARN msg="running tasks`); n != 1 {
					t.Errorf("%d warnings, want one:\n%s", n, log.String())
				}
			})
		})
	}
}
