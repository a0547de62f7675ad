package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

func (e *env) newAsk() *cobra.Command {
	var contextID string
	var asJSON, verbose bool
	var files []string
	var output string
	var to transport.Direct
	var input string
	c := &cobra.Command{
		Use:   "ask TEXT",
		Short: "Ask one thing and print the answer",
		Long: `Ask one thing of the Cortex that runs, or of one of your own if none runs on the data folder; with --nats of the one that
runs on that server. The answer goes to standard output; the exit status is 1 when it reports a failure.

--file brings a file along, and may be given several times; --output names a folder that the files of the answer are written to, under names
that are not taken there.

With --agent no model decides: that agent gets the text, and the input if there is one, and what it gives back is the answer.`,
		Example: "  cortex ask 'what time is it in Tokyo?'\n  cortex ask --context demo --json 'what is 17*23?'\n" +
			"  cortex ask --file report.pdf 'summarize'\n  cortex ask --file data.csv --output plots 'plot it'\n" +
			"  cortex ask --agent shop --skill find --input '{\"query\":\"shoes\"}'",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case to.Agent == "" && (to.Skill != "" || input != ""):
				return usagef("--skill and --input are for the agent that --agent names: name one")
			case tooDeep(input):
				return usagef("--input is nested too deep")
			case input != "" && !json.Valid([]byte(input)):
				return usagef("--input is not JSON: %.200s", input)
			case to.Agent != "":
				to.Input = json.RawMessage(input)
				if err := to.Address(&a2a.Message{}); err != nil {
					return usagef("--agent, --skill and --input: %s", strings.TrimPrefix(err.Error(), transport.ErrInvalid.Error()+": "))
				}
			}
			if strings.TrimSpace(strings.Join(args, " ")) == "" && input == "" {
				return usagef("what? cortex ask 'what time is it in Tokyo?'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if strings.TrimSpace(text) == "" {
				text = input
			}
			if err := repl.CheckFiles(len(files)); err != nil {
				return usagef("--file: %w", err)
			}
			for _, path := range files {
				if path == "" {
					return usagef("--file: the name of a file is empty")
				}
				if _, err := client.CheckFile(path, int64(e.settings.node.maxFile)); err != nil {
					return usagef("--file %w", err)
				}
			}
			if output != "" { // before anything is asked
				if err := client.MakeFolder(output); err != nil {
					return fmt.Errorf("--output: %w", err)
				}
			}
			return e.converse(cmd.Context(), func(ctx context.Context, cfg repl.Config) error {
				cfg.Verbose, cfg.Files, cfg.Output = verbose, files, output
				if to.Agent != "" {
					cfg.To = &to
				}
				if asJSON {
					return e.askJSON(ctx, cfg, text)
				}
				return repl.Ask(ctx, cfg, text)
			}, contextID)
		},
	}
	e.settings.addNode(c, ownAgents...)
	c.Flags().StringVar(&contextID, "context", "", "`ID` of the conversation to go on with; any new word begins one")
	c.Flags().StringVar(&to.Agent, "agent", "", "`ID` of the agent that it is for: no model decides")
	c.Flags().StringVar(&to.Skill, "skill", "", "`ID` of the agent's skill")
	c.Flags().StringVar(&input, "input", "", "`JSON` for the skill, if it takes structured input")
	c.Flags().StringArrayVar(&files, "file", nil, "`FILE` to bring along; may be given several times")
	c.Flags().StringVar(&output, "output", "", "`DIR` to write the files of the answer to")
	c.Flags().BoolVar(&asJSON, "json", false, "print each event of the turn as a line of JSON")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show delegations and progress on standard error")
	return c
}

// tooDeep reports whether text is nested deeper than JSON is read.
func tooDeep(text string) bool {
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	return err != nil && strings.HasSuffix(err.Error(), "exceeded max depth") // there is no name for it
}

// askJSON prints the events of one turn as they come.
func (e *env) askJSON(ctx context.Context, cfg repl.Config, text string) error {
	contextID := cfg.ContextID
	if contextID == "" {
		contextID = uuid.NewString()
	}
	failed := false
	out := newJSON(e.stdout)
	said := false
	cfg.Client.Said = func(event *transport.Event) {
		if !said { // it may be tried again
			said = true
			out.Encode(event) //nolint:errcheck // the next one says it too
		}
	}
	for event, err := range cfg.Say(ctx, contextID, text) {
		if err != nil {
			return err
		}
		if err := out.Encode(event); err != nil {
			return err
		}
		if m, ok := event.Payload.(*a2a.Message); ok {
			if err := cfg.Keep(ctx, m); err != nil {
				return err
			}
			failed, _ = m.Metadata[transport.MetaFailed].(bool)
		}
	}
	if failed {
		return repl.ErrFailed
	}
	return nil
}
