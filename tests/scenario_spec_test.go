package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// decider returns the fake, or a model with the replies of section "model", one per line for any request. The reply "tell" answers with the results
// in the request; "take AGENT TASK" gives work to an agent that the prompt shows.
func (s *stage) decider() llm.Decider {
	if s.model != nil {
		return s.model
	}
	replies, ok := s.sections["model"]
	if !ok {
		return fake.New(nil)
	}
	var script []llmtest.Answer
	for line := range strings.Lines(replies) {
		if line = strings.TrimSpace(line); line == "tell" {
			script = append(script, llmtest.Func(tell))
		} else if words, ok := strings.CutPrefix(line, "take "); ok {
			script = append(script, take(words))
		} else if line != "" {
			script = append(script, llmtest.Text(line))
		}
	}
	templates, err := prompt.New("")
	s.check(err)
	s.model = llm.NewDecider(llmtest.Script(script...), templates, nil) // a restart continues with it
	return s.model
}

func tell(_ context.Context, r *llm.Request) llmtest.Answer {
	_, block, _ := strings.Cut(r.Messages[len(r.Messages)-1].Text(), "<cortex:results>\n")
	block, _, _ = strings.Cut(block, "</cortex:results>")
	var told []string
	for line := range strings.Lines(block) {
		var task struct{ Agent, State, Result string }
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			return llmtest.Fail(err)
		}
		told = append(told, fmt.Sprintf("%s has %s: %s", task.Agent, task.State, task.Result))
	}
	say, err := json.Marshal(strings.Join(told, "\n"))
	if err != nil {
		return llmtest.Fail(err)
	}
	return llmtest.Text(fmt.Sprintf(`{"kind":"respond","say":%s,"delegations":[],"reason":"told"}`, say))
}

// specified adds the content of section NAME.spec to a card: the parameters of its extension, in YAML.
func (s *stage) specified(name string, card *a2a.AgentCard) *a2a.AgentCard {
	var params map[string]any
	s.check(yaml.Unmarshal([]byte(s.sections[name+".spec"]), &params))
	if params != nil {
		card.Capabilities.Extensions = append(card.Capabilities.Extensions, a2a.AgentExtension{URI: agentcard.ExtensionURI, Params: params})
	}
	return card
}

// given returns the agent's input as its result, as data in "results".
func given(task *agents.Task) *agents.Result {
	return dataResult(map[string]any{"results": []any{map[string]any{"type": task.Skill, "input": task.Input()}}})
}

func dataResult(v any) *agents.Result {
	return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(v)}}
}
