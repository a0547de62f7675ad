package eval_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/router/eval"
)

// scripted returns the hits that are listed for a text, filtered. Like a careless searcher it ignores the limit.
type scripted map[string][]router.Hit

func (s scripted) Search(text string, o *router.SearchOptions) []router.Hit {
	var hits []router.Hit
	for _, h := range s[text] {
		if o.Keep == nil || o.Keep(h.ID) {
			hits = append(hits, h)
		}
	}
	return hits
}

// TestMeasure compares with manually computed figures.
func TestMeasure(t *testing.T) {
	for name, c := range map[string]struct {
		found   scripted
		queries []*eval.Query
		ks      []int
		want    eval.Report
	}{
		"one needed": {
			found: scripted{"first": {{ID: "a", Score: 0.9}, {ID: "b", Score: 0.4}}, "second": {{ID: "a", Score: 0.6}, {ID: "b", Score: 0.5}}},
			queries: []*eval.Query{
				{Text: "first", Needs: [][]string{{"a"}}},
				{Text: "second", Needs: [][]string{{"b"}}},
				{Text: "nothing is found", Needs: [][]string{{"c"}}},
			},
			ks: []int{1, 2, 2}, // the same k twice counts once
			want: eval.Report{
				Queries: 3, InScope: 3, Top1: 0.3333,
				Recall: map[int]float64{1: 0.3333, 2: 0.6667}, All: map[int]float64{1: 0.3333, 2: 0.6667},
			},
		},
		"any of several": {
			found:   scripted{"q": {{ID: "x", Score: 0.9}, {ID: "b", Score: 0.9}}, "r": {{ID: "b", Score: 0.9}}},
			queries: []*eval.Query{{Text: "q", Needs: [][]string{{"a", "b"}}}, {Text: "r", Needs: [][]string{{"a", "b"}}}},
			ks:      []int{1, 5},
			want: eval.Report{
				Queries: 2, InScope: 2, Top1: 0.5,
				Recall: map[int]float64{1: 0.5, 5: 1}, All: map[int]float64{1: 0.5, 5: 1},
			},
		},
		"several needed": {
			found: scripted{"q": {{ID: "b"}, {ID: "x"}, {ID: "a"}}, "r": {{ID: "a"}, {ID: "b"}}},
			queries: []*eval.Query{
				{Text: "q", Needs: [][]string{{"a"}, {"b"}, {"c"}}}, // 1/3 of the first two, 2/3 of the first three
				{Text: "r", Needs: [][]string{{"b"}, {"a"}}},
			},
			ks: []int{3, 2},
			want: eval.Report{
				Queries: 2, InScope: 2, Top1: 1,
				Recall: map[int]float64{2: 0.6667, 3: 0.8333}, All: map[int]float64{2: 0.5, 3: 0.5},
			},
		},
		"one of each list needed": {
			found:   scripted{"q": {{ID: "c"}, {ID: "b"}, {ID: "a"}}},
			queries: []*eval.Query{{Text: "q", Needs: [][]string{{"a"}, {"b", "c"}}}},
			ks:      []int{1, 2, 3},
			want: eval.Report{
				Queries: 1, InScope: 1, Top1: 1,
				Recall: map[int]float64{1: 0.5, 2: 0.5, 3: 1}, All: map[int]float64{1: 0, 2: 0, 3: 1},
			},
		},
		"out of scope": {
			found: scripted{
				"in 1": {{ID: "a", Score: 0.9}, {ID: "b", Score: 0.8}}, "in 2": {{ID: "a", Score: 0.5}}, "in 3": {{ID: "a", Score: 0.2}},
				"out 1": {{ID: "a", Score: 0.5}, {ID: "b", Score: 0.1}}, "out 2": {{ID: "a", Score: 0.1}}, "out 3": {{ID: "a", Score: 0.7}},
			},
			queries: []*eval.Query{
				{Text: "out 1"},
				{Text: "out 2"},
				{Text: "in 1", Needs: [][]string{{"a"}}},
				{Text: "out 3"},
				{Text: "in 2", Needs: [][]string{{"a"}}},
				{Text: "in 3", Needs: [][]string{{"b"}}},
				{Text: "nothing is found"},
			},
			ks: []int{1},
			want: eval.Report{
				Queries: 7, InScope: 3, OutOfScope: 4, Top1: 0.6667, Recall: map[int]float64{1: 0.6667}, All: map[int]float64{1: 0.6667},
				AUROC:      new(0.7083), // 0.9 is above all 4, 0.5 above 2 and equal to one, 0.2 above 2: 8.5 of 12 pairs
				OOSRefused: new(0.5), InScopeKept: new(0.6667),
			},
		},
		"pool": {
			found: scripted{
				"in": {{ID: "a", Score: 0.6}}, "inside": {{ID: "b", Score: 0.9}, {ID: "a", Score: 0.8}},
				"out": {{ID: "a", Score: 0.9}, {ID: "b", Score: 0.3}},
			},
			queries: []*eval.Query{
				{Text: "in", Needs: [][]string{{"a"}}},
				{Text: "inside", Needs: [][]string{{"a"}}, Pool: []string{"a", "c"}},
				{Text: "out", Pool: []string{"b"}},
			},
			ks: []int{1},
			want: eval.Report{
				Queries: 3, InScope: 2, OutOfScope: 1, Top1: 1, Recall: map[int]float64{1: 1}, All: map[int]float64{1: 1},
				AUROC: new(1.0), OOSRefused: new(1.0), InScopeKept: new(1.0),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := eval.Measure(t.Context(), c.found, c.queries, c.ks)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&c.want, got, cmpopts.IgnoreFields(eval.Report{}, "P50", "P99")); d != "" {
				t.Errorf("Measure (-want +got):\n%s", d)
			}
		})
	}
}

