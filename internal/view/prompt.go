package view

import (
	"context"
	"fmt"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// PromptJSON is the prompt of a decision in the log, rendered again.
type PromptJSON struct {
	Entry    uint64              `json:"entry"`
	Turn     string              `json:"turn"`
	Model    string              `json:"model,omitempty"`
	System   string              `json:"system"`
	Messages []PromptMessageJSON `json:"messages"`
	Missing  []string            `json:"missing"` // what of the prompt is not kept, a sentence for each
}

// PromptMessageJSON is a message of a prompt.
type PromptMessageJSON struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Prompt renders the prompt of the decision of an entry again. It returns [transport.ErrNotFound] when the entry is not there or has none.
func Prompt(ctx context.Context, r *Reader, contextID string, seq uint64, render func(*prompt.Input) (*prompt.Prompt, error)) (*PromptJSON, error) {
	conv := conversation.NewConversation(r.Tenant, contextID)
	for e, err := range r.Store.Load(ctx, r.Tenant, contextID, 0) {
		if err != nil {
			return nil, err
		}
		if e.Seq < seq {
			if err := conv.Apply(e); err != nil {
				return nil, err
			}
			continue
		}
		if e.Decision == nil && e.Failure == "" || ByRule(e.Decision) {
			break
		}
		if err := conv.Begin(e); err != nil {
			return nil, err
		}
		in, listed := catalog.Replay(conv, e)
		if in == nil {
			break
		}
		p, err := render(in)
		if err != nil {
			return nil, err
		}
		j := &PromptJSON{Entry: e.Seq, Turn: e.Turn, System: p.System, Missing: missing(e, in, listed)}
		if e.Decision != nil {
			j.Model = e.Decision.Model
		}
		for _, m := range p.Messages {
			j.Messages = append(j.Messages, PromptMessageJSON{string(m.Role), m.Text})
		}
		return j, nil
	}
	return nil, fmt.Errorf("%w: entry %d has no decision for which a model was asked", transport.ErrNotFound, seq)
}

// ByRule reports whether a decision was made without a model: by the rules, because the message named its agent, or because a swarm went on.
func ByRule(d *llm.Decision) bool {
	return d != nil && (d.Model == "policy" || d.Model == "direct" || d.Model == "swarm")
}

// By says what made a decision: the model's name, or how it was made without one.
func By(d *llm.Decision) string {
	switch d.Model {
	case "fake":
		return "by words, offline, without a model"
	case "policy":
		return "by the rules and your word, without a model"
	case "direct":
		return "by name, without a model"
	case "swarm":
		return "the next round, without a model"
	}
	return prompt.Clean(d.Model, MaxSaid)
}

// missing says what of a prompt the log does not have.
func missing(e *conversation.Entry, in *prompt.Input, listed bool) []string {
	all := []string{"The words of the instructions are those of the templates that this Cortex has now. Which agents were busy just then is not kept."}
	if !listed {
		all = append(all, "Which agents it listed is not kept for this decision.")
	}
	if in.Choice {
		all = append(all, "How many agents there were beside those that it listed is not kept.")
	}
	d := e.Decision
	if d == nil {
		return append(all, "No decision came of it: it may be that no model was asked.")
	}
	if d.Model == "fake" {
		all = append(all, "No model was asked: Cortex decided by words, offline. This is what a model would have been told.")
	}
	if len(d.Searches) > 0 || len(d.Reads) > 0 {
		all = append(all, "The model searched for agents or read in files meanwhile: what it found is not kept.")
	}
	if d.Repairs > 0 {
		all = append(all, "Its first reply was no decision: that reply, and the correction that followed, are not kept.")
	}
	return all
}
