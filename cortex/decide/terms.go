package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the terms of agents.
const (
	minTimeout  = time.Second
	maxTimeout  = 24 * time.Hour
	maxRejected = 300 // bytes of the reason why a result is rejected
)

// terms returns the terms of a decision's delegations by their ids. It leaves out delegations to agents whose cards set no terms, and delegations
// that continue a task, which keeps its terms.
func (d *decision) terms(decided *llm.Decision) map[string]conversation.Terms {
	var all map[string]conversation.Terms
	for i := range decided.Delegations {
		del := &decided.Delegations[i]
		a, ok := catalog.Find(d.agents, del.Agent)
		w := d.conv.Tasks[a2a.TaskID(del.ID)]
		if !ok || a.Card == nil || (w != nil && w.Phase == conversation.Asking) {
			continue
		}
		t := d.termsOf(&a, del)
		if t.Type == "" && t.Timeout == 0 && t.Output == nil && t.Retries == 0 && !t.Once && !t.Market && !t.Board && t.Evaluators == nil {
			continue
		}
		if all == nil {
			all = map[string]conversation.Terms{}
		}
		all[del.ID] = t
	}
	return all
}

// termsOf returns the terms of a delegation to an agent, as its card and the rules have them.
func (d *decision) termsOf(a *prompt.Agent, del *llm.Delegation) conversation.Terms {
	t := termsOf(a.Card, del)
	t.Board = t.Board && d.policy.Board(a.ID)
	return t
}

func termsOf(card *a2a.AgentCard, del *llm.Delegation) conversation.Terms {
	var t conversation.Terms
	spec := agentcard.SpecOf(card)
	ability := spec.Abilities[del.SkillOf(card)]
	if key := ability.DispatchKey; key != del.Skill {
		t.Type = key
	}
	if spec.Limits.TaskTimeout > 0 {
		t.Timeout = min(max(spec.Limits.TaskTimeout, minTimeout), maxTimeout)
	}
	t.Once, t.Market = ability.Once, slices.Contains(spec.Patterns, agentcard.MarketBidding)
	t.Board = slices.Contains(spec.Patterns, agentcard.Blackboard)
	if n := spec.Limits.MaxRetries; n != nil {
		t.Retries = min(max(*n, 0), policy.MaxAttempts-1)
	}
	t.Evaluators = evaluatorsOf(spec)
	if raw := ability.OutputSchema; len(raw) > 0 {
		if _, err := agentcard.Compile(raw); err == nil {
			t.Output, _ = json.Marshal(raw) // as the log has it
		}
	}
	return t
}

// maxEvaluators bounds the names of evaluators that a card gives, and maxEvaluator their length in characters.
const (
	maxEvaluators = 16
	maxEvaluator  = 64
)

// evaluatorsOf returns the names of evaluators in an AgentSpec.
func evaluatorsOf(spec *agentcard.Spec) (names []string) {
	list := spec.Evaluators()
	for _, name := range list[:min(len(list), maxEvaluators)] {
		names = append(names, prompt.Clean(name, maxEvaluator))
	}
	return names
}

// Reject returns why e breaks the terms of its task, if it is the result of a completed one, or "". The entry records the reason, so that the result
// is not judged again when the log is read. The error is [ErrWaits] when the result has to wait for a place: hundreds at a time, of a second each, would keep
// all else in the process waiting.
func (m *Maker) Reject(c *conversation.Conversation, e *transport.Event, place *Place) (string, error) {
	r, ok := conversation.ResultOf(e)
	if !ok || r.State != a2a.TaskStateCompleted {
		return "", nil
	}
	t := c.Tasks[r.TaskID]
	if t == nil || len(t.Terms.Output) == 0 {
		return "", nil
	}
	if !m.enter(m.validating, c, c.Turn(t.Turn), e, place) {
		return "", ErrWaits
	}
	if place.of == m.validating {
		defer place.Leave()
	}
	return breach(t, e), nil
}

// breach returns why the result e breaks the output schema of t, or "".
func breach(t *conversation.Task, e *transport.Event) string {
	schema, err := agentcard.Compile(t.Terms.Output)
	if err != nil {
		return ""
	}
	why := ""
	if value, words := valueOf(e); words && !takesWords(schema, value) {
		why = "it is not JSON"
	} else if err := schema.Validate(value); err != nil {
		why = err.Error()
	} else {
		return ""
	}
	whose := "the agent's output schema"
	if t.Skill != "" {
		whose = "the output schema of skill " + prompt.Clean(t.Skill, 64)
	}
	why = fmt.Sprintf("the result breaks %s: %s", whose, why)
	if len(why) > maxRejected {
		why = shorten.To(why, maxRejected-len("…")) + "…"
	}
	return why
}

// takesWords reports whether schema accepts words, a JSON string, deliberately. A schema without a type accepts every string, but if it constrains
// objects, it means an object.
func takesWords(schema *agentcard.Schema, words json.RawMessage) bool {
	fits := func(value json.RawMessage) bool { return schema.Validate(value) == nil }
	return fits(words) && (fits(json.RawMessage("{}")) || !fits(json.RawMessage("false")))
}

// valueOf returns the value of a result: its first data part, or the first of its texts that is JSON. Without either it returns the text of the
// result as a JSON string. Artifacts come before the status message.
func valueOf(e *transport.Event) (value json.RawMessage, words bool) {
	all := returned(e)
	for _, parts := range all {
		for _, p := range parts {
			if p == nil {
				continue
			}
			if d, ok := p.Content.(a2a.Data); ok {
				if b, err := json.Marshal(d.Value); err == nil {
					return b, false
				}
			}
		}
	}
	said := ""
	for _, parts := range all {
		text := strings.TrimSpace(transport.Text(parts))
		if json.Valid([]byte(text)) {
			return json.RawMessage(text), false
		}
		said = cmp.Or(said, text)
	}
	value, _ = json.Marshal(said)
	return value, true
}

// returned returns the parts of a result: those of each artifact, then those of the status message.
func returned(e *transport.Event) []a2a.ContentParts {
	var all []a2a.ContentParts
	message := func(m *a2a.Message) {
		if m != nil {
			all = append(all, m.Parts)
		}
	}
	switch p := e.Payload.(type) {
	case *a2a.Task:
		for _, a := range p.Artifacts {
			if a != nil {
				all = append(all, a.Parts)
			}
		}
		message(p.Status.Message)
	case *a2a.TaskStatusUpdateEvent:
		message(p.Status.Message)
	case *a2a.Message:
		message(p)
	}
	return all
}
