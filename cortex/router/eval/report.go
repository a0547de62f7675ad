package eval

import "math"

// Report is the result of a measurement; the package documentation has the definitions. Shares are from 0 to 1, rounded to 4 digits.
type Report struct {
	Agents      int             `json:"agents"`
	Queries     int             `json:"queries"` // of Config.Queries, in scope or not
	Top1        float64         `json:"top1"`
	Recall      map[int]float64 `json:"recall"` // by k
	All         map[int]float64 `json:"all"`    // by k
	AUROC       *float64        `json:"auroc"`  // nil, like the next two, without queries out of scope
	OOSRefused  *float64        `json:"oos_refused"`
	InScopeKept *float64        `json:"in_scope_kept"`
	P50         float64         `json:"p50_us"` // microseconds
	P99         float64         `json:"p99_us"` // microseconds

	// Top1 of the queries with and without New; nil unless there are both.
	Top1New    *float64 `json:"top1_new,omitempty"`
	Top1Others *float64 `json:"top1_others,omitempty"`

	InScope      int     `json:"-"` // queries that some agent fits
	OutOfScope   int     `json:"-"` // queries that no agent fits, of both files
	Repeated     int     `json:"-"` // agents that repeat others, for Config.Grow
	Shared       int     `json:"-"` // queries of Config.Queries that are also in Config.Learn
	PutPerSecond float64 `json:"-"` // agents that the index adds per second
	Memory       int64   `json:"-"` // bytes of the index, including evidence
}

// round rounds x to this many decimals.
func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}

func share(x float64) float64 { return round(x, 4) }
