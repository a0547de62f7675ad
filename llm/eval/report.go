package eval

import (
	"slices"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Row counts the outcomes of some cases.
type Row struct {
	Name      string `json:"name"` // of what the cases are about, of their language, or "all"
	Cases     int    `json:"cases"`
	Right     int    `json:"right"` // in every part
	Kind      int    `json:"kind"`
	Agents    int    `json:"agents"`
	Order     int    `json:"order"`
	Arguments int    `json:"arguments"`
	Say       int    `json:"say"`
	Repairs   int    `json:"repairs"` // how often the model had to be corrected
	Failed    int    `json:"failed"`  // cases without a decision
	// Usage is the sum of all calls.
	Usage llm.Usage `json:"usage"`
	// P50 and P99 are seconds until the decision was there.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Report counts outcomes: by what they are about and by language, in the order in which these appear first, and all together.
type Report struct {
	About    []Row `json:"about"`
	Language []Row `json:"language"`
	All      Row   `json:"all"`
}

// Summarize counts outcomes.
func Summarize(all []Outcome) *Report {
	return &Report{
		About:    rows(all, func(o *Outcome) string { return o.About }),
		Language: rows(all, func(o *Outcome) string { return o.Language }),
		All:      count("all", all),
	}
}

func rows(all []Outcome, name func(*Outcome) string) []Row {
	var names []string
	of := map[string][]Outcome{}
	for i := range all {
		n := name(&all[i])
		if of[n] == nil {
			names = append(names, n)
		}
		of[n] = append(of[n], all[i])
	}
	var out []Row
	for _, n := range names {
		out = append(out, count(n, of[n]))
	}
	return out
}

func count(name string, all []Outcome) Row {
	r := Row{Name: name, Cases: len(all)}
	var seconds []float64
	for i := range all {
		o := &all[i]
		for part, right := range map[*int]bool{
			&r.Right: o.Verdict.Right(), &r.Kind: o.Verdict.Kind, &r.Agents: o.Verdict.Agents, &r.Order: o.Verdict.Order,
			&r.Arguments: o.Verdict.Arguments, &r.Say: o.Verdict.Say, &r.Failed: o.Decision == nil,
		} {
			if right {
				*part++
			}
		}
		r.Repairs += o.Repairs
		r.Usage = r.Usage.Add(o.Usage)
		seconds = append(seconds, o.Seconds)
	}
	if slices.Sort(seconds); len(seconds) > 0 {
		r.P50, r.P99 = seconds[(len(seconds)-1)/2], seconds[(len(seconds)-1)*99/100]
	}
	return r
}
