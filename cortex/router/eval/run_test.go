package eval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/router/eval"
)

// small is the configuration for the small set in testdata.
func small() eval.Config {
	return eval.Config{
		Agents: []string{"testdata/agents.jsonl"}, Queries: "testdata/queries.jsonl", OOS: "testdata/queries_oos.jsonl", K: []int{1, 5},
	}
}

// TestRun measures the small set, and checks that each figure is in the JSON. It does not check the router's quality.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		change                           func(*eval.Config)
		agents, queries, in, out, shared int
		noOOS                            bool // there is nothing to refuse
	}{
		"all":       {func(*eval.Config) {}, 12, 45, 43, 17, 0, false},
		"grown":     {func(c *eval.Config) { c.Agents, c.Queries, c.Grow = twoFiles(t), oneQuery(t), 40 }, 40, 1, 1, 15, 0, false},
		"not grown": {func(c *eval.Config) { c.Grow = 12 }, 12, 45, 43, 17, 0, false},
		"multi": {
			func(c *eval.Config) { c.Queries, c.OOS, c.Multi = "testdata/queries_multi.jsonl", "", true },
			12, 6, 6, 0, 0, true,
		},
		"learned":       {func(c *eval.Config) { c.Learn, c.OOS = "testdata/queries_multi.jsonl", "" }, 12, 45, 43, 2, 0, false},
		"learned by it": {func(c *eval.Config) { c.Learn = c.Queries }, 12, 45, 43, 17, 45, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := small()
			c.change(&config)
			r, err := eval.Run(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			got := [...]int{r.Agents, r.Queries, r.InScope, r.OutOfScope, r.Shared}
			if want := [...]int{c.agents, c.queries, c.in, c.out, c.shared}; got != want {
				t.Errorf("agents, queries, in scope, out of scope, shared: %v, want %v", got, want)
			}
			if r.PutPerSecond <= 0 || r.Memory <= 0 {
				t.Errorf("%v agents a second, %d bytes of index, want more than nothing", r.PutPerSecond, r.Memory)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			form := `^{"agents":N,"queries":N,"top1":S,"recall":{"1":S,"5":S},"all":{"1":S,"5":S},` +
				`"auroc":O,"oos_refused":O,"in_scope_kept":O,"p50_us":F,"p99_us":F}$`
			if c.noOOS {
				form = strings.ReplaceAll(form, "O", "null")
			}
			form = strings.NewReplacer("N", `\d+`, "S", `(?:0(?:\.\d{1,4})?|1)`, "O", `(?:0(?:\.\d{1,4})?|1)`, "F", `\d+(?:\.\d)?`).Replace(form)
			if !regexp.MustCompile(form).Match(line) {
				t.Errorf("the report is %s, want %s", line, form)
			}
		})
	}
}

// TestRunAsksTheIndex checks that agents and evidence reach the index: what a card says is found, and other text is found once it is learned.
func TestRunAsksTheIndex(t *testing.T) {
	lesson := `{"query":"xyzzy plugh","agents":["light"]}`
	c := eval.Config{
		Agents: []string{write(t,
			`{"id":"kettle","name":"Kettle","description":"Boils water"}`,
			`{"id":"lamp","name":"Lamp","skills":[{"id":"light"}]}`)},
		Queries: write(t, `{"query":"boil water","agents":["kettle"]}`, lesson),
		K:       []int{1},
	}
	before, err := eval.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Learn = write(t, lesson)
	after, err := eval.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if before.Top1 != 0.5 || after.Top1 != 1 {
		t.Errorf("top-1 is %v, and %v after learning, want 0.5 and 1", before.Top1, after.Top1)
	}
}

// TestRunCountsNewAgentsApart checks that with Config.New some agents have no evidence, and that their queries are reported separately.
func TestRunCountsNewAgentsApart(t *testing.T) {
	old, fresh := `{"query":"xyzzy plugh","agents":["kettle"]}`, `{"query":"plover frotz","agents":["lamp"]}`
	c := eval.Config{
		Agents: []string{write(t,
			`{"id":"kettle","name":"Kettle","description":"Boils water"}`, `{"id":"lamp","name":"Lamp","description":"Gives light"}`)},
		Queries: write(t, old, fresh, `{"query":"boil water","agents":["kettle","lamp"]}`, `{"query":"give light","agents":["lamp"]}`),
		Learn:   write(t, old, fresh),
		K:       []int{1},
		New:     2,
	}
	r, err := eval.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Top1New == nil || *r.Top1New != 0.5 || *r.Top1Others != 1 || r.Top1 != 0.75 {
		t.Errorf("top-1 is %v, of new agents %v, of others %v, want 0.75, 0.5 and 1", r.Top1, r.Top1New, r.Top1Others)
	}
	c.New = 0
	if r, err = eval.Run(t.Context(), c); err != nil || r.Top1 != 1 || r.Top1New != nil || r.Top1Others != nil {
		t.Errorf("top-1 without new agents is %v, %v and %v, %v, want 1, and nothing apart", r.Top1, r.Top1New, r.Top1Others, err)
	}
}

func twoFiles(t *testing.T) []string {
	return []string{"testdata/agents.jsonl", write(t, `{"id":"more","name":"more"}`)}
}