// slow takes as many microseconds for a search as its text says, and an hour for each of the first hundred. It records the limits.
type slow struct{ limits []int }

func (s *slow) Search(text string, o *router.SearchOptions) []router.Hit {
	s.limits = append(s.limits, o.Limit)
	us, _ := strconv.Atoi(text)
	d := time.Duration(us) * time.Microsecond
	if len(s.limits) <= 100 {
		d = time.Hour
	}
	<-time.After(d)
	return nil
}

// TestMeasureTimes checks that the time of each search counts except the first hundred, and that no more hits are requested than needed.
func TestMeasureTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries []*eval.Query
		for us := range 300 {
			queries = append(queries, &eval.Query{Text: strconv.Itoa(300 - us), Needs: [][]string{{"a"}}})
		}
		s := new(slow)
		r, err := eval.Measure(t.Context(), s, queries, []int{3, 7, 5})
		if err != nil {
			t.Fatal(err)
		}
		if r.P50 != 150 || r.P99 != 297 {
			t.Errorf("p50 %v µs, p99 %v µs of searches of 1 to 300 µs, want 150 and 297", r.P50, r.P99)
		}
		for _, limit := range s.limits {
			if limit != 7 {
				t.Fatalf("%d hits were asked for, want 7", limit)
			}
		}
		if len(s.limits) != 400 {
			t.Errorf("%d searches, want 100 and one for each of 300 queries", len(s.limits))
		}
	})
}

func TestMeasureRefuses(t *testing.T) {
	in := []*eval.Query{{Text: "q", Needs: [][]string{{"a"}}}}
	for name, c := range map[string]struct {
		queries []*eval.Query
		ks      []int
		want    string
	}{
		"no k":           {in, nil, "no number of first hits is given: 5,10,20 is usual"},
		"k of 0":         {in, []int{5, 0}, "0 first hits cannot be looked at: give a number from 1 to 10000"},
		"k without end":  {in, []int{math.MaxInt}, "9223372036854775807 first hits cannot be looked at: give a number from 1 to 10000"},
		"no queries":     {nil, []int{1}, "no query has an agent that fits: top-1 and recall need some"},
		"none in scope":  {[]*eval.Query{{Text: "q"}}, []int{1}, "no query has an agent that fits: top-1 and recall need some"},
		"nothing at all": {nil, nil, "no number of first hits is given: 5,10,20 is usual"},
	} {
		if _, err := eval.Measure(t.Context(), scripted{}, c.queries, c.ks); err == nil || err.Error() != c.want {
			t.Errorf("%s: Measure says %v, want %s", name, err, c.want)
		}
	}
}

// stopper cancels during its nth search.
type stopper struct {
	n, searches int
	cancel      func()
}

func (s *stopper) Search(string, *router.SearchOptions) []router.Hit {
	if s.searches++; s.searches == s.n {
		s.cancel()
	}
	return nil
}

// TestMeasureStops cancels a measurement during and after the warm-up.
func TestMeasureStops(t *testing.T) {
	queries := make([]*eval.Query, 50)
	for i := range queries {
		queries[i] = &eval.Query{Text: "q", Needs: [][]string{{"a"}}}
	}
	for _, n := range []int{10, 110} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &stopper{n: n, cancel: cancel}
		if _, err := eval.Measure(ctx, s, queries, []int{1}); !errors.Is(err, context.Canceled) || s.searches != n {
			t.Errorf("canceled in search %d: Measure searches %d times and says %v", n, s.searches, err)
		}
	}
}
