package traces

import (
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Attributes of the semantic conventions for generative AI, and of their proposal for A2A.
const (
	agentName      = "gen_ai.agent.name"
	conversationID = "gen_ai.conversation.id"
	requestModel   = "gen_ai.request.model"
	workflowName   = "gen_ai.workflow.name"
	inputTokens    = "gen_ai.usage.input_tokens"
	outputTokens   = "gen_ai.usage.output_tokens"
	cacheRead      = "gen_ai.usage.cache_read.input_tokens"
	cacheWrite     = "gen_ai.usage.cache_write.input_tokens"
	reasoning      = "gen_ai.usage.reasoning.output_tokens"
	inputMessages  = "gen_ai.input.messages"  // only with the switch for content
	outputMessages = "gen_ai.output.messages" // likewise
	errorType      = "error.type"
	a2aTask        = "a2a.task.id"
	a2aState       = "a2a.task.state"
)

// Attributes that have no convention.
const (
	cortexTurn      = "cortex.turn.id"
	cortexTenant    = "cortex.tenant"
	cortexKind      = "cortex.decision.kind"
	cortexRepairs   = "cortex.decision.repairs"
	cortexDecisions = "cortex.decisions"
	cortexAttempt   = "cortex.attempt"
	cortexContinued = "cortex.continued" // the task goes on after a question
	cortexShown     = "cortex.agents.shown"
	cortexCost      = "cortex.cost"
)

// provider says who does what a span is of: the conventions have a name for vendors only.
var provider = attribute.String("gen_ai.provider.name", "cortex")

func operation(name string) attribute.KeyValue {
	return attribute.String("gen_ai.operation.name", name)
}

// maxContent bounds a text of a person or a model in an attribute, in bytes.
const maxContent = 8 << 10

// messages returns a message in the conventions' JSON.
func messages(role, text string) string {
	b, err := json.Marshal([]any{map[string]any{"role": role, "parts": []any{map[string]any{"type": "text", "content": shorten.Marked(text, maxContent, "…")}}}})
	if err != nil {
		return ""
	}
	return string(b)
}
