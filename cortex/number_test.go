package cortex_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestNumbersSurvive has an id that no float64 can hold go from the user to an agent, back in a result, and on to the next agent,
// the decider, and the log.
func TestNumbersSurvive(t *testing.T) {
	const (
		id   = "9007199254740993"
		said = `{"id":` + id + `,"name":"<a & b>"}` // and characters that encoding/json escapes for HTML
	)
	value := func(text string) any {
		v, err := transport.DecodeValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(t.Steps[0].Tasks[0].Result + " " + t.Steps[0].Tasks[0].Artifacts[0].Text)
			}
			return delegate(
				llm.Delegation{ID: "1", Agent: "alpha", Task: "find " + t.User, Input: json.RawMessage(`{"id":` + id + `}`)},
				llm.Delegation{ID: "2", Agent: "beta", Task: "use it", DependsOn: []string{"1"}})
		}))
		e := userEvent("m1", "it")
		e.Payload.(*a2a.Message).Parts = a2a.ContentParts{a2a.NewDataPart(value(`{"user":` + id + `}`))}
		e.Payload.(*a2a.Message).Metadata = map[string]any{"client": value(id)}
		w.publish(e)

		given := message(w.tasksOf("alpha")[0])
		if text := transport.Text(given.Parts); text != `find {"user":`+id+`}` {
			t.Errorf("the decider read %q of the user", text)
		}
		if b, err := json.Marshal(given.Parts[1].Data()); err != nil || string(b) != `{"id":`+id+`}` {
			t.Errorf("alpha has the input %s, %v", b, err)
		}
		r := resultEvent("r1", "alpha", given.TaskID, a2a.TaskStateCompleted, "")
		done := r.Payload.(*a2a.Task)
		done.Status.Message.Parts = a2a.ContentParts{a2a.NewDataPart(value(said))}
		done.Artifacts = []*a2a.Artifact{{ID: "a", Name: "all", Parts: a2a.ContentParts{a2a.NewDataPart(value(`[-` + id + `,1.0]`))}}}
		w.publish(r)

		var attached []string
		for _, p := range message(w.tasksOf("beta")[0]).Parts {
			attached = append(attached, p.Text())
		}
		if got, want := strings.Join(attached, " "), "use it "+said+` [-`+id+`,1]`; got != want {
			t.Errorf("beta got %q, want %q", got, want)
		}
		w.finish("beta", w.onlyTask("beta"), "ok")
		w.wantAnswer("m1", said+` [-`+id+`,1]`)
		for i, want := range []string{`"metadata":{"client":` + id + `},"parts":[{"data":{"user":` + id + `}}]`, `"data":{"id":` + id + `,`} {
			if b, err := json.Marshal(entries(t, w.store)[i]); err != nil || !strings.Contains(string(b), want) {
				t.Errorf("entry %d is %s, %v, want %s in it", i+1, b, err, want)
			}
		}
	})
}

// TestHops also counts a number of hops that no float64 can hold.
func TestHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("no end") }))
		e := userEvent("m1", "go on")
		e.From = "gamma"
		e.Payload.(*a2a.Message).Metadata = map[string]any{transport.MetaHops: json.Number("4.00000000000000000001")}
		w.publish(e)
		if got := w.answers()["m1"]; !strings.Contains(got, "handed on by 4 agents") {
			t.Errorf("answer %q, want that there are too many hops", got)
		}
	})
}
