package bench

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/transport"
)

// soakTime is long enough for a deadline to pass while everything else goes on.
const soakTime = 4 * time.Second

func TestSoak(t *testing.T) {
	folder := temporary(t)
	var lines []SoakLine
	var told atomic.Int64
	sum, figures, err := Soak(t.Context(), SoakConfig{
		For: soakTime, Line: func(l SoakLine) { lines = append(lines, l) }, Progress: func(string, int, int) { told.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != soakLines || told.Load() < soakLines {
		t.Errorf("%d lines, told %d times, want %d lines", len(lines), told.Load(), soakLines)
	}
	for i, l := range lines {
		if l.Case != "soak" || l.Heap <= 0 || l.Goroutines <= 0 || l.Conversations <= 0 || l.Lost+l.Dup != 0 {
			t.Errorf("line %d = %+v", i+1, l)
		}
		if i > 0 && (l.Seconds <= lines[i-1].Seconds || l.Turns < lines[i-1].Turns) {
			t.Errorf("line %d = %+v is not behind %+v", i+1, l, lines[i-1])
		}
	}
	if l := lines[len(lines)-1]; l.Entries == 0 || l.Log <= 0 { // the first one may come before anything is stored
		t.Errorf("the last line = %+v, want what is stored", l)
	}
	for what, n := range map[string]int{
		"turns": sum.Turns, "conversations": sum.Conversations, "erased": sum.Erased, "canceled": sum.Canceled, "late": sum.Late,
		"retries": sum.Retries, "agents": sum.Agents, "cards": sum.Cards,
	} {
		if n <= 0 {
			t.Errorf("no %s in %+v", what, sum)
		}
	}
	if sum.Lost+sum.Dup != 0 {
		t.Errorf("%+v, want nothing lost or twice", sum)
	}
	want := []string{"heap_growth", "heap_slope", "goroutines_growth", "goroutines_slope", "rss_growth", "rss_slope"}
	var got []string
	for _, f := range figures {
		got = append(got, f.Case)
		if f.Asked() || strings.HasSuffix(f.Case, "_slope") && !strings.HasSuffix(f.What, " (too short to judge)") {
			t.Errorf("%+v of a short run", f)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	empty(t, folder)
}

// TestSoakCountsWhatIsLost loses a message, and shows answers twice.
func TestSoakCountsWhatIsLost(t *testing.T) {
	temporary(t)
	sum, _, err := Soak(t.Context(), SoakConfig{
		For: soakTime / 4, wait: soakTime / 2,
		userBus: broken(func(_ transport.Topic, e *transport.Event) []*transport.Event {
			if e.ID == "new-1-1-1" {
				return nil
			}
			return []*transport.Event{e}
		}),
		cortexBus: broken(func(t transport.Topic, e *transport.Event) []*transport.Event {
			if isAnswer(t, e) && e.ContextID == "new-2-1" {
				return []*transport.Event{e, e}
			}
			return []*transport.Event{e}
		}),
	})
	if err != nil || sum.Lost == 0 || sum.Dup == 0 {
		t.Errorf("Soak = %+v, %v, want what was lost and what came twice", sum, err)
	}
}

// TestInterruptedSoak tells what it has found until then.
func TestInterruptedSoak(t *testing.T) {
	folder := temporary(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	sum, _, err := Soak(ctx, SoakConfig{For: soakTime, Line: func(SoakLine) { cancel(why) }})
	if !errors.Is(err, why) || sum.Turns == 0 {
		t.Errorf("Soak = %+v, %v, want what there is and %v", sum, err, why)
	}
	empty(t, folder)
}

func TestSoakVerdict(t *testing.T) {
	var lines []SoakLine
	for i := range 30 { // 100 MB that grow by 1 MB a minute; what is before the second third does not count
		lines = append(lines, SoakLine{Seconds: float64(60 * (i + 1)), Heap: 100 + float64(max(0, i-10)), RSS: 200, Goroutines: 400 - i/20})
	}
	lines[0].Heap = 10_000
	want := []Figure{
		{Case: "heap_growth", What: "heap after a collection, last third to second", Value: 9.57, Unit: "%", Least: soakHeap, Less: true},
		{Case: "heap_slope", What: "the same, in an hour", Value: 60, Unit: "MB"},
		{Case: "goroutines_growth", What: "goroutines, last third to second", Value: -0.25, Unit: "%", Least: soakRoutines, Less: true},
		{Case: "goroutines_slope", What: "the same, in an hour", Value: -6, Unit: ""},
		{Case: "rss_growth", What: "memory of the process (RSS), last third to second", Unit: "%", Less: true},
		{Case: "rss_slope", What: "the same, in an hour", Unit: "MB"},
	}
	if diff := cmp.Diff(want, verdict(lines), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
	for _, f := range verdict(lines[:9]) {
		if f.Asked() || strings.HasSuffix(f.Case, "_slope") && !strings.HasSuffix(f.What, " (too short to judge)") {
			t.Errorf("%+v of a short run", f)
		}
	}
	if got := verdict(lines[:2]); got != nil {
		t.Errorf("verdict of two lines = %+v", got)
	}
}

// TestUserCancels has a user cancel what would take an hour.
func TestUserCancels(t *testing.T) {
	n, err := startNode(t.Context(), nodeConfig{dir: t.TempDir(), workers: 1, decider: slow{fake.New(nil), time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	u, err := n.newUser("regret", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.say(t.Context(), saying{to: n.agents, any: true, cancel: 50 * time.Millisecond}); err != nil {
		t.Errorf("say = %v, want the answer that it was canceled", err)
	}
}
