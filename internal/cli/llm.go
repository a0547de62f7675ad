package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newLLM() *cobra.Command {
	c := &cobra.Command{
		Use:   "llm",
		Short: "List and check the models that can decide",
		Long: `List and check the models that --llm can name. Keys come from the environment, from a file that only you can read, or from a
program (api_key_command); the config file names endpoints of your own:

    llms:
      local:
        provider: ollama
        model: qwen3
      main:
        provider: openai
        model: gpt-5.4-mini
        fallback: [local]`,
		Example: "  cortex llm list\n  cortex llm check openai\n  cortex llm check --config cortex.yaml main",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.newLLMList(), e.newLLMCheck())
	return c
}

type endpointJSON struct {
	Name     string   `json:"name"`
	Provider string   `json:"provider"`
	Model    string   `json:"model,omitempty"`
	BaseURL  string   `json:"baseUrl,omitempty"`
	Ready    bool     `json:"ready"`
	Missing  string   `json:"missing,omitempty"`
	Fallback []string `json:"fallback,omitempty"`
	Selected bool     `json:"selected,omitempty"`
}

func (e *env) newLLMList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list [NAME]",
		Short:   "List the models that --llm can name, or those of an endpoint",
		Long:    `List what --llm can name, and what each needs. With the name of an endpoint, ask it for the models that it has: --llm NAME/MODEL uses one.`,
		Example: "  cortex llm list\n  cortex llm list ollama\n  cortex llm list --config cortex.yaml --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return e.listModels(cmd.Context(), args[0], asJSON)
			}
			if _, err := e.settings.chain(); err != nil {
				if _, known := llms.Named(e.settings.endpoints(), e.settings.node.llm); !known {
					return err
				}
			}
			list := e.settings.listLLMs()
			if asJSON {
				return writeJSON(e, list)
			}
			// Most endpoints are named after their provider, which is not said twice.
			t := &table.Table{Columns: []table.Column{{Title: "NAME"}, {Title: "PROVIDER"}, {Title: "MODEL"}, {Title: "STATE"}}, Wrap: true}
			for _, l := range list {
				state := "configured"
				switch {
				case l.Name == "fake":
					state = "ready"
				case e.settings.llms[l.Name] == nil && e.settings.endpoints()[l.Name].Local:
					state = "if it runs here"
				}
				if !l.Ready {
					state = l.Missing
				}
				name := l.Name
				if l.Selected {
					name += " *"
				}
				provider := l.Provider
				if provider == l.Name {
					provider = ""
				}
				t.Row(name, provider, l.Model, state)
			}
			if err := e.show(t); err != nil {
				return err
			}
			if screen.IsTerminal(e.stdout) {
				e.tell("* decides here: --llm NAME chooses another one")
			}
			return nil
		},
	}
	c.ValidArgsFunction = first(e.completeModels)
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().StringVar(&e.settings.node.llm, "llm", "fake", "`NAME`: mark the model that this selects with *")
	setting(c.Flags(), "llm")
	return c
}

// listTimeout bounds the wait for an endpoint's list of models.
const listTimeout = 30 * time.Second

// onlyTimeout bounds the wait for a program on this machine.
const onlyTimeout = 2 * time.Second

// takeOnlyModel sets the model, when none is named, of an endpoint on this machine that has exactly one. Otherwise the check of the settings says what is
// missing.
func (s *settings) takeOnlyModel(ctx context.Context) {
	ep, ok := llms.Named(s.endpoints(), s.node.llm)
	if !ok || !ep.Local || ep.Model != "" || s.node.model != "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, onlyTimeout)
	defer cancel()
	if models, err := ep.Models(limited); err == nil && len(models) == 1 {
		s.node.model = models[0]
	}
}

// listModels prints the models that an endpoint says it has.
func (e *env) listModels(ctx context.Context, name string, asJSON bool) error {
	all := e.settings.endpoints()
	ep, ok := all[name]
	switch {
	case !ok:
		return usagef("%q is not known: it is one of %s", name, llms.Names(all))
	case !ep.HasClient():
		return usagef("%s has no models: it is built in", name)
	}
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	models, err := ep.Models(limited)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(e, append([]string{}, models...))
	}
	if len(models) == 0 {
		e.say("%s has no model: install one first", name)
		return nil
	}
	t := table.New("MODEL")
	for _, m := range models {
		t.Row(repl.Sanitize(m))
	}
	return e.show(t)
}

