package cortex_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// asks is a decider that gives a message to the agents named at its beginning, "alpha beta: …", and answers with their results.
func asks(t *llm.Turn) *llm.Decision {
	if len(t.Steps) > 0 {
		return respond(results(t))
	}
	names, _, ok := strings.Cut(t.User, ":")
	if !ok {
		return respond("well")
	}
	var ds []llm.Delegation
	for i, name := range strings.Fields(names) {
		ds = append(ds, llm.Delegation{ID: fmt.Sprint(i), Agent: name, Skill: "skill", Task: "the task of " + name})
	}
	return delegate(ds...)
}

func learning(t *testing.T, cfg cortex.Config) *world {
	w := newWorld(t, simple(asks))
	w.diligent = true
	w.stop()
	w.restartLearning(cfg)
	return w
}

func (w *world) restartLearning(cfg cortex.Config) {
	cfg.Decider, cfg.Router = simple(asks), router.New(nil)
	w.start(cfg)
	synctest.Wait()
}

// tell is say at a time of its own.
func (w *world) tell(id, text string) {
	w.t.Helper()
	pass(time.Second)
	w.say(id, text)
}

// learned returns the evidence in the store: the texts for each agent.
func (w *world) learned() map[string][]string {
	w.t.Helper()
	got := map[string][]string{}
	for n, err := range w.store.(storage.Notes).Notes(w.t.Context(), "", storage.NoteEvidence) {
		if err != nil {
			w.t.Fatal(err)
		}
		var all []router.Evidence
		if err := json.Unmarshal(n.Value, &all); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range all {
			if e.ID == "" || e.Skill != "skill" || e.From == "" || e.Time.IsZero() {
				w.t.Errorf("evidence %+v: want it whole", e)
			}
			got[n.Key] = append(got[n.Key], e.Text)
		}
	}
	return got
}

// wantLearned checks the evidence when all that was gathered is written.
func (w *world) wantLearned(want map[string][]string) {
	w.t.Helper()
	pass(time.Second)
	if d := cmp.Diff(want, w.learned()); d != "" {
		w.t.Errorf("what was learned differs (-want +got):\n%s", d)
	}
}

func TestLearning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := learning(t, cortex.Config{})
		w.tell("m1", "alpha: the first thing")
		w.wantLearned(map[string][]string{"alpha": {"alpha: the first thing"}})
		w.tell("m2", "alpha: go") // too short for evidence
		w.tell("m3", "alpha beta: two things at once")
		w.wantLearned(map[string][]string{
			"alpha": {"alpha: the first thing", "the task of alpha", "the task of alpha"}, "beta": {"the task of beta"},
		})
		w.tell("m3", "alpha beta: two things at once") // a repeated event
		w.tell("m4", "nothing for anybody here")
		w.wantLearned(map[string][]string{
			"alpha": {"alpha: the first thing", "the task of alpha", "the task of alpha"}, "beta": {"the task of beta"},
		})
	})
}

// TestCorrected checks that what the user takes back teaches nothing.
func TestCorrected(t *testing.T) {
	for said, corrects := range map[string]bool{
		"No, that was for beta": true, "that's wrong": true, "I meant the other one": true, "NO!": true, "not that, please": true,
		"thanks a lot for that": false, "no problem, and now the next": false, "now something else": false, "nothing more": false,
		"beta: the first thing": true, "beta: quite different words now": false, "alpha: the first thing": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := learning(t, cortex.Config{})
			w.tell("m1", "alpha: the first thing")
			w.tell("m2", said)
			pass(time.Second)
			if got := !cmp.Equal(w.learned()["alpha"][:min(1, len(w.learned()["alpha"]))], []string{"alpha: the first thing"}); got != corrects {
				t.Errorf("after %q, what was learned before is taken back: %v, want %v", said, got, corrects)
			}
		})
	}
}

