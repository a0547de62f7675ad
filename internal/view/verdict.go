package view

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// MaxSaid bounds how much of a text by a model is shown, in characters.
const MaxSaid = 4000

// VerdictLine describes a verdict. All in it may be an agent's words.
func VerdictLine(v *evaluate.Verdict) string {
	name := prompt.Clean(v.Evaluator, 64)
	if v.Round > 0 {
		name += fmt.Sprintf(", round %d", v.Round)
	}
	what := fmt.Sprintf("passed (%.2f)", v.Score)
	if !v.Pass {
		what = map[evaluate.Action]string{evaluate.Redact: "redacted", evaluate.Fail: "failed", evaluate.Ask: "you were asked"}[v.Action]
		what = cmp.Or(what, fmt.Sprintf("not passed (%.2f)", v.Score))
	}
	if advice := prompt.Clean(v.Advice, MaxSaid); advice != "" {
		what += ": " + advice
	}
	return name + ": " + what
}

// maxOwnVerdicts bounds how many verdicts are shown of those that an agent reports.
const maxOwnVerdicts = 16

// OwnVerdicts returns what an agent's own evaluators said of its result.
func OwnVerdicts(e *transport.Event) []evaluate.Verdict {
	var said *a2a.Message
	switch p := e.Payload.(type) {
	case *a2a.Task:
		said = p.Status.Message
	case *a2a.TaskStatusUpdateEvent:
		said = p.Status.Message
	case *a2a.Message:
		said = p
	}
	if said == nil {
		return nil
	}
	for _, p := range said.Parts {
		if p == nil || p.Metadata[transport.MetaVerdicts] == nil {
			continue
		}
		var all []evaluate.Verdict
		if b, err := transport.EncodeValue(p.Metadata[transport.MetaVerdicts]); err == nil && json.Unmarshal(b, &all) == nil {
			return all[:min(len(all), maxOwnVerdicts)]
		}
	}
	return nil
}
