package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newPrompt() *cobra.Command {
	var contextID string
	c := &cobra.Command{
		Use:   "prompt [TEXT]",
		Short: "Show what a model would be told",
		Long: "Show the prompt that a model would get if TEXT were said now, with the agents that are online now; of " +
			"many agents, with those that fit, and how well they do. Nothing is sent.",
		Example: "  cortex prompt 'what time is it in Tokyo?'\n  cortex prompt --context demo 'and in Paris?'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withBackend(cmd.Context(), func(ctx context.Context, b *backend) error {
				text, err := b.prompt(ctx, contextID, strings.Join(args, " "))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.stdout, repl.Sanitize(text))
				return err
			})
		},
	}
	c.Flags().StringVar(&contextID, "context", "preview", "`ID` of a conversation whose history is shown too")
	c.Flags().StringVar(&e.settings.node.prompts, "prompts", "", "`DIR` with templates that replace the built-in ones")
	setting(c.Flags(), "prompts")
	return c
}
