package eval

import (
	"context"
	"slices"
	"strings"
)

// Query is a request with a known correct answer.
type Query struct {
	Text string
	// Needs are lists of agents' ids; one agent of each list is needed. Empty: no agent fits, so the query is out of scope.
	Needs [][]string
	// Pool has the ids of the only agents that are offered. Empty: all are.
	Pool []string
	// New says that the needed agents have no evidence, so that the query counts in Report.Top1New.
	New bool
}

func (q *Query) inScope() bool { return len(q.Needs) > 0 }

// queryLine is a query in a file.
type queryLine struct {
	Query  string     `json:"query"`
	Agents []string   `json:"agents"`
	AnyOf  [][]string `json:"any_of"`
	Pool   []string   `json:"pool"`
}

// readQueries reads a file of queries, whose ids must all be in d. With multi each listed agent is a need of its own; with outOfScope a query must
// have no needs.
func readQueries(ctx context.Context, file string, d *directory, multi, outOfScope bool) ([]*Query, error) {
	var queries []*Query
	err := readLines(ctx, file, func(at place, l *queryLine) error {
		q, err := l.resolve(at, d, multi)
		if err == nil && outOfScope && q.inScope() {
			return at.errorf("a query has agents: --oos is for queries that no agent fits")
		}
		queries = append(queries, q)
		return err
	})
	return queries, err
}

func (l *queryLine) resolve(at place, d *directory, multi bool) (*Query, error) {
	switch {
	case strings.TrimSpace(l.Query) == "":
		return nil, at.errorf(`a query has no text in "query"`)
	case l.Agents == nil && len(l.AnyOf) == 0:
		return nil, at.errorf(`a query has no "agents": write [] when no agent fits`)
	}
	groups := [][]string{l.Agents}
	if multi {
		groups = nil
		for _, id := range l.Agents {
			groups = append(groups, []string{id})
		}
	}
	q := &Query{Text: l.Query, Pool: l.Pool}
	for _, group := range slices.Concat(groups, l.AnyOf) {
		var need []string
		for _, id := range group {
			agents, _, err := d.resolve(at, id)
			if err != nil {
				return nil, err
			}
			need = append(need, agents...)
		}
		if len(need) > 0 {
			q.Needs = append(q.Needs, need)
		}
	}
	for _, id := range l.Pool {
		if _, ok := d.ids[id]; !ok {
			return nil, at.errorf("no agent of the pool is called %s: name the file it is in with --agents", short(id))
		}
	}
	for _, need := range q.Needs {
		if len(l.Pool) > 0 && !slices.ContainsFunc(need, func(id string) bool { return slices.Contains(l.Pool, id) }) {
			return nil, at.errorf("%s is needed and not in the pool", short(need[0]))
		}
	}
	return q, nil
}
