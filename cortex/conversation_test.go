package cortex_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// writeLog writes turns that delegate to alpha and are answered, and returns the store.
func writeLog(tb testing.TB, turns int, text string) *memstore.Store {
	tb.Helper()
	store, version, seq := memstore.New(), conversation.Version(0), uint64(0)
	conv := conversation.NewConversation("", theContext)
	add := func(e *conversation.Entry) {
		seq++
		e.Seq, e.Time = seq, t0.Add(time.Duration(seq)*time.Second)
		var err error
		if version, err = store.Append(tb.Context(), "", theContext, version, e); err != nil {
			tb.Fatal(err)
		}
		e.Version = version
		if err := conv.Apply(e); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range turns {
		id := fmt.Sprintf("m%d", i)
		add(&conversation.Entry{
			Cause: userEvent(id, text), Turn: id, Deadline: t0.Add(time.Hour),
			Decision: delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: text}),
		})
		task := conv.Running()[0].ID
		add(&conversation.Entry{Cause: resultEvent("r"+id, "alpha", task, a2a.TaskStateCompleted, text), Turn: id, Decision: respond("done " + id)})
	}
	return store
}

// TestSnapshotIsTheFold loads conversations from a snapshot with later entries, and from the whole log: they must not differ, now
// or later.
func TestSnapshotIsTheFold(t *testing.T) {
	for _, turns := range []int{17, 31, 32, 33, 70, 1100} {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			store := writeLog(t, turns, "text")
			whole, err := storage.Load(t.Context(), noSnapshots{store}, "", theContext)
			if err != nil {
				t.Fatal(err)
			}
			middle := conversation.NewConversation("", theContext)
			n := 0
			for e, err := range store.Load(t.Context(), "", theContext, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if err := middle.Apply(e); err != nil {
					t.Fatal(err)
				}
				if n++; n == turns {
					break
				}
			}
			if err := storage.PutSnapshot(t.Context(), store, middle); err != nil {
				t.Fatal(err)
			}
			counted := &countingLoads{Store: store}
			resumed, err := storage.Load(t.Context(), counted, "", theContext)
			if err != nil {
				t.Fatal(err)
			}
			if counted.entries != 33+turns { // the first ones show that the log is long
				t.Errorf("%d entries loaded, want 33, and only the %d after the snapshot", counted.entries, turns)
			}
			if diff := cmp.Diff(whole, resumed, cmpopts.IgnoreUnexported(conversation.Conversation{}, conversation.Turn{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("from the whole log (-), from the snapshot (+):\n%s", diff)
			}
			if diff := cmp.Diff(preview(whole, "next"), preview(resumed, "next"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("prompt of the whole log (-), of the snapshot (+):\n%s", diff)
			}
			if _, ok := resumed.SeenEntry(userEvent(fmt.Sprintf("m%d", turns-1), "")); !ok {
				t.Error("the last message is not recognised")
			}
		})
	}
}

// noSnapshots is a store without snapshots.
type noSnapshots struct{ storage.Store }

// countingLoads counts the entries that are loaded.
type countingLoads struct {
	*memstore.Store
	entries int
}

func (s *countingLoads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			s.entries++
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestWindow checks that the history in prompts is bounded, and that between two cuts it only grows at its end.
func TestWindow(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		most int // turns
	}{{"many turns", "text", 64}, {"long turns", strings.Repeat("x", 20<<10), 20}} {
		t.Run(test.name, func(t *testing.T) {
			conv := conversation.NewConversation("", theContext)
			before, cuts := preview(conv, ""), 0
			for e, err := range writeLog(t, 200, test.text).Load(t.Context(), "", theContext, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if err := conv.Apply(e); err != nil {
					t.Fatal(err)
				}
				now := preview(conv, "")
				if n := len(conv.TaskList()); n > 1 {
					t.Fatalf("%d tasks are kept, want only that of the last turn", n)
				}
				if len(now.History) > test.most {
					t.Fatalf("%d turns in the history, want at most %d", len(now.History), test.most)
				}
				if now.Omitted != before.Omitted {
					cuts++
				} else if !reflect.DeepEqual(before.History, now.History[:len(before.History):len(before.History)]) && len(before.History) > 0 {
					t.Fatal("the history changed at its beginning")
				}
				before = now
			}
			if before.Omitted+len(before.History) != 200 {
				t.Errorf("%d omitted + %d shown, want 200", before.Omitted, len(before.History))
			}
			if conv.Begun != 200 {
				t.Errorf("%d turns are counted, want 200", conv.Begun)
			}
			if cuts == 0 || cuts > 600/test.most {
				t.Errorf("the beginning changed %d times in 200 turns", cuts)
			}
		})
	}
}

func TestApplyRefusesAGap(t *testing.T) {
	conv := conversation.NewConversation("", theContext)
	err := conv.Apply(&conversation.Entry{Seq: 2, Cause: userEvent("m1", "x")})
	if err == nil || !strings.Contains(err.Error(), "entry 2 follows entry 0") {
		t.Errorf("Apply(entry 2 first) = %v", err)
	}
}

// TestOutputsRepeat checks that the effects of an entry are the same each time, also in another process.
func TestOutputsRepeat(t *testing.T) {
	for _, turns := range []int{1, 5} {
		store := writeLog(t, turns, "text")
		seen := map[string]bool{}
		for seq := uint64(1); seq <= uint64(2*turns); seq++ {
			var outs [2][]conversation.Effect
			for i := range outs {
				conv := conversation.NewConversation("", theContext)
				for e, err := range store.Load(t.Context(), "", theContext, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if err := conv.Apply(e); err != nil {
						t.Fatal(err)
					}
					if e.Seq == seq {
						break
					}
				}
				outs[i] = conv.Effects(seq)
			}
			if diff := cmp.Diff(outs[0], outs[1], cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
				t.Errorf("outputs of entry %d differ:\n%s", seq, diff)
			}
			for _, o := range outs[0] {
				if seen[o.Event.ID] {
					t.Errorf("entry %d: event id %s is used twice", seq, o.Event.ID)
				}
				seen[o.Event.ID] = true
				if err := o.Event.Validate(o.Topic); err != nil {
					t.Errorf("entry %d sends what no transport takes: %v", seq, err)
				}
				if o.Topic.Kind == transport.KindInbox && o.Event.To != o.Topic.ID {
					t.Errorf("entry %d: event to %q in the inbox of %q", seq, o.Event.To, o.Topic.ID)
				}
			}
		}
	}
}

// TestSnapshotOfAnotherBuild checks that a snapshot of another form is not used.
func TestSnapshotOfAnotherBuild(t *testing.T) {
	store := writeLog(t, 20, "text")
	conv, err := storage.Load(t.Context(), store, "", theContext)
	if err != nil {
		t.Fatal(err)
	}
	conv.Omitted = 99
	b, err := conv.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte(","))
	for form, want := range map[string]int{`{"form":11,`: 99, `{"form":10,`: 0} {
		other := append([]byte(form), rest...)
		if err := store.PutSnapshot(t.Context(), "", theContext, conv.Version, other); err != nil {
			t.Fatal(err)
		}
		if loaded, err := storage.Load(t.Context(), store, "", theContext); err != nil || loaded.Omitted != want {
			t.Errorf("from a snapshot that begins with %s: %d omitted, %v, want %d", form, loaded.Omitted, err, want)
		}
	}
}

