package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// three returns agents, two of which have the same skill.
func three(t *testing.T) *directory {
	t.Helper()
	d, err := readAgents(t.Context(), []string{file(t,
		`{"id":"a","name":"A","description":"does","skills":[{"id":"s","name":"S","examples":["do"],"tags":["t"]},{"id":"s"}]}`,
		`{"id":"b","skills":[{"id":"s"},{"id":"c"}]}`,
	), file(t, `{"id":"c","name":"C"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func file(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReadAgents(t *testing.T) {
	d := three(t)
	if got := len(d.agents); got != 3 {
		t.Fatalf("%d agents, want 3", got)
	}
	card := d.agents[0].card
	if got := card.Name + " " + card.Description + " " + card.Skills[0].Examples[0] + " " + card.Skills[0].Tags[0]; got != "A does do t" {
		t.Errorf("the card says %q, want %q", got, "A does do t")
	}
}

func TestReadQueries(t *testing.T) {
	long := strings.Repeat("long ", 50_000)
	for name, c := range map[string]struct {
		line       string
		any, multi Query
	}{
		"one":            {`{"query":"q","agents":["a"]}`, Query{Text: "q", Needs: [][]string{{"a"}}}, Query{Text: "q", Needs: [][]string{{"a"}}}},
		"several":        {`{"query":"q","agents":["b","a"]}`, Query{Text: "q", Needs: [][]string{{"b", "a"}}}, Query{Text: "q", Needs: [][]string{{"b"}, {"a"}}}},
		"none":           {`{"query":"q","agents":[]}`, Query{Text: "q"}, Query{Text: "q"}},
		"a skill":        {`{"query":"q","agents":["s"]}`, Query{Text: "q", Needs: [][]string{{"a", "b"}}}, Query{Text: "q", Needs: [][]string{{"a", "b"}}}},
		"agent or skill": {`{"query":"q","agents":["c"]}`, Query{Text: "q", Needs: [][]string{{"c"}}}, Query{Text: "q", Needs: [][]string{{"c"}}}},
		"list":           {`{"query":"q","any_of":[["a","b"]]}`, Query{Text: "q", Needs: [][]string{{"a", "b"}}}, Query{Text: "q", Needs: [][]string{{"a", "b"}}}},
		"agent and list": {
			`{"query":"q","agents":["a"],"any_of":[["b","c"],[]]}`,
			Query{Text: "q", Needs: [][]string{{"a"}, {"b", "c"}}},
			Query{Text: "q", Needs: [][]string{{"a"}, {"b", "c"}}},
		},
		"pool": {
			`{"query":"q","agents":["s"],"pool":["c","b"]}`,
			Query{Text: "q", Needs: [][]string{{"a", "b"}}, Pool: []string{"c", "b"}},
			Query{Text: "q", Needs: [][]string{{"a", "b"}}, Pool: []string{"c", "b"}},
		},
		"long": {`{"query":"` + long + `","agents":[]}`, Query{Text: long}, Query{Text: long}},
	} {
		for multi, want := range map[bool]Query{false: c.any, true: c.multi} {
			got, err := readQueries(t.Context(), file(t, c.line), three(t), multi, false)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if d := cmp.Diff([]*Query{&want}, got); d != "" {
				t.Errorf("%s, multi %v (-want +got):\n%s", name, multi, d)
			}
		}
	}
}

func TestReadLesson(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	got, err := readLesson(t.Context(), file(t, `{"query":"x","agents":["c","a"]}`, `{"query":"none","agents":[]}`, `{"query":"y","agents":["s"]}`), three(t), now)
	if err != nil {
		t.Fatal(err)
	}
	x := router.Evidence{ID: "line-0000001", Text: "x", From: "asker-1", Time: now}
	y := router.Evidence{ID: "line-0000003", Text: "y", From: "asker-3", Time: now, Skill: "s"}
	want := &lesson{map[string][]router.Evidence{"a": {x, y}, "b": {y}, "c": {x}}, map[string]bool{"x": true, "none": true, "y": true}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(lesson{})); d != "" {
		t.Errorf("evidence (-want +got):\n%s", d)
	}
}

// TestGrow checks that agents that are not needed are repeated under unused ids.
func TestGrow(t *testing.T) {
	d, err := readAgents(t.Context(), []string{file(t, `{"id":"a","name":"A"}`, `{"id":"b","name":"B"}`, `{"id":"b-3"}`, `{"id":"c"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.grow(8, map[string]bool{"a": true, "c": true}); n != 4 || err != nil {
		t.Fatalf("grow repeats %d, %v, want 4", n, err)
	}
	var ids []string
	for _, a := range d.agents {
		ids = append(ids, a.id)
	}
	if d := cmp.Diff([]string{"a", "b", "b-3", "c", "b-2", "b-3-2", "b-3-3", "b-4"}, ids); d != "" {
		t.Errorf("agents (-want +got):\n%s", d)
	}
	if first, again := d.agents[1].card.Name, d.agents[4].card.Name; first != "B" || again != "B 2" {
		t.Errorf("names %q and %q, want B and B 2", first, again)
	}
}

// TestGrowOfSkills checks that agents are made of skills before any are repeated, unless those would be repetitions.
func TestGrowOfSkills(t *testing.T) {
	const skills = `"skills":[{"id":"s","name":"Sum"},{"id":"t","name":"b"},{"id":"u","name":"Sum","description":"of two"}]`
	for n, want := range map[int][]string{
		4: {"a", "b", "c", "c--s"},
		5: {"a", "b", "c", "c--s", "c--u"}, // a's are needed, b has one, t says what b's card says
		7: {"a", "b", "c", "c--s", "c--u", "b-2", "c-2"},
	} {
		d, err := readAgents(t.Context(), []string{file(t, `{"id":"a",`+skills+`}`, `{"id":"b","name":"B","skills":[{"id":"x"}]}`, `{"id":"c",`+skills+`}`)})
		if err != nil {
			t.Fatal(err)
		}
		if repeated, err := d.grow(n, map[string]bool{"a": true}); repeated != max(0, n-5) || err != nil {
			t.Errorf("grow(%d) repeats %d, %v, want %d", n, repeated, err, max(0, n-5))
		}
		var ids []string
		for _, a := range d.agents {
			ids = append(ids, a.id)
		}
		if d := cmp.Diff(want, ids); d != "" {
			t.Errorf("grow(%d): agents (-want +got):\n%s", n, d)
		}
	}
}

// TestNeeded checks that an agent with evidence is not repeated: its copies would be as right as itself.
func TestNeeded(t *testing.T) {
	got := needed([]*Query{{Needs: [][]string{{"a", "b"}, {"c"}}}, {}}, &lesson{evidence: map[string][]router.Evidence{"d": nil}})
	if d := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true, "d": true}, got); d != "" {
		t.Errorf("needed (-want +got):\n%s", d)
	}
}
