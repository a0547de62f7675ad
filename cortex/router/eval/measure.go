package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// Searcher finds agents; *router.Index is one.
type Searcher interface {
	// Search returns the agents that fit text, the best first.
	Search(text string, o *router.SearchOptions) []router.Hit
}

// warmUp is the number of searches before the measured ones.
const warmUp = 100

// maxK bounds the number of hits of a search.
const maxK = 10_000

// CheckK returns an error unless ks has at least one number, and all are from 1 to 10,000.
func CheckK(ks []int) error {
	if len(ks) == 0 {
		return errors.New("no number of first hits is given: 5,10,20 is usual")
	}
	for _, k := range ks {
		if k < 1 || k > maxK {
			return fmt.Errorf("%d first hits cannot be looked at: give a number from 1 to %d", k, maxK)
		}
	}
	return nil
}

// Measure searches s for all queries, one after the other, and reports the results for each number k of first hits. It sets the shares, the times,
// InScope and OutOfScope, and Queries to the number of all queries. It returns an error when CheckK does, when no query is in scope, and when ctx
// ends.
func Measure(ctx context.Context, s Searcher, queries []*Query, ks []int) (*Report, error) {
	if err := CheckK(ks); err != nil {
		return nil, err
	}
	ks = slices.Compact(slices.Sorted(slices.Values(ks)))
	if !slices.ContainsFunc(queries, (*Query).inScope) {
		return nil, errors.New("no query has an agent that fits: top-1 and recall need some")
	}
	limit := slices.Max(ks)
	for i := range warmUp {
		s.Search(queries[i%len(queries)].Text, queries[i%len(queries)].options(limit))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	r := &Report{Queries: len(queries), Recall: map[int]float64{}, All: map[int]float64{}}
	var inScope, outOfScope []float64 // best scores
	var fresh, freshTop1 float64      // queries of New
	times := make([]time.Duration, 0, len(queries))
	for _, q := range queries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o := q.options(limit)
		start := time.Now()
		hits := s.Search(q.Text, o)
		times = append(times, time.Since(start))
		best := 0.0
		if len(hits) > 0 {
			best = hits[0].Score
		}
		if !q.inScope() {
			outOfScope = append(outOfScope, best)
			continue
		}
		inScope = append(inScope, best)
		if q.New {
			fresh++
		}
		if q.met(hits[:min(1, len(hits))]) > 0 {
			r.Top1++
			if q.New {
				freshTop1++
			}
		}
		for _, k := range ks {
			met := q.met(hits[:min(k, len(hits))])
			r.Recall[k] += float64(met) / float64(len(q.Needs))
			if met == len(q.Needs) {
				r.All[k]++
			}
		}
	}
	r.InScope, r.OutOfScope = len(inScope), len(outOfScope)
	n := float64(len(inScope))
	if fresh > 0 && fresh < n {
		ofNew, ofOthers := share(freshTop1/fresh), share((r.Top1-freshTop1)/(n-fresh))
		r.Top1New, r.Top1Others = &ofNew, &ofOthers
	}
	r.Top1 = share(r.Top1 / n)
	for _, k := range ks {
		r.Recall[k], r.All[k] = share(r.Recall[k]/n), share(r.All[k]/n)
	}
	if len(outOfScope) > 0 {
		auroc := share(auroc(inScope, outOfScope))
		refused, kept := share(1-fitting(outOfScope)), share(fitting(inScope))
		r.AUROC, r.OOSRefused, r.InScopeKept = &auroc, &refused, &kept
	}
	slices.Sort(times)
	r.P50, r.P99 = percentile(times, 50), percentile(times, 99)
	return r, nil
}

// options returns the search options for q.
func (q *Query) options(limit int) *router.SearchOptions {
	o := &router.SearchOptions{Limit: limit}
	if len(q.Pool) > 0 {
		o.Keep = func(id string) bool { return slices.Contains(q.Pool, id) }
	}
	return o
}

// met returns the number of needs that hits meet.
func (q *Query) met(hits []router.Hit) int {
	n := 0
	for _, need := range q.Needs {
		if slices.ContainsFunc(hits, func(h router.Hit) bool { return slices.Contains(need, h.ID) }) {
			n++
		}
	}
	return n
}

// auroc returns the share of pairs of a score in scope and one out of scope in which the first is higher; a tie counts one half. It sorts out.
func auroc(in, out []float64) float64 {
	slices.Sort(out)
	sum := 0.0
	for _, score := range in {
		below, _ := slices.BinarySearch(out, score)
		notAbove, _ := slices.BinarySearchFunc(out, score, func(o, score float64) int {
			if o <= score {
				return -1
			}
			return 1
		})
		sum += float64(below+notAbove) / 2
	}
	return sum / float64(len(in)) / float64(len(out))
}

// fitting returns the share of scores that say that an agent fits.
func fitting(scores []float64) float64 {
	n := 0
	for _, s := range scores {
		if s >= router.Fits {
			n++
		}
	}
	return float64(n) / float64(len(scores))
}

// percentile returns the smallest of the sorted times that at least p percent of them do not exceed, in microseconds with one decimal.
func percentile(times []time.Duration, p int) float64 {
	t := times[(len(times)*p+99)/100-1]
	return round(float64(t)/float64(time.Microsecond), 1)
}
