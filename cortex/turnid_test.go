package cortex_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// named gives a message to the agent that it begins with, as "alpha: do this", and repeats any other message.
var named = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) > 0 {
		return respond("got " + results(t))
	}
	name, text, ok := strings.Cut(t.User, ": ")
	if !ok {
		return respond("you said " + t.User)
	}
	return delegate(llm.Delegation{ID: "1", Agent: name, Skill: "skill", Task: text})
})

// TestSameIDFromAnother has a person and an agent use the id of an unanswered message, the id of its
// turn, and the id of an earlier message: each begins a turn of its own with an answer of its own, and the first sender gets the answer to
// their own message.
func TestSameIDFromAnother(t *testing.T) {
	for _, stranger := range []string{"user:bob", "gamma"} {
		t.Run(stranger, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, named)
				w.say("m1", "alpha: slowly")
				ids := []string{"m1", turnOf("m1")}
				for _, e := range w.watched() {
					if task, ok := e.Payload.(*a2a.Task); ok {
						ids = append(ids, transport.MetaString(task, transport.MetaTurn))
					}
				}
				for i, id := range ids {
					w.sayAs(stranger, id, "mine "+string(rune('a'+i)))
				}
				w.finish("alpha", w.onlyTask("alpha"), "A")
				conv := w.load()
				if m, ok := conv.AnswerOf("user", "m1"); !ok || transport.Text(m.Parts) != "got alpha COMPLETED A; " {
					t.Errorf("the first asker's answer is %v", m)
				}
				if m, ok := conv.AnswerOf(stranger, "m1"); !ok || transport.Text(m.Parts) != "you said mine a" {
					t.Errorf("the stranger's answer is %v", m)
				}
				answered := map[string]string{}
				for _, e := range w.watched() {
					if m, ok := e.Payload.(*a2a.Message); ok {
						turn := transport.MetaString(m, transport.MetaTurn)
						if before, twice := answered[turn]; twice {
							t.Errorf("turn %s is answered with %q and with %q", turn, before, transport.Text(m.Parts))
						}
						answered[turn] = transport.Text(m.Parts)
						want := transport.TurnID("", theContext, transport.MetaString(m, transport.MetaRequester), transport.MetaString(m, transport.MetaMessage))
						if turn != want {
							t.Errorf("turn %s is that of %v", turn, m.Metadata)
						}
					}
				}
				if len(answered) != 3 { // the third id is that of the turn: a repeated event
					t.Errorf("%d turns are answered, want 3: %v", len(answered), answered)
				}
				if answered[turnOf("m1")] != "got alpha COMPLETED A; " {
					t.Errorf("shown as the answer to the first asker: %q", answered[turnOf("m1")])
				}
				w.wantFold()
			})
		})
	}
}

// TestCancelOfTheSameID checks that a sender who has used the same id cancels their own turn, and not the other one's.
func TestCancelOfTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, named)
		w.say("m1", "alpha: slowly")
		w.sayAs("user:bob", "m1", "beta: slowly")
		w.publish(&transport.Event{
			ID: "x", From: "user:bob", ContextID: theContext, Payload: &transport.Cancel{Turn: transport.TurnID("", theContext, "user:bob", "m1")},
		})
		conv := w.load()
		if !conv.Open("user", "m1") || conv.Open("user:bob", "m1") {
			t.Errorf("open: the user's %t, bob's %t, want the user's alone", conv.Open("user", "m1"), conv.Open("user:bob", "m1"))
		}
	})
}

// oldLog is a log in which turns have the ids of their messages, as an older build wrote it. m1 to m3 are answered; alpha works for m4,
// gamma for alpha's request m5, and beta for m6 of user:ada.
func oldLog(t *testing.T, s storage.Store) {
	t.Helper()
	b, err := os.ReadFile("testdata/log_by_message.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var after conversation.Version
	for line := range bytes.Lines(b) {
		var e conversation.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if after, err = s.Append(t.Context(), "", theContext, after, &e); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := os.ReadFile("testdata/log_by_message.snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(storage.Snapshots).PutSnapshot(t.Context(), "", theContext, after, snapshot); err != nil {
		t.Fatal(err)
	}
}

// TestOldLogGoesOn upgrades in the middle of turns: these keep their ids, and new ones have ids of the new kind.
func TestOldLogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, named)
		w.stop()
		oldLog(t, w.store)
		w.start(cortex.Config{Decider: named})
		w.say("m7", "alpha: new")
		w.sayAs("user:ada", "m4", "not the user's")
		running := map[string]a2a.TaskID{}
		for _, task := range w.load().Running() {
			running[task.Turn] = task.ID
		}
		for turn, agent := range map[string]string{"m4": "alpha", "m5": "gamma", turnOf("m7"): "alpha"} {
			if running[turn] == "" {
				t.Fatalf("%s does not work for turn %s: %v", agent, turn, running)
			}
			w.finish(agent, running[turn], "done for "+turn)
		}
		w.publish(cancelEvent("x", &transport.Cancel{Turn: "m6"}))
		conv := w.load()
		if conv.Owner != "user" {
			t.Errorf("it belongs to %q, want who began it", conv.Owner)
		}
		for _, want := range [][3]string{
			{"user", "m1", "you said hello"},
			{"user", "m2", "Canceled."},
			{"user", "m3", "got alpha COMPLETED A; "},
			{"user", "m4", "got alpha COMPLETED done for m4; "},
			{"alpha", "m5", "got gamma COMPLETED done for m5; "},
			{"user:ada", "m6", "Canceled."},
			{"user", "m7", "got alpha COMPLETED done for " + turnOf("m7") + "; "},
			{"user:ada", "m4", "you said not the user's"},
		} {
			if m, ok := conv.AnswerOf(want[0], want[1]); !ok || transport.Text(m.Parts) != want[2] {
				t.Errorf("the answer to %s of %s is %v, want %q", want[1], want[0], m, want[2])
			}
		}
		w.wantFold()
	})
}
