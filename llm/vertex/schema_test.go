package vertex

import (
	"encoding/json"
	"strings"
	"testing"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/llm"
)

func TestConvert(t *testing.T) {
	text := &pb.Schema{Type: pb.Type_STRING}
	tests := []struct {
		in   string
		want *pb.Schema // nil: it is sent as JSON Schema
	}{
		{`{"type":"string"}`, text},
		{`{"type":["string","null"],"description":"d"}`, &pb.Schema{Type: pb.Type_STRING, Nullable: true, Description: "d"}},
		{`{"type":"string","enum":["b","a"]}`, &pb.Schema{Type: pb.Type_STRING, Format: "enum", Enum: []string{"b", "a"}}},
		{`{"type":"array","items":{"type":"string"}}`, &pb.Schema{Type: pb.Type_ARRAY, Items: text}},
		{
			`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z"],"additionalProperties":false}`,
			&pb.Schema{
				Type: pb.Type_OBJECT, Properties: map[string]*pb.Schema{"z": text, "a": {Type: pb.Type_INTEGER}},
				PropertyOrdering: []string{"z", "a"}, Required: []string{"z"},
			},
		},
		{`{}`, nil},
		{`{"type":"null"}`, nil},
		{`{"type":["string","integer"]}`, nil},
		{`{"type":"integer","enum":[1]}`, nil},
		{`{"type":["string","null"],"enum":["a",null]}`, nil},
		{`{"type":"string","minLength":1}`, nil},
		{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, nil},
		{`{"type":"object","properties":[]}`, nil},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, nil},
		{strings.Repeat(`{"type":"array","items":`, 100) + `{"type":"string"}` + strings.Repeat("}", 100), nil},
	}
	for _, test := range tests {
		got, err := newSchema(json.RawMessage(test.in))
		if err != nil {
			t.Errorf("newSchema(%s) = %v", test.in, err)
			continue
		}
		if !proto.Equal(got.vertex, test.want) || (got.json == nil) != (test.want != nil) {
			t.Errorf("newSchema(%s) = %v, %v, want %v", test.in, got.vertex, got.json, test.want)
		}
	}
	for _, in := range []string{`{`, `nonsense`, `{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"string"}}}`} {
		if _, err := newSchema(json.RawMessage(in)); err == nil {
			t.Errorf("newSchema(%s) gives no error", in)
		}
	}
}

// TestArguments checks that the arguments of a call are in the schema's order, which the protocol loses.
func TestArguments(t *testing.T) {
	s, err := newSchema(llm.DecisionSchema(&llm.Turn{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{}`,
		`{"kind":"respond","say":"<b> & \"x\" 🌍","delegations":[],"reason":""}`,
		`{"kind":"delegate","say":null,"delegations":[{"id":"1","agent":"a","skill":null,"task":"t","input":null,"depends_on":["0"],"more":[{"b":1.5,"a":true}]}],"aside":{}}`,
	} {
		var args map[string]any
		if err := json.Unmarshal([]byte(want), &args); err != nil {
			t.Fatal(err)
		}
		want = strings.ReplaceAll(want, `"b":1.5,"a":true`, `"a":true,"b":1.5`) // not in the schema
		if got := s.arguments(args); got != want {
			t.Errorf("arguments = %s, want %s", got, want)
		}
	}
	if got := s.arguments(nil); got != "{}" {
		t.Errorf("arguments of nothing = %s", got)
	}
}
