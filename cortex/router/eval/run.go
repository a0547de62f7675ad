package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// Config configures Run. Agents, Queries and K are required.
type Config struct {
	Agents  []string         // files of agents
	Queries string           // file of queries
	OOS     string           // file of queries that no agent fits; "": none
	Learn   string           // file of queries to learn from first; "": none
	Multi   bool             // every listed agent of a query is needed, rather than any
	K       []int            // numbers of first hits to look at
	New     int              // every nth agent learns nothing, and its queries are reported separately; 0: none
	Grow    int              // add agents until there are this many; see the package documentation
	Now     func() time.Time // when the queries of Learn were answered; nil is time.Now
}

// Run measures a new router.Index with all agents of c. Errors name the file and line. It stops when ctx ends.
func Run(ctx context.Context, c Config) (*Report, error) {
	if len(c.Agents) == 0 || c.Queries == "" {
		return nil, errors.New("files of agents and of queries are needed")
	}
	if err := CheckK(c.K); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	d, err := readAgents(ctx, c.Agents)
	if err != nil {
		return nil, err
	}
	queries, err := readQueries(ctx, c.Queries, d, c.Multi, false)
	if err != nil {
		return nil, err
	}
	var oos []*Query
	if c.OOS != "" {
		if oos, err = readQueries(ctx, c.OOS, d, false, true); err != nil {
			return nil, err
		}
	}
	learned := new(lesson)
	if c.Learn != "" {
		if learned, err = readLesson(ctx, c.Learn, d, c.Now()); err != nil {
			return nil, err
		}
	}
	if c.New > 0 {
		d.renew(c.New, queries, learned)
	}
	repeated, err := d.grow(c.Grow, needed(queries, learned))
	if err != nil {
		return nil, err
	}
	x, rate, memory, err := fill(ctx, d, learned, c.Now)
	if err != nil {
		return nil, err
	}
	r, err := Measure(ctx, x, slices.Concat(queries, oos), c.K)
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", c.Queries, err)
		}
		return nil, err
	}
	r.Agents, r.Repeated, r.Queries, r.PutPerSecond, r.Memory = len(d.agents), repeated, len(queries), rate, memory
	for _, q := range queries {
		if learned.texts[q.Text] {
			r.Shared++
		}
	}
	return r, nil
}

// needed returns the agents that queries need, or that have evidence.
func needed(queries []*Query, learned *lesson) map[string]bool {
	m := map[string]bool{}
	for _, q := range queries {
		for _, id := range slices.Concat(q.Needs...) {
			m[id] = true
		}
	}
	for id := range learned.evidence {
		m[id] = true
	}
	return m
}

// renew removes the evidence of every nth agent, and marks the queries that no other agent fits.
func (d *directory) renew(n int, queries []*Query, learned *lesson) {
	fresh := map[string]bool{}
	for i := n - 1; i < len(d.agents); i += n {
		fresh[d.agents[i].id] = true
		delete(learned.evidence, d.agents[i].id)
	}
	for _, q := range queries {
		q.New = q.inScope() && !slices.ContainsFunc(slices.Concat(q.Needs...), func(id string) bool { return !fresh[id] })
	}
}

// fill returns an index of d's agents with their evidence, how many agents per second it added, and its size in bytes.
func fill(
	ctx context.Context, d *directory, learned *lesson, now func() time.Time,
) (x *router.Index, rate float64, size int64, err error) {
	before := heap()
	x = router.New(&router.Options{Now: now})
	start := time.Now()
	for _, a := range d.agents {
		if ctx.Err() != nil {
			return nil, 0, 0, ctx.Err()
		}
		x.Put(a.id, &a.card)
	}
	rate = float64(len(d.agents)) / max(time.Since(start).Seconds(), 1e-9)
	for _, a := range d.agents {
		if evidence := learned.evidence[a.id]; len(evidence) > 0 {
			x.Learn(a.id, evidence)
		}
	}
	size = heap() - before
	runtime.KeepAlive(d) // d counts in both heap sizes
	runtime.KeepAlive(learned)
	return x, rate, size, nil
}

// heap returns the number of bytes in use. The second collection frees what pools have kept after the first.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
