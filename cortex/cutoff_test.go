package cortex_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// shortening is a store that can lose the end of a log.
type shortening struct{ *memstore.Store }

// cut loses all but the first entries.
func (s *shortening) cut(t *testing.T, keep int) {
	t.Helper()
	last := memstore.New()
	var v conversation.Version
	for _, e := range entries(t, s)[:keep] {
		var err error
		if v, err = last.Append(t.Context(), "", theContext, v, e); err != nil {
			t.Fatal(err)
		}
	}
	s.Store = last
}

// TestCutOff takes the end of a log, or all of it, from a running orchestrator, which notices at the next event: whoever waits is told, it is said aloud,
// and the conversation goes on from what is left. Nothing is said of a log that was deleted.
func TestCutOff(t *testing.T) {
	decider := simple(func(t *llm.Turn) *llm.Decision {
		switch {
		case t.User != "go":
			return respond("heard " + t.User)
		case len(t.Steps) > 0:
			return respond(results(t))
		}
		return delegate(toAlpha)
	})
	events := map[string]struct {
		waits string // the turn that waits when the log is cut
		event func(w *world)
		told  int // how many wait
	}{
		"a result":           {"go", func(w *world) { w.finish("alpha", w.onlyTask("alpha"), "A") }, 1},
		"a message":          {"go", func(w *world) { w.say("m2", "more") }, 2},
		"a message and idle": {"idle", func(w *world) { w.say("m2", "more") }, 1},
		"a needless result":  {"idle", func(w *world) { w.finish("alpha", "t0", "A") }, 0},
	}
	for name, test := range events {
		for keep, lost := range []string{"everything", "the end"} {
			for _, deleted := range []bool{false, true} {
				if deleted && keep > 0 {
					continue
				}
				if deleted {
					lost = "deleted"
				}
				t.Run(name+"/"+lost, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorldOf(t, agentIDs)
						s := &shortening{w.store.(*memstore.Store)}
						var log bytes.Buffer
						w.start(cortex.Config{Decider: decider, Store: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
						w.say("m0", "first")
						w.say("m1", test.waits)
						before := len(w.liveAnswers())
						s.cut(t, keep)
						if deleted {
							if err := storage.KeepErased(t.Context(), s, "", theContext); err != nil {
								t.Fatal(err)
							}
						}
						test.event(w)
						told := 0
						for _, text := range w.liveAnswers()[before:] {
							if strings.Contains(text, "lost its end") {
								told++
							}
						}
						trouble := strings.Join(w.orch.Trouble(), "\n")
						if deleted {
							if told != 0 || trouble != "" || strings.Contains(log.String(), "level=ERROR") {
								t.Errorf("%d are told, trouble %q, log:\n%s", told, trouble, &log)
							}
							return
						}
						if told != test.told {
							t.Errorf("%d are told, want %d: %q", told, test.told, w.liveAnswers()[before:])
						}
						if !strings.Contains(trouble, "lost their ends 1 times") || strings.Count(log.String(), "level=ERROR") != 1 {
							t.Errorf("trouble %q, log:\n%s", trouble, &log)
						}
						dead := 0
						for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
							if err != nil || !strings.Contains(d.Reason, conversation.ErrDamaged.Error()) || strings.Contains(d.Reason, "/new") {
								t.Errorf("a dead letter says %q, %v", d.Reason, err)
							}
							dead++
						}
						if dead != 1 {
							t.Errorf("%d dead letters, want that of the event", dead)
						}
						w.say("m3", "later")
						if got := w.liveAnswers(); got[len(got)-1] != "heard later" {
							t.Errorf("it goes on with %q", got)
						}
					})
				})
			}
		}
	}
}
