package jsonl_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
)

func TestEncode(t *testing.T) {
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + `"[\"[{"` + strings.Repeat("]", n))
	}
	b, err := jsonl.Encode(&jsonl.Task{Type: jsonl.TypeTask, Input: nested(jsonl.MaxDepth - 1)})
	if err != nil || b[len(b)-1] != '\n' {
		t.Errorf("the deepest: %q, %v", b, err)
	}
	b, err = jsonl.Encode(&jsonl.Task{Type: jsonl.TypeTask, Input: nested(jsonl.MaxDepth)})
	if !errors.As(err, new(jsonl.DepthError)) {
		t.Errorf("deeper: %q, %v", b, err)
	}
}