func oneQuery(t *testing.T) string { return write(t, `{"query":"q","agents":["more"]}`) }

// write creates a file with these lines.
func write(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRunRefuses checks that mistakes in a file are errors with their position: ignoring them would change the figures.
func TestRunRefuses(t *testing.T) {
	a := `{"id":"a","name":"A","description":"d","skills":[{"id":"s","name":"S","description":"d"}]}`
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		agents, queries, oos, learn []string
		grow                        int
		want                        string // FILE stands for the wrong file
	}{
		"agents that are not JSON":  {agents: []string{a, `{"id":`}, want: `FILE:2: not the JSON that is expected: unexpected end of JSON input`},
		"agents of another form":    {agents: []string{`{"id":"a","skills":{}}`}, want: `FILE:1: not the JSON that is expected: json: cannot unmarshal object into`},
		"agent without id":          {agents: []string{`{"name":"A"}`}, want: `FILE:1: an agent has no "id"`},
		"agent twice":               {agents: []string{a, "", a}, want: `FILE:3: agent "a" was in FILE:1 already`},
		"no agents":                 {agents: []string{" "}, want: `FILE: the file is empty: one JSON object is expected on each line`},
		"queries that are not JSON": {queries: []string{"will it rain?"}, want: `FILE:1: not the JSON that is expected: invalid character 'w'`},
		"no queries":                {queries: []string{""}, want: `FILE: the file is empty`},
		"query without text":        {queries: []string{`{"query":" ","agents":["a"]}`}, want: `FILE:1: a query has no text in "query"`},
		"query without agents":      {queries: []string{`{"query":"q","agent":["a"]}`}, want: `FILE:1: a query has no "agents": write [] when no agent fits`},
		"unknown agent": {
			queries: []string{`{"query":"q","agents":["a"]}`, `{"query":"q","agents":["a","b"]}`},
			want:    `FILE:2: no agent and no skill is called "b": name the file it is in with --agents`,
		},
		"unknown agent of a list": {queries: []string{`{"query":"q","any_of":[["a","b"]]}`}, want: `FILE:1: no agent and no skill is called "b"`},
		"unknown agent of a pool": {queries: []string{`{"query":"q","agents":[],"pool":["s"]}`}, want: `FILE:1: no agent of the pool is called "s"`},
		"needed agent not in pool": {
			agents: []string{a, `{"id":"b"}`}, queries: []string{`{"query":"q","agents":["a"],"pool":["b"]}`},
			want: `FILE:1: "a" is needed and not in the pool`,
		},
		"only queries out of scope": {queries: []string{`{"query":"q","agents":[]}`}, want: `FILE: no query has an agent that fits`},
		"long id": {
			queries: []string{`{"query":"q","agents":["` + long[:300] + `"]}`},
			want:    `FILE:1: no agent and no skill is called "` + long[:80] + `"…: name`,
		},
		"long line":                  {queries: []string{`{"query":"q","agents":["a"]}`, long + "x"}, want: `FILE:2: the line is longer than 1048576 bytes`},
		"query in scope among --oos": {oos: []string{`{"query":"q","agents":["s"]}`}, want: `FILE:1: a query has agents: --oos is for queries that no agent fits`},
		"unknown agent learned":      {learn: []string{`{"query":"q","agents":["b"]}`}, want: `FILE:1: no agent and no skill is called "b"`},
		"learned without text":       {learn: []string{`{"query":"","agents":["a"]}`}, want: `FILE:1: a query has no text in "query"`},
		"nothing to grow from":       {grow: 5, want: `--grow: all agents are needed by queries: add some that are not with --agents`},
	} {
		t.Run(name, func(t *testing.T) {
			file := ""
			put := func(lines []string, usual string) string {
				if lines == nil {
					return write(t, usual)
				}
				file = write(t, lines...)
				return file
			}
			config := eval.Config{
				Agents: []string{put(c.agents, a)}, Queries: put(c.queries, `{"query":"q","agents":["a"]}`),
				K: []int{1}, Grow: c.grow,
			}
			if c.oos != nil {
				config.OOS = put(c.oos, "")
			}
			if c.learn != nil {
				config.Learn = put(c.learn, "")
			}
			_, err := eval.Run(t.Context(), config)
			if want := strings.ReplaceAll(c.want, "FILE", file); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Run says\n%v, want\n%s", err, want)
			}
		})
	}
	agents, queries := []string{"testdata/agents.jsonl"}, "testdata/queries.jsonl"
	for _, c := range []struct {
		config eval.Config
		want   string
	}{
		{eval.Config{Queries: queries, K: []int{1}}, "files of agents and of queries are needed"},
		{eval.Config{Agents: agents, K: []int{1}}, "files of agents and of queries are needed"},
		{eval.Config{Agents: []string{"testdata/nothing"}, Queries: queries, K: []int{1}}, "testdata/nothing: no such file or directory"},
		{eval.Config{Agents: agents, Queries: queries}, "no number of first hits is given: 5,10,20 is usual"},
	} {
		if _, err := eval.Run(t.Context(), c.config); err == nil || err.Error() != c.want {
			t.Errorf("Run(%+v) says %v, want %s", c.config, err, c.want)
		}
	}
}
