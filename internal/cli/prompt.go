package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newPrompt() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "prompt [TEXT]",
		Short: "Show what a model would be told",
		Long: `Show the prompt that the model of the Cortex that runs would get if TEXT were said now, with its templates and the
agents that are online and may be asked; of many agents, with those that fit, and how well they do. It begins a
conversation, unless --conversation names one to go on with. Nothing is sent.`,
		Example: "  cortex prompt 'what time is it in Tokyo?'\n  cortex prompt --conversation demo 'and in Paris?'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
				b.prompts = e.settings.tried()
				contextID, err := w.find(ctx, b.link)
				if err != nil {
					return err
				}
				text, err := b.prompt(ctx, contextID, strings.Join(args, " "))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.stdout, repl.Sanitize(text))
				return err
			})
		},
	}
	w.add(e, c)
	c.Flags().StringVar(&e.settings.node.prompts, "prompts", "", "`DIR`: templates to try instead of those of the running Cortex")
	setting(c.Flags(), "prompts")
	return c
}

// isSet returns the settings of the node whose prompts are shown; nil when they are unknown.
type isSet func(context.Context) (*datadir.Handover, error)

// joined returns the settings of the node that this process has joined. It reads them each time, since another node may run by then.
func (s *settings) joined(ctx context.Context) (*datadir.Handover, error) {
	if !s.inFolder() {
		return nil, nil
	}
	a, _, err := datadir.Find(ctx, s.data)
	return a.Node, err
}

// tried returns the folder of templates to use instead of the node's: for an external server, that of this process's settings.
func (s *settings) tried() string {
	if !s.inFolder() || s.given["prompts"] == fromFlag {
		return s.node.prompts
	}
	return ""
}

// prompt renders what the model would be sent if the user said text now.
func (b *backend) prompt(ctx context.Context, contextID, text string) (string, error) {
	h, err := b.isSet(ctx)
	if err != nil {
		return "", err
	}
	templates, err := b.templates(h)
	if err != nil {
		return "", err
	}
	conv := conversation.NewConversation(b.tenant, "")
	if contextID != "" {
		if conv, err = storage.Load(ctx, b.store, b.tenant, contextID); err != nil {
			return "", err
		}
	}
	known, err := b.known(ctx)
	if err != nil {
		return "", err
	}
	agents, err := b.permitted(h, directory.Routable(known))
	if err != nil {
		return "", err
	}
	in, chosen := catalog.Preview(conv, text, agents, b.searchIndex(agents), time.Now())
	p, err := templates.Render(in)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "── system · %d bytes\n%s\n", len(p.System), p.System)
	for _, m := range p.Messages {
		fmt.Fprintf(&out, "── %s\n%s\n", m.Role, m.Text)
	}
	if len(chosen) > 0 {
		fmt.Fprintf(&out, "── shortlist · %d of %d agents\n", len(chosen), len(agents))
		writeShortlist(&out, "", chosen)
	}
	if unknown := b.unknown(h, len(chosen) > 0); unknown != "" {
		fmt.Fprintf(&out, "── not known here · %s\n", unknown)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// templates returns the templates to try out, or else those that the node read when it started. It is an error when the node's folder has changed
// since then.
func (b *backend) templates(h *datadir.Handover) (*prompt.Templates, error) {
	dir := h.Of("prompts")
	if b.prompts != "" || dir == "" {
		return prompt.New(b.prompts)
	}
	t, err := prompt.New(dir)
	switch {
	case err != nil:
		err = fmt.Errorf("cannot be read now: %w", err)
	case h.Templates != "" && h.Templates != t.Sum(): // older versions do not leave the sum
		err = errors.New("have been changed since")
	default:
		return t, nil
	}
	return nil, fmt.Errorf("what the model is told is not known here: the cortex that runs goes on with the templates that were in %s when it started, and these %w; start it again, or try templates out: cortex prompt --prompts DIR", dir, err)
}

// permitted returns the agents that the node's policy lets this user ask.
func (b *backend) permitted(h *datadir.Handover, agents []prompt.Agent) ([]prompt.Agent, error) {
	if h.Of("policy") == "" {
		return agents, nil
	}
	rules, err := (&settings{node: &nodeSettings{policy: h.Of("policy")}}).loadPolicy(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("the rules of the cortex that runs: %w", err)
	}
	p := rules.InForce()()
	from := cmp.Or(b.client().User, "user")
	return slices.DeleteFunc(slices.Clone(agents), func(a prompt.Agent) bool {
		if a.Card == nil || len(a.Card.Skills) == 0 {
			return !p.Allows(from, a.ID, "")
		}
		return p.Any(a.ID) && !slices.ContainsFunc(a.Card.Skills, func(s a2a.AgentSkill) bool {
			return p.Allows(from, a.ID, agentcard.SkillID(&s))
		})
	}), nil
}

// unknown names what the model may be told and the prompt does not show, or returns "".
func (b *backend) unknown(h *datadir.Handover, choice bool) string {
	var what []string
	if h == nil && b.prompts == "" {
		what = append(what, "its --prompts")
	}
	if h == nil {
		what = append(what, "its --policy")
	}
	if choice && b.index == nil {
		what = append(what, "its --shortlist", "what it has learned about agents")
	}
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("of the Cortex that runs at %s: %s", b.url, strings.Join(what, ", "))
}
