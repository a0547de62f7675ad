package logs

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogIsPaced lets one agent come and go endlessly, send events that are ignored, and leave its answers unread: a few lines of each kind are written and the rest is
// counted. Other lines are still written: another agent comes, a task is sent, and something fails.
func TestLogIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(slog.NewTextHandler(&log, nil))
		for i := range 20_000 {
			l.Info("agent instances", "agent_id", "evil", "instance", fmt.Sprint(i))
			l.With("tenant", "").Warn("two agents announce different cards", "agent_id", "evil", "instance", fmt.Sprint(i))
			l.Info("event ignored", "context_id", fmt.Sprint(i), "task_id", fmt.Sprint(i), "from", "evil", "why", "no such task")
			l.Warn("answer dropped: it cannot be published", "context_id", fmt.Sprint(i), "to", "evil", "err", "the inbox is full")
		}
		l.Info("agent instances", "agent_id", "good", "instance", "1")
		for i := range 50 {
			l.Info("task sent", "context_id", "c", "task_id", fmt.Sprint(i), "agent", "good")
			l.Error("handler panicked", "context_id", "c", "from", "evil")
			l.Warn("nats server", "text", "it is slow")
		}
		for kind, want := range map[string]int{
			`msg="agent instances" agent_id=evil`: maxEach, `msg="agent instances" agent_id=good`: 1, `msg="two agents`: maxEach, `msg="event ignored"`: maxEach, `msg="answer dropped`: maxEach,
			`msg="task sent"`: 50, `msg="handler panicked"`: 50, `msg="nats server"`: 50, `left_out`: 0,
		} {
			if got := strings.Count(log.String(), kind); got != want {
				t.Errorf("%d lines with %s, want %d", got, kind, want)
			}
		}
		log.Reset()
		time.Sleep(window)
		l.Info("something else")
		l.Info("agent instances", "agent_id", "evil", "instance", "again")
		for _, want := range []string{
			`level=INFO msg="there were more lines of a kind than are written" kind="agent instances" left_out=19990 most_from=evil in=10s`,
			`level=WARN msg="there were more lines of a kind than are written" kind="two agents announce different cards" left_out=19990 most_from=evil`,
			`kind="event ignored" left_out=19990`, "instance=again",
		} {
			if got := strings.Count(log.String(), want); got != 1 {
				t.Errorf("%q is there %d times, want once:\n%s", want, got, &log)
			}
		}
	})
}

// TestLogOfCrowds checks that many names cause neither many lines nor much memory use.
func TestLogOfCrowds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newPaced(slog.NewTextHandler(&log, nil))
		l := slog.New(h)
		for i := range 20_000 {
			l.Info("agent registered", "agent_id", fmt.Sprint("evil-", i))
		}
		if got := strings.Count(log.String(), "\n"); got != maxAll {
			t.Errorf("%d lines, want %d", got, maxAll)
		}
		if got := len(h.pace.windows["agent registered"].by); got > maxAll {
			t.Errorf("%d names are remembered", got)
		}
		time.Sleep(window)
		l.Info("x")
		if !strings.Contains(log.String(), "left_out=19800") {
			t.Errorf("it is not told: %s", log.Bytes()[max(0, log.Len()-300):])
		}
		if len(h.pace.windows) > 0 {
			t.Errorf("%d windows are kept", len(h.pace.windows))
		}
	})
}