// listLLMs returns for each endpoint whether it can be asked, those of the config file first.
func (s *settings) listLLMs() []endpointJSON {
	all := s.endpoints()
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		_, ownA := s.llms[a]
		_, ownB := s.llms[b]
		if ownA != ownB {
			if ownA {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	selected, _ := llms.Named(all, s.node.llm)
	list := []endpointJSON{}
	for _, name := range names {
		ep := all[name]
		if selected != nil && selected.Name == name {
			ep = selected // with its model
		}
		l := endpointJSON{Name: name, Provider: ep.Provider, Model: ep.Model, BaseURL: ep.BaseURL, Fallback: ep.Fallback, Ready: true, Selected: ep == selected}
		if ep.Provider != "fake" {
			if r, _, err := ep.Resolved(); err == nil {
				l.BaseURL = r.BaseURL
			}
			one := settings{program: s.program, llms: s.llms, node: &nodeSettings{llm: name, model: ep.Model}}
			if err := one.checkLLM(); err != nil {
				l.Ready, l.Missing = false, missing(err)
			}
		}
		list = append(list, l)
	}
	return list
}

// missing returns in short what an endpoint lacks.
func missing(err error) string {
	if lack, ok := errors.AsType[*llms.LackError](err); ok {
		return lack.Short
	}
	return strings.TrimSpace(strings.TrimPrefix(err.Error(), "llms."))
}

func (e *env) newLLMCheck() *cobra.Command {
	var model string
	c := &cobra.Command{
		Use:   "check [NAME]",
		Short: "Make one tiny call and say what works",
		Long: `Make one tiny call of a model, by the name that --llm would be given, and say what works: the key, the model, the JSON that is
asked for, streaming, and the count of tokens. The exit status is 1 when it could not be used.`,
		Example: "  cortex llm check openai\n  cortex llm check ollama --model qwen3",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := &e.settings
			s.node.model = model
			if len(args) > 0 && args[0] != s.node.llm {
				s.node.llm = args[0]
				if !cmd.Flags().Changed("model") && model != "" {
					s.node.model = "" // it belongs to the llm that it was given with
					s.setAside()
				}
				s.given["llm"] = fromFlag // an argument counts as a flag
			}
			s.takeOnlyModel(cmd.Context())
			chain, err := s.chain()
			if err != nil {
				return err
			}
			if len(chain) == 0 {
				return usagef("%s needs no check: it is built in. Which one? `cortex llm list` names them", s.node.llm)
			}
			return e.checkEndpoint(cmd.Context(), chain[0])
		},
	}
	c.ValidArgsFunction = first(e.completeModels)
	c.Flags().StringVar(&e.settings.node.llm, "llm", "fake", "`NAME`: the same as the argument")
	c.Flags().StringVar(&model, "model", "", "`MODEL`: the model to ask instead of the endpoint's default")
	setting(c.Flags(), "llm", "model")
	return c
}

// checkTimeout bounds a check; a local model may have to be loaded first.
const checkTimeout = 5 * time.Minute

// checkEndpoint calls ep and prints what works. When ep refuses the request, checkEndpoint makes a few more calls to find the setting that ep
// rejects.
func (e *env) checkEndpoint(ctx context.Context, ep *llms.Endpoint) error {
	if err := ep.Ready(); err != nil {
		return usage.New(err)
	}
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	e.say("asking %s …", repl.Sanitize(strings.TrimSpace(ep.Name+" "+ep.Model)))
	p, err := llms.Probe(limited, ep, checkTimeout)
	if err != nil {
		return err
	}
	remedy := ""
	if errors.Is(p.Err, llm.ErrBadRequest) {
		if again, better, what := llms.Remedied(limited, ep, checkTimeout); better != nil {
			p, ep, remedy = again, better, what
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t := table.New("CHECK", "RESULT", "")
	usable := report(&p, t, ep, remedy)
	if err := e.showWhole(t); err != nil {
		return err
	}
	if p.Err != nil {
		return p.Err
	}
	if !usable {
		return errShown
	}
	return nil
}
