package llm_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// TestKindsAreTold checks that the prompt and the schema have each kind that a model may write, and no other; and that an earlier answer is shown
// with its kind.
func TestKindsAreTold(t *testing.T) {
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	var told []llm.Kind
	for _, choice := range []bool{false, true} {
		tn := turn()
		tn.Choice = choice
		for _, k := range llm.Kinds() {
			tn.History = append(tn.History, prompt.Turn{User: "u", Kind: string(k), Answer: "answer by " + string(k)})
		}
		p, err := templates.Render(&tn.Input)
		if err != nil {
			t.Fatal(err)
		}
		var shown []llm.Kind
		for line := range strings.Lines(p.System) {
			if rest, ok := strings.CutPrefix(line, `- "`); ok {
				kind, _, _ := strings.Cut(rest, `"`)
				shown = append(shown, llm.Kind(kind))
			}
		}
		var schema struct {
			Properties struct {
				Kind struct{ Enum []llm.Kind }
			}
		}
		if err := json.Unmarshal(llm.DecisionSchema(tn), &schema); err != nil {
			t.Fatal(err)
		}
		offered := schema.Properties.Kind.Enum
		if n := min(len(offered), len(shown)); !slices.Equal(offered, shown[:n]) {
			t.Errorf("the schema offers %q, and the system prompt tells of %q first, want the same in prompt/templates/system.tmpl", offered, shown)
		}
		told = append(told, offered...)
		for _, k := range llm.Kinds() {
			again := fmt.Sprintf(`{"kind":%q,"say":"answer by %s"`, k, k)
			if k.Answers() && !slices.ContainsFunc(p.Messages, func(m prompt.Message) bool { return strings.HasPrefix(m.Text, again) }) {
				t.Errorf("an answer of kind %q is not shown again as %s", k, again)
			}
		}
	}
	long := readTurn()
	p, err := templates.Render(&long.Input)
	if err != nil {
		t.Fatal(err)
	}
	if facts := p.Messages[len(p.Messages)-1].Text; !strings.Contains(string(llm.DecisionSchema(long)), `"read"]`) || !strings.Contains(facts, `"kind": "read"`) {
		t.Errorf("with something to read the schema offers %s, and the model is told:\n%s", llm.DecisionSchema(long), facts)
	}
	for _, k := range llm.Kinds() {
		if !slices.Contains(told, k) {
			t.Errorf("no model is told of kind %q", k)
		}
	}
}