// TestAgentsCannotPraise checks that only the user's own words count for tasks given after an agent has spoken.
func TestAgentsCannotPraise(t *testing.T) {
	for said, want := range map[string]map[string][]string{
		"alpha: the first thing": {"alpha": {"the task of alpha"}}, // two tasks: the text for beta is from alpha
		"gamma: the first thing": {"beta": {"gamma: the first thing"}},
		"gamma: go":              {},
	} {
		t.Run(said, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				obeys := simple(func(t *llm.Turn) *llm.Decision {
					if len(t.Steps) == 1 {
						return delegate(llm.Delegation{ID: "1", Agent: "beta", Skill: "skill", Task: t.Steps[0].Tasks[0].Result})
					}
					return asks(t)
				})
				w := newWorld(t, obeys)
				w.restart(cortex.Config{Decider: obeys, Router: router.New(nil)})
				w.tell("m1", said)
				for _, e := range w.tasksOf("alpha") {
					w.finish("alpha", e.TaskID, "beta pays")
				}
				for _, e := range w.tasksOf("gamma") {
					w.publish(resultEvent("r", "gamma", e.TaskID, a2a.TaskStateFailed, "beta pays"))
				}
				w.finish("beta", w.onlyTask("beta"), "done")
				w.wantLearned(want)
			})
		})
	}
}

// TestLearnedFromTheFirstWords checks that a turn that replies to a question teaches with the words of the first request.
func TestLearnedFromTheFirstWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 && len(t.Waiting) > 0 {
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Skill: "skill", Task: t.User})
			}
			return asks(t)
		})
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Router: router.New(nil), Policy: rules(t, "rules: [{agents: [beta], confirm: true}]")})
		w.tell("m1", "alpha: book me a table")
		id := w.onlyTask("alpha")
		w.publish(resultEvent("q", "alpha", id, a2a.TaskStateInputRequired, "when?"))
		w.tell("m2", "tomorrow in the evening please")
		w.finish("alpha", id, "done")
		w.tell("m3", "beta: book me a room")
		w.tell("m4", "yes")
		w.finish("beta", w.onlyTask("beta"), "done")
		w.wantLearned(map[string][]string{"alpha": {"alpha: book me a table"}, "beta": {"beta: book me a room"}})
	})
}

// TestUnlearned lists what is no evidence.
func TestUnlearned(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"failed": func(w *world) {
			w.diligent = false
			w.tell("m", "alpha: the first thing")
			w.publish(resultEvent("r", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "could not"))
		},
		"canceled": func(w *world) {
			w.diligent = false
			w.tell("m", "alpha: the first thing")
			w.publish(&transport.Event{ID: "x", From: "user", ContextID: theContext, Payload: &transport.Cancel{}})
		},
		"canceled half-way": func(w *world) {
			w.diligent = false
			w.tell("m", "alpha beta: two things")
			w.finish("alpha", w.onlyTask("alpha"), "done")
			w.publish(&transport.Event{ID: "x", From: "user", ContextID: theContext, Payload: &transport.Cancel{}})
		},
		"another agent asked": func(w *world) {
			w.diligent = false
			e := userEvent("m", "alpha: the first thing")
			e.From = "gamma"
			e.Payload.(*a2a.Message).Metadata = map[string]any{transport.MetaAgentID: "gamma"}
			w.publish(e)
			w.finish("alpha", w.onlyTask("alpha"), "done")
		},
		"switched off": func(w *world) {
			w.stop()
			w.restartLearning(cortex.Config{NoLearning: true})
			w.tell("m", "alpha: the first thing")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := learning(t, cortex.Config{})
				do(w)
				w.wantLearned(map[string][]string{})
			})
		})
	}
}

// TestForgotten checks that a deleted note stays deleted, although a running orchestrator had learned from it.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := learning(t, cortex.Config{})
		w.tell("m1", "alpha: the first thing")
		w.wantLearned(map[string][]string{"alpha": {"alpha: the first thing"}})
		if err := w.store.(*memstore.Store).DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
			t.Fatal(err)
		}
		w.tell("m2", "alpha: the second thing")
		w.wantLearned(map[string][]string{"alpha": {"alpha: the second thing"}})
		w.stop()
		w.restartLearning(cortex.Config{})
		w.tell("m3", "alpha: the third thing")
		w.wantLearned(map[string][]string{"alpha": {"alpha: the second thing", "alpha: the third thing"}})
	})
}

// TestForgottenAtOnce checks that the router forgets a deleted note at once.
func TestForgottenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(asks))
		w.diligent = true
		w.stop()
		index := router.New(nil)
		for _, a := range offered("") {
			index.Put(a.ID, a.Card)
		}
		w.start(cortex.Config{Decider: simple(asks), Router: index})
		score := func() float64 {
			for _, h := range index.Search("walk the elephants", nil) {
				if h.ID == "alpha" {
					return h.Score
				}
			}
			return 0
		}
		before := score()
		w.tell("m1", "alpha: walk the elephants")
		synctest.Wait()
		if got := score(); got <= before {
			t.Errorf("score after it was done = %v, want more than %v", got, before)
		}
		if err := w.store.(*memstore.Store).DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
			t.Fatal(err)
		}
		forget := &transport.Event{ID: "f", Time: time.Now(), From: "user", Payload: &transport.Forget{AgentID: "alpha"}}
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), forget); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := score(); got != before {
			t.Errorf("score after it was forgotten = %v, want %v as in the beginning", got, before)
		}
	})
}

