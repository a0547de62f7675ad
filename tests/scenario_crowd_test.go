package tests

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// crowd returns the well-known agents of section "crowd", which has a line "NUMBER NAME: DESCRIPTION" for NAME-1, NAME-2, …; and, if the section
// exists, an index of all agents, and a function that updates it by the registry's events.
func (s *stage) crowd() (all []registry.WellKnown, index *router.Index, follow func(registry.Event)) {
	lines, ok := s.sections["crowd"]
	if !ok {
		return nil, nil, nil
	}
	for line := range strings.Lines(lines) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, description, _ := strings.Cut(rest, ": ")
		n, err := strconv.Atoi(number)
		s.check(err)
		for i := range n {
			id := fmt.Sprintf("%s-%d", name, i+1)
			all = append(all, registry.WellKnown{ID: id, Card: &a2a.AgentCard{Name: id, Description: description, Version: "1.0.0"}})
		}
	}
	index = router.New(nil)
	return all, index, func(e registry.Event) {
		if e.Kind == registry.EventDeregistered {
			index.Remove(e.AgentID)
		} else if e.Record != nil {
			index.Put(e.AgentID, e.Record.Card)
		}
	}
}

// take returns the reply of a model that gives work, "AGENT TASK", to an agent that the prompt must show.
func take(words string) llmtest.Answer {
	agent, task, _ := strings.Cut(words, " ")
	return llmtest.Func(func(_ context.Context, r *llm.Request) llmtest.Answer {
		shown := r.System
		for _, m := range r.Messages {
			shown += "\n" + m.Text()
		}
		if !strings.Contains(shown, fmt.Sprintf("\n- id %q", agent)) {
			return llmtest.Fail(fmt.Errorf("%s is not shown:\n%s", agent, shown))
		}
		return llmtest.Text(fmt.Sprintf(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":%q,"skill":null,"task":%q,`+
			`"input":null,"depends_on":[]}],"search":null,"reason":"it fits"}`, agent, task))
	})
}
