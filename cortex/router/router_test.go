package router_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// card returns a card with one skill that has the same description.
func card(name, description string, examples ...string) *a2a.AgentCard {
	return &a2a.AgentCard{Name: name, Description: description, Skills: []a2a.AgentSkill{
		{ID: "only", Name: name, Description: description, Examples: examples},
	}}
}

// agents returns the cards of testdata, by id.
func agents(t testing.TB) map[string]*a2a.AgentCard {
	t.Helper()
	m := map[string]*a2a.AgentCard{}
	lines(t, "testdata/agents.jsonl", func(line []byte) error {
		var a struct {
			ID string
			a2a.AgentCard
		}
		err := json.Unmarshal(line, &a)
		m[a.ID] = &a.AgentCard
		return err
	})
	return m
}

type request struct {
	Query  string
	Agents []string
}

// requests returns the requests of testdata.
func requests(t testing.TB) []request {
	t.Helper()
	var rs []request
	lines(t, "testdata/queries.jsonl", func(line []byte) error {
		var r request
		err := json.Unmarshal(line, &r)
		rs = append(rs, r)
		return err
	})
	return rs
}

func lines(t testing.TB, file string, read func([]byte) error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if err := read(s.Bytes()); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// put adds all of the cards to a new index.
func put(cards map[string]*a2a.AgentCard) *router.Index {
	x := router.New(nil)
	for id, c := range cards {
		x.Put(id, c)
	}
	return x
}

// first returns the id and score of the best hit, or "".
func first(x *router.Index, text string) (string, float64) {
	hits := x.Search(text, nil)
	if len(hits) == 0 {
		return "", 0
	}
	return hits[0].ID, hits[0].Score
}

// scoreOf returns an agent's score, 0 if it is not among the hits.
func scoreOf(x *router.Index, id, text string) float64 {
	for _, h := range x.Search(text, &router.SearchOptions{Limit: 1000}) {
		if h.ID == id {
			return h.Score
		}
	}
	return 0
}

func ids(hits []router.Hit) string {
	var s []string
	for _, h := range hits {
		s = append(s, h.ID)
	}
	return strings.Join(s, " ")
}
