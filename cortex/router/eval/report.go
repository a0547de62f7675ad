package eval

import "math"

// Report is what was measured; the package doc has the definitions. Shares are from 0 to 1, rounded to 4 digits.
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

	// Top1 of the queries that are New, and of the others; nil unless there are both.
	Top1New    *float64 `json:"top1_new,omitempty"`
	Top1Others *float64 `json:"top1_others,omitempty"`

	InScope      int     `json:"-"` // queries that some agent fits
	OutOfScope   int     `json:"-"` // queries that none fits, of both files
	Repeated     int     `json:"-"` // agents that repeat others, for Config.Grow
	Shared       int     `json:"-"` // queries of Config.Queries that were learned from
	PutPerSecond float64 `json:"-"` // agents that the index takes in a second
	Memory       int64   `json:"-"` // bytes of the index, with what it learned
}

// round keeps so many digits after the point.
func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}

func share(x float64) float64 { return round(x, 4) }
