package decide

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

// FuzzSameWhenLogged checks that the decision that is used equals the one read from the log, including nil values.
func FuzzSameWhenLogged(f *testing.F) {
	for _, seed := range []struct {
		text, id, input string
		n               uint8
	}{
		{text: "Hello", id: "1"},
		{text: "two <b>words</b>\u2028", id: "1", n: 2},
		{text: "\xff\xfe", id: "1", n: 1},
		{text: "a", id: "\xff", n: 3},
		{text: "a", id: "1", input: `{"b" : 1}`, n: 1},
		{n: 4},
		{text: "null", input: "null", n: 7},
		{text: "a", id: "1", n: 3},
	} {
		f.Add(seed.text, seed.id, seed.input, seed.n)
	}
	f.Fuzz(func(t *testing.T, text, id, input string, n uint8) {
		d := &llm.Decision{
			Kind: llm.Kind(id), Say: text, Reason: id, Model: text, Repairs: int(n), Usage: llm.Usage{Input: int(n), Cost: float64(n) / 3},
			Delegations: []llm.Delegation{}, Searches: []string{},
		}
		for i := range n % 4 {
			w := llm.Delegation{ID: id, Agent: text, Skill: id, Task: text, Input: json.RawMessage(input), DependsOn: []string{}}
			if i > 0 {
				w.DependsOn, d.Searches = append(w.DependsOn, id, text), append(d.Searches, text)
				w.Files = []string{}
			}
			if i > 1 {
				w.Files = append(w.Files, id)
			}
			d.Delegations = append(d.Delegations, w)
		}
		got := sameWhenLogged(d)
		if got == nil {
			return
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("taken as it is, and no JSON: %v", err)
		}
		var want llm.Decision
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("not what the log gives back (-want +got):\n%s", diff)
		}
		if len(d.Delegations) > 0 && &d.Delegations[0] == &got.Delegations[0] {
			t.Error("the copy shares its delegations with the decider's")
		}
		for i, w := range d.Delegations {
			if len(w.Files) > 0 && &w.Files[0] == &got.Delegations[i].Files[0] {
				t.Error("the copy shares its files with the decider's")
			}
		}
	})
}

// TestSameWhenLogged checks that most decisions need no encoding.
func TestSameWhenLogged(t *testing.T) {
	if sameWhenLogged(&llm.Decision{Kind: llm.KindRespond, Say: "<Hello>"}) == nil {
		t.Error("an answer takes the long way")
	}
	for _, w := range []llm.Delegation{{Task: "\xff"}, {Files: []string{"\xff"}}, {Input: json.RawMessage(`{"a" : 1}`)}} {
		if got := sameWhenLogged(&llm.Decision{Delegations: []llm.Delegation{w}}); got != nil {
			t.Errorf("SameWhenLogged(%+v) = %+v, want nil: JSON changes it", w, got)
		}
	}
}

// TestEachFieldIsLogged has a value in each field of a decision, and then a text that JSON changes in each: what is used is what the log gives back.
func TestEachFieldIsLogged(t *testing.T) {
	full := func() *llm.Decision {
		return &llm.Decision{
			Kind: llm.KindDelegate, Say: "s", Reason: "r", Model: "m", Usage: llm.Usage{Input: 1}, Repairs: 1, Searches: []string{"w"},
			Reads:       []llm.Read{{Key: "f1", From: 1, Find: "x"}},
			Delegations: []llm.Delegation{{ID: "1", Agent: "a", Skill: "b", Task: "t", Files: []string{"f1"}, DependsOn: []string{"2"}}},
		}
	}
	parts := func(d *llm.Decision) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(d).Elem(), reflect.ValueOf(&d.Delegations[0]).Elem(), reflect.ValueOf(&d.Reads[0]).Elem()}
	}
	same := func(name string, d *llm.Decision) {
		t.Helper()
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var want llm.Decision
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		if got := sameWhenLogged(d); got != nil && !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: not what the log gives back (-want +got):\n%s", name, cmp.Diff(&want, got))
		}
	}
	same("all", full())
	takesTheLongWay := []string{"Input"}
	for i, part := range parts(full()) {
		for j := range part.NumField() {
			name := part.Type().Field(j).Name
			if part.Field(j).IsZero() && !slices.Contains(takesTheLongWay, name) {
				t.Errorf("the test has no value for the field %s of %s", name, part.Type())
			}
			d := full()
			switch f := parts(d)[i].Field(j); {
			case f.Kind() == reflect.String:
				f.SetString("\xff")
			case f.Type() == reflect.TypeFor[[]string]():
				f.Set(reflect.ValueOf([]string{"\xff"}))
			default:
				continue
			}
			same(part.Type().String()+"."+name, d)
		}
	}
}
