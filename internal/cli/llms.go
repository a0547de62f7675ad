package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// deciderFactory makes what --llm names. templates are the prompts, already checked.
type deciderFactory func(templates *prompt.Templates) (llm.Decider, error)

// deciders are the values of --llm. A new provider is added here.
func deciders() map[string]deciderFactory {
	return map[string]deciderFactory{
		"fake": func(*prompt.Templates) (llm.Decider, error) { return fake.New(nil), nil },
	}
}

func (s *settings) newDecider() (llm.Decider, error) {
	templates, err := prompt.New(s.node.prompts)
	if err != nil {
		return nil, usagef("--prompts: %w", err)
	}
	all := deciders()
	f, ok := all[s.node.llm]
	if !ok {
		return nil, usagef("--llm %q is not known: it is one of %s", s.node.llm, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return f(templates)
}