// TestHistoryTellsWhatWasDone checks that the history shows the kind of each answer, and the dependencies of tasks.
func TestHistoryTellsWhatWasDone(t *testing.T) {
	conv := conversation.NewConversation("", theContext)
	for i, e := range []*conversation.Entry{
		{Cause: userEvent("m0", "which?"), Turn: "m0", Decision: &llm.Decision{Kind: llm.KindClarify, Say: "that?"}},
		{Cause: userEvent("m1", "both"), Turn: "m1", Decision: delegate(
			llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b", DependsOn: []string{"1"}},
		)},
	} {
		e.Seq = uint64(i + 1)
		if err := conv.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	task := conv.Running()[0].ID
	e := &conversation.Entry{Seq: 3, Cause: resultEvent("r1", "alpha", task, a2a.TaskStateFailed, "no"), Turn: "m1", Decision: respond("sorry")}
	if err := conv.Apply(e); err != nil {
		t.Fatal(err)
	}
	past := preview(conv, "next").History
	if past[0].Kind != "clarify" || past[1].Kind != "respond" {
		t.Errorf("the answers are of kind %q and %q, want clarify and respond", past[0].Kind, past[1].Kind)
	}
	if diff := cmp.Diff([]a2a.TaskID{task}, past[1].Steps[0].Tasks[1].DependsOn); diff != "" {
		t.Errorf("what the second task needed (-want +got):\n%s", diff)
	}
}
