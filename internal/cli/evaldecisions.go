package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm/eval"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
)

// decisionsEval is a run of `cortex eval decisions`.
type decisionsEval struct {
	env               *env
	agents, cases     string // files; "": Cortex's own
	languages, abouts []string
	parallel          int
	wrong, asJSON     bool
}

// maxEvalParallel bounds how many decisions are made at a time.
const maxEvalParallel = 64

func (e *env) newEvalDecisions() *cobra.Command {
	d := &decisionsEval{env: e}
	c := &cobra.Command{
		Use:   "decisions",
		Short: "Measure how well a model decides",
		Long: `Measure how well a model decides with Cortex's prompts, on cases whose right decisions are known. Cortex has 150: 30 situations in English,
German, Spanish, French and Chinese. The model is asked once for each, which costs some 400,000 tokens read and 15,000 written; no agent runs, and
nothing is stored. What is printed, as shares of the cases:

    RIGHT   right in all that follows
    KIND    to answer, to delegate, to ask, or to refuse
    AGENTS  the agents that are given work, no more and no less
    ORDER   which of them wait for others, and which work at the same time
    ARGS    what they are told: places, numbers, addresses, structured input; and which waiting task is continued
    SAY     what the answer has to say, or must not

and how often the model was corrected because its reply was no decision (REPAIRS), the tokens, and the time of a decision. The package llm/eval of
the sources says how a case is written.`,
		Example: `  cortex eval decisions
  cortex eval decisions --llm openai/gpt-5.4-mini --language en,de
  cortex eval decisions --llm ollama/qwen3 --parallel 1 --about order --wrong
  cortex eval decisions --llm openai --prompts my-prompts --json
  cortex eval decisions --agents agents.jsonl --cases cases.jsonl`,
		Args: typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := c.Flags()
	f.StringVar(&d.agents, "agents", "", "`FILE`: agents, in the place of Cortex's own")
	f.StringVar(&d.cases, "cases", "", "`FILE`: cases, in the place of Cortex's own")
	f.StringSliceVar(&d.languages, "language", nil, "`TAG`: only cases in this language, such as en")
	f.StringSliceVar(&d.abouts, "about", nil, "`WORDS`: only cases about this, such as order")
	f.IntVar(&d.parallel, "parallel", 4, "`N`: decisions at a time")
	f.BoolVar(&d.wrong, "wrong", false, "list the cases that are wrong")
	f.BoolVar(&d.asJSON, "json", false, "as JSON: the sums; with --wrong a line for each case as well")
	n := e.settings.node
	f.StringVar(&n.llm, "llm", "fake", "`NAME`: the model to measure")
	f.StringVar(&n.model, "model", "", "`MODEL`: instead of the endpoint's default")
	f.StringVar(&n.prompts, "prompts", "", "`DIR`: templates that replace the built-in ones")
	f.DurationVar(&n.llmTimeout, "llm-timeout", time.Minute, "`TIME`: the longest a decision may take")
	setting(f, "llm", "model", "prompts", "llm-timeout")
	return c
}

func (d *decisionsEval) run(ctx context.Context) error {
	if d.parallel < 1 || d.parallel > maxEvalParallel {
		return usagef("--parallel %d: it is from 1 to %d", d.parallel, maxEvalParallel)
	}
	cases, err := d.read(ctx)
	if err != nil {
		return err
	}
	e := d.env
	templates, err := prompt.New(e.settings.node.prompts)
	if err != nil {
		return e.settings.wrong("prompts", ": %w", err)
	}
	decider, closeLLM, err := e.settings.openDecider(ctx, templates, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	bar := screen.NewBar(e.stderr)
	all, err := eval.Run(ctx, decider, cases, &eval.Options{
		Parallel: d.parallel, Timeout: e.settings.node.llmTimeout,
		Done: func(n int) { bar.Draw(fmt.Sprintf("%d of %d cases", n, len(cases)), n, len(cases)) },
	})
	bar.Erase()
	if closed := closeLLM(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("after %d of %d cases: %w", len(all), len(cases), err)
	}
	if d.asJSON {
		return d.printJSON(all)
	}
	return d.print(all)
}

// read returns the cases that are asked for.
func (d *decisionsEval) read(ctx context.Context) ([]eval.Case, error) {
	cases, err := eval.Own()
	switch {
	case (d.agents == "") != (d.cases == ""):
		return nil, usagef("--agents and --cases belong together: cases name agents; `cortex eval decisions --help` shows both")
	case d.agents != "":
		var agents, text []byte
		if agents, err = document.Read(ctx, d.agents, eval.MaxFile); err != nil {
			return nil, err
		}
		if text, err = document.Read(ctx, d.cases, eval.MaxFile); err != nil {
			return nil, err
		}
		cases, err = eval.Read(agents, text)
	}
	if err != nil {
		return nil, err
	}
	abouts, languages := map[string]bool{}, map[string]bool{}
	for i := range cases {
		abouts[cases[i].About], languages[cases[i].Language] = true, true
	}
	for _, w := range d.abouts {
		if !abouts[w] {
			return nil, usagef("--about %q: no case is; they are about %s", w, llms.Names(abouts))
		}
	}
	for _, w := range d.languages {
		if !languages[w] {
			return nil, usagef("--language %q: no case is; they are in %s", w, llms.Names(languages))
		}
	}
	return slices.DeleteFunc(cases, func(c eval.Case) bool {
		return len(d.abouts) > 0 && !slices.Contains(d.abouts, c.About) || len(d.languages) > 0 && !slices.Contains(d.languages, c.Language)
	}), nil
}

func (d *decisionsEval) printJSON(all []eval.Outcome) error {
	enc := json.NewEncoder(d.env.stdout)
	for i := range all {
		if d.wrong {
			if err := enc.Encode(&all[i]); err != nil {
				return err
			}
		}
	}
	return enc.Encode(eval.Summarize(all))
}

func (d *decisionsEval) print(all []eval.Outcome) error {
	e, r := d.env, eval.Summarize(all)
	if d.wrong {
		t := table.New("CASE", "WRONG")
		t.Wrap = true
		for i := range all {
			if o := &all[i]; !o.Verdict.Right() {
				t.Row(o.Case, repl.Sanitize(strings.Join(o.Verdict.Wrong, "; ")))
			}
		}
		if r.All.Right < r.All.Cases {
			if err := e.show(t); err != nil {
				return err
			}
			if err := e.write("\n"); err != nil {
				return err
			}
		}
	}
	t := table.New("CASES", "N", "RIGHT", "KIND", "AGENTS", "ORDER", "ARGS", "SAY", "REPAIRS", "P50")
	for _, row := range slices.Concat(r.About, r.Language, []eval.Row{r.All}) {
		share := func(n int) string { return fmt.Sprintf("%d %%", (200*n+row.Cases)/(2*row.Cases)) }
		t.Row(row.Name, fmt.Sprint(row.Cases), share(row.Right), share(row.Kind), share(row.Agents), share(row.Order), share(row.Arguments), share(row.Say),
			fmt.Sprint(row.Repairs), secondsText(row.P50))
	}
	if err := e.showWhole(t); err != nil {
		return err
	}
	if r.All.Usage.Tokens() > 0 {
		e.tell("%s; p99 %s", view.UsageLine(r.All.Usage), secondsText(r.All.P99))
	}
	switch wrong := r.All.Cases - r.All.Right; {
	case r.All.Failed > 0 && d.wrong:
		e.say("%d of %d cases have no decision, since the model failed", r.All.Failed, r.All.Cases)
	case r.All.Failed > 0:
		e.say("%d of %d cases have no decision, since the model failed: --wrong says why", r.All.Failed, r.All.Cases)
	case wrong > 0 && !d.wrong:
		e.say("%d of %d cases are wrong: --wrong lists them", wrong, r.All.Cases)
	}
	return nil
}

// secondsText formats the time of a decision.
func secondsText(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.1f s", s)
}
