package llm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cortex-orchestrator/cortex/llm"
)

func TestDecisionSchema(t *testing.T) {
	tn := turn()
	first := llm.DecisionSchema(tn)
	tn.Agents = nil
	if !bytes.Equal(first, llm.DecisionSchema(tn)) {
		t.Error("the schema depends on the agents")
	}
	tn.Last = true
	last := llm.DecisionSchema(tn)
	if bytes.Contains(last, []byte("deleg")) {
		t.Errorf("the schema of the last step knows delegations: %s", last)
	}
	tn.Choice = true
	if !bytes.Equal(last, llm.DecisionSchema(tn)) {
		t.Error("the schema of the last step depends on whether there is a choice")
	}
	tn.Last = false
	choice := llm.DecisionSchema(tn)
	for _, schema := range []json.RawMessage{first, last, choice} {
		var v any
		if err := json.Unmarshal(schema, &v); err != nil {
			t.Fatal(err)
		}
		strict(t, "schema", v)
		if s := string(schema); strings.Index(s, `"kind":`) > strings.Index(s, `"say":`) || strings.Index(s, `"say":`) > strings.Index(s, `"reason":`) {
			t.Errorf("keys are not in the order in which they are to be written: %s", s)
		}
	}
	tn.ReasonFirst = true
	for _, tn.Last = range []bool{false, true} {
		s := string(llm.DecisionSchema(tn))
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		strict(t, "schema", v)
		if strings.Index(s, `"reason":`) > strings.Index(s, `"kind":`) || strings.Count(s, `"reason"`) != 2 {
			t.Errorf("the reason is not first: %s", s)
		}
	}
	const delegation = `{"id":"a","agent":"b","skill":null,"task":"t","input":"{}","files":["f1"],"depends_on":["x"]}`
	for _, c := range []struct {
		schema json.RawMessage
		text   string
		ok     bool
	}{
		{first, `{"kind":"respond","say":"hi","delegations":[],"reason":"r"}`, true},
		{first, `{"kind":"delegate","say":null,"delegations":[` + delegation + `],"reason":"r"}`, true},
		{first, `{"kind":"delegate","say":null,"reason":"r"}`, false},
		{first, `{"kind":"respond","say":"hi","delegations":[],"reason":"r","usage":{}}`, false},
		{first, `{"kind":"other","say":"hi","delegations":[],"reason":"r"}`, false},
		{first, `{"kind":"search","say":null,"delegations":[],"reason":"r"}`, false},
		{choice, `{"kind":"search","say":null,"delegations":[],"search":"w","reason":"r"}`, true},
		{choice, `{"kind":"respond","say":"hi","delegations":[],"search":null,"reason":"r"}`, true},
		{choice, `{"kind":"delegate","say":null,"delegations":[` + delegation + `],"search":null,"reason":"r"}`, true},
		{choice, `{"kind":"respond","say":"hi","delegations":[],"reason":"r"}`, false},
		{last, `{"kind":"respond","say":"hi","reason":"r"}`, true},
		{last, `{"kind":"delegate","say":"hi","reason":"r"}`, false},
		{last, `{"kind":"respond","say":null,"reason":"r"}`, false},
	} {
		if err := validate(t, c.schema, c.text); (err == nil) != c.ok {
			t.Errorf("%s against the schema: %v, want valid %t", c.text, err, c.ok)
		}
	}
}

// strict checks the requirements of endpoints with strict structured output.
func strict(t *testing.T, at string, v any) {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if m["type"] == "object" {
		properties, _ := m["properties"].(map[string]any)
		required, _ := m["required"].([]any)
		if m["additionalProperties"] != false || len(required) != len(properties) {
			t.Errorf("%s: not strict: %v", at, m)
		}
		for _, r := range required {
			if _, ok := properties[r.(string)]; !ok {
				t.Errorf("%s: requires %v, which is no property", at, r)
			}
		}
	}
	for k, sub := range m {
		strict(t, fmt.Sprint(at, ".", k), sub)
	}
}

func validate(t *testing.T, schema json.RawMessage, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("decision.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("decision.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}
