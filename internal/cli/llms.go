package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// endpoints returns everything that --llm can name: the built-in endpoints, overridden by those of the config file.
func (s *settings) endpoints() map[string]*llms.Endpoint {
	return llms.All(s.program.Providers, s.llms)
}

// chain returns the endpoint that --llm and --model name, followed by its fallbacks.
func (s *settings) chain() ([]*llms.Endpoint, error) {
	all := s.endpoints()
	first, ok := llms.Named(all, s.node.llm)
	if !ok {
		return nil, s.wrong("llm", " %q is not known: it is one of %s", s.node.llm, llms.Names(all))
	}
	if first.Provider == "fake" {
		return nil, nil
	}
	return llms.Chain(all, first, s.node.model, s.aside)
}

// checkLLM returns what is wrong with the settings of the model, without network I/O.
func (s *settings) checkLLM() error {
	if _, err := prompt.New(s.node.prompts); err != nil {
		return s.wrong("prompts", ": %w", err)
	}
	chain, err := s.chain()
	for _, ep := range chain {
		if err := ep.Ready(); err != nil {
			return s.notReady(err)
		}
		if b := s.budget; b.Turn.Cost+b.Conversation.Cost+b.Day.Cost > 0 && ep.Unpriced() {
			return usagef("budget: %w", llms.ErrUnpriced(ep.Name))
		}
	}
	return err
}

// notReady adds to an endpoint's error the name of the setting that selected it.
func (s *settings) notReady(err error) error {
	if _, ok := errors.AsType[*llms.LackError](err); ok {
		return s.wrong("llm", " %w", err)
	}
	return usage.New(err)
}

// openDecider makes the decider that --llm names, with templates. closeAll closes its connections.
func (s *settings) openDecider(ctx context.Context, templates *prompt.Templates, log *slog.Logger) (_ llm.Decider, closeAll func() error, err error) {
	client, options, closeAll, err := s.openClient(ctx, log)
	if client == nil || err != nil {
		return fake.New(nil), closeAll, err
	}
	return llm.NewDecider(client, templates, options), closeAll, nil
}

// openClient makes the client of the model that --llm names, with its fallbacks; nil for fake. closeAll closes its connections.
func (s *settings) openClient(ctx context.Context, log *slog.Logger) (_ llm.Client, _ *llm.DeciderOptions, closeAll func() error, err error) {
	s.takeOnlyModel(ctx)
	if err := s.checkLLM(); err != nil {
		return nil, nil, nil, err
	}
	all, err := s.chain()
	if err != nil || len(all) == 0 {
		return nil, nil, func() error { return nil }, err
	}
	return llms.Open(ctx, all, s.node.llmTimeout, s.node.meter, log)
}

// describeLLM describes the model that decides.
func (s *settings) describeLLM() string {
	chain, err := s.chain()
	if err != nil || len(chain) == 0 {
		return s.node.llm
	}
	return llms.Describe(chain)
}
