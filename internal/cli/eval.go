package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/router/eval"
	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/repl"
)

func (e *env) newEval() *cobra.Command {
	c := &cobra.Command{
		Use:     "eval",
		Short:   "Measure how well Cortex chooses and decides",
		Example: "  cortex eval routing --agents agents.jsonl --queries queries.jsonl\n  cortex eval decisions --llm openai",
		Args:    typed.Exact(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(e.newEvalRouting(), e.newEvalDecisions())
	return c
}

func (e *env) newEvalRouting() *cobra.Command {
	var config eval.Config
	var asJSON bool
	c := &cobra.Command{
		Use:   "routing",
		Short: "Measure how well the agents that fit a request are found",
		Long: `Measure how well the agents that fit a request are found, on requests whose right agents are known. No model is asked and
nothing has to run. Files have one JSON object on each line:

    agents   {"id":"weather","name":"Weather","description":"…",
              "skills":[{"id":"now","name":"…","description":"…","examples":["…"],
              "tags":["…"]}]}
    queries  {"query":"will it rain?","agents":["weather"]}
             no agents: no agent fits, the query is out of scope. An id that is no agent's is a skill's: its agents are right.
             "any_of":[["a","b"],["c","d"]]: one agent of each list is needed as well. "pool":["a","b"]: only these are offered.

What is printed:

    top-1           queries in scope whose best hit is one of their agents
    recall@k        mean share of what a query needs that is among its first k hits
    all@k           queries in scope with all that they need among the first k hits
    AUROC           how likely a query in scope has a higher best score than one out of scope; a tie is a half
    refused         queries out of scope whose best score is below the threshold for "some agent fits"
    kept            queries in scope whose best score is not below it
    search p50/p99  wall time of one search, one at a time

A query with several agents is right with any one of them; with --multi it needs them all.`,
		Example: `  cortex eval routing --agents agents.jsonl --queries queries.jsonl
  cortex eval routing --agents agents.jsonl --agents more.jsonl --queries queries.jsonl --oos queries_oos.jsonl --json
  cortex eval routing --agents agents.jsonl --queries second_half.jsonl --learn first_half.jsonl --k 1,3`,
		Args: typed.Exact(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(config.Agents) == 0:
				return usagef("--agents is missing: name a file of agents; `cortex eval routing --help` shows its form")
			case config.Queries == "":
				return usagef("--queries is missing: name a file of queries; `cortex eval routing --help` shows its form")
			}
			if err := eval.CheckK(config.K); err != nil {
				return usagef("--k: %w", err)
			}
			r, err := eval.Run(cmd.Context(), config)
			if err != nil {
				return err
			}
			if r.Shared > 0 {
				e.say("note: %d queries of %s were learned from %s", r.Shared, repl.Sanitize(config.Queries), repl.Sanitize(config.Learn))
			}
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(r)
			}
			return e.printRouting(r, config.K)
		},
	}
	c.Flags().StringSliceVar(&config.Agents, "agents", nil, "`FILE`: agents; repeat it for several files")
	c.Flags().StringVar(&config.Queries, "queries", "", "`FILE`: queries")
	c.Flags().StringVar(&config.OOS, "oos", "", "`FILE`: queries that no agent fits")
	c.Flags().StringVar(&config.Learn, "learn", "", "`FILE`: queries that count as earlier, completed delegations")
	c.Flags().BoolVar(&config.Multi, "multi", false, "every agent of a query is needed, not just one of them")
	c.Flags().IntSliceVar(&config.K, "k", []int{5, 10, 20}, "`HITS`: number of results to look at")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON, on one line")
	c.Flags().IntVar(&config.New, "new", 0, "`N`: every Nth agent learns nothing, and its queries are counted separately")
	c.Flags().IntVar(&config.Grow, "grow", 0, "`N`: add agents that no query needs up to this number")
	c.Flags().MarkHidden("grow") //nolint:errcheck // the flag is there
	return c
}

func (e *env) printRouting(r *eval.Report, ks []int) error {
	percent := func(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }
	t := table.New("MEASURE", "VALUE", "")
	t.Row("agents", fmt.Sprint(r.Agents), fmt.Sprintf("%.0f a second, %.1f MB of index", r.PutPerSecond, float64(r.Memory)/1e6))
	if r.Repeated > 0 {
		t.Row("repeated", fmt.Sprint(r.Repeated), "of the agents, to make them so many")
	}
	t.Row("queries", fmt.Sprint(r.Queries), fmt.Sprintf("%d in scope, %d out of scope", r.InScope, r.OutOfScope))
	t.Row("top-1", percent(r.Top1))
	if r.Top1New != nil {
		t.Row("top-1, new", percent(*r.Top1New), "of the agents that learned nothing")
		t.Row("top-1, others", percent(*r.Top1Others))
	}
	for _, k := range ks {
		t.Row(fmt.Sprint("recall@", k), percent(r.Recall[k]))
	}
	for _, k := range ks {
		t.Row(fmt.Sprint("all@", k), percent(r.All[k]))
	}
	if r.AUROC != nil {
		threshold := fmt.Sprintf("at the threshold of %g", router.Fits)
		t.Row("AUROC", percent(*r.AUROC))
		t.Row("refused", percent(*r.OOSRefused), threshold)
		t.Row("kept", percent(*r.InScopeKept), threshold)
	}
	t.Row("search p50", fmt.Sprintf("%.1f µs", r.P50))
	t.Row("search p99", fmt.Sprintf("%.1f µs", r.P99))
	return e.showWhole(t)
}