// TestLearningIsBounded checks that an agent's evidence is bounded, and that the newest counts.
func TestLearningIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := learning(t, cortex.Config{})
		for i := range 140 {
			w.tell(fmt.Sprint("m", i), fmt.Sprintf("alpha: thing number %d %s", i, strings.Repeat("x", 1000)))
		}
		pass(16 * time.Second) // a few texts beside many wait for more
		got := w.learned()["alpha"]
		if len(got) != 64 || !strings.HasPrefix(got[63], "alpha: thing number 139 ") || len(got[0]) > 310 {
			t.Errorf("learned %d texts, the last %.40q, want 64 short ones up to number 139", len(got), got[len(got)-1])
		}
	})
}

// TestLearningKeepsEachSkill checks that evidence of a frequent skill does not displace that of another from the note,
// however long the texts are, nor that of older notes, which name no skill; and that the router learns all of it.
func TestLearningKeepsEachSkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(asks))
		w.diligent = true
		w.stop()
		asked := "one"
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond("done")
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: asked, Task: "what the user wants"})
		})
		card := &a2a.AgentCard{Name: "alpha"}
		for _, id := range strings.Fields("one two three four five six") {
			card.Skills = append(card.Skills, a2a.AgentSkill{ID: id, Name: "Skill"})
		}
		index := router.New(nil)
		index.Put("alpha", card)
		old := fmt.Sprintf(`[{"id":"old","text":"water old tulips","from":"ann","time":%q}]`, time.Now().Format(time.RFC3339))
		if _, err := w.store.(storage.Notes).PutNote(t.Context(), "", storage.NoteEvidence, storage.Note{Key: "alpha", Value: []byte(old)}); err != nil {
			t.Fatal(err)
		}
		w.start(cortex.Config{Decider: d, Router: index, Agents: func(string) []prompt.Agent { return []prompt.Agent{{ID: "alpha", Seen: true, Card: card}} }})
		synctest.Wait()
		w.tell("first", "walk three elephants")
		for _, asked = range strings.Fields("two three four five six") {
			for i := range 70 {
				pass(time.Second)
				w.sayAs("user:"+strings.Repeat("<", 250), fmt.Sprint(asked, i), fmt.Sprintf("thing number %d of %s %s", i, asked, strings.Repeat("<", 300)))
			}
		}
		pass(time.Second)
		n, err := w.store.(storage.Notes).Note(t.Context(), "", storage.NoteEvidence, "alpha")
		if err != nil {
			t.Fatal(err)
		}
		var all []router.Evidence
		if err := json.Unmarshal(n.Value, &all); err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, e := range all {
			got[e.Skill]++
		}
		for _, id := range strings.Fields("two three four five six") {
			if got[id] < 8 {
				t.Errorf("learned %v, want some of each skill", got)
			}
		}
		if got[""] != 1 || got["one"] != 1 {
			t.Errorf("learned %v, want one of no skill and one of skill one", got)
		}
		for text, skill := range map[string]string{"walk elephants": "one", "water tulips": ""} {
			hits := index.Search(text, nil)
			if len(hits) == 0 || (skill != "" && hits[0].Skills[0] != skill) {
				t.Errorf("Search(%q) = %+v, want alpha for skill %q", text, hits, skill)
			}
		}
	})
}

// TestLearningGoesOn checks that texts which are long as JSON do not end the learning about an agent.
func TestLearningGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := learning(t, cortex.Config{})
		for i := range 140 {
			pass(time.Second)
			w.sayAs("user:"+strings.Repeat("<", 250), fmt.Sprint("m", i), fmt.Sprintf("alpha: thing number %d %s", i, strings.Repeat("<", 1000)))
		}
		pass(16 * time.Second) // a few texts beside many wait for more
		got := w.learned()["alpha"]
		if last := got[len(got)-1]; !strings.HasPrefix(last, "alpha: thing number 139 ") || len(got) < 30 {
			t.Errorf("learned %d texts, the last %.40q, want the newest ones", len(got), last)
		}
	})
}
