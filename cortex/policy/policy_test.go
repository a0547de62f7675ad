package policy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/internal/document/documenttest"
)

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rules covers every key, and several rules about the same agent.
const rules = `
tenants:
  deny: ["evil-*", "gone"]
rules:
  - {agents: ["bank-*"], only_from: ["user:alice", "agent_planner"]}
  - {agents: ["bank-x"], only_from: ["user:alice"]}
  - {agents: ["shell"], from: ["user:guest-*"], allow: false}
  - {agents: ["pay"], skills: ["transfer*"], confirm: true, from: ["user*"]}
  - {agents: ["pay"], skills: ["close"], allow: false}
  - {agents: ["pay", "p?y"], at_once: 2, per_turn: 3}
  - {agents: ["p[a-c]y"], at_once: 5}
  - {agents: ["*"], per_turn: 4}
  - {agents: ["bank-*"], retry: {others: false}}
  - {agents: ["bank-x"], skills: ["move"], from: ["user*"], retry: {attempts: 1}}
  - {agents: ["bank-x", "pay"], retry: {attempts: 3}}
  - {agents: ["watch*"], requests_per_minute: 300}
  - {agents: ["watch2"], requests_per_minute: 60}
`

func TestAllows(t *testing.T) {
	p := parse(t, rules)
	for _, test := range []struct {
		from, agent, skill string
		want               bool
	}{
		{"user", "echo", "say", true},
		{"user", "bank-1", "", false},
		{"user:alice", "bank-1", "", true},
		{"user:alice", "bank-1", "anything", true},
		{"agent_planner", "bank-1", "", true},
		{"agent_planner", "bank-x", "", false}, // in one of two lists
		{"user:alice", "bank-x", "", true},
		{"user", "bank-a/b", "", false}, // a slash is an ordinary character
		{"user", "bank", "", true},
		{"user:guest-1", "shell", "run", false},
		{"user:alice", "shell", "run", true},
		{"user", "pay", "close", false},
		{"user", "pay", "closed", true},
		{"user", "pay", "", true},
	} {
		if got := p.Allows(test.from, test.agent, test.skill); got != test.want {
			t.Errorf("Allows(%q, %q, %q) = %v, want %v", test.from, test.agent, test.skill, got, test.want)
		}
	}
}

func TestEvaluators(t *testing.T) {
	p := parse(t, `
rules:
  - {agents: ["bank-*"], evaluators: [no_keys, no_pii]}
  - {agents: ["bank-x"], skills: ["move"], from: ["user*"], evaluators: [relevance]}
evaluators:
  relevance: {threshold: 0.6}
  no_keys: {rules: ['AKIA[0-9A-Z]{16}'], action: fail}
  short: {judge: "it is short"}
`)
	for _, test := range []struct {
		from, agent, skill string
		card               []string
		want               string
	}{
		{"user", "bank-1", "", nil, "no_pii no_keys"},
		{"user", "bank-x", "move", nil, "no_pii no_keys relevance"},
		{"agent_a", "bank-x", "move", []string{"short", "relevant", "short"}, "no_pii no_keys short"},
		{"user", "echo", "", []string{"no_pii"}, "no_pii"},
		{"user", "echo", "", nil, ""},
	} {
		var names []string
		for _, e := range p.Evaluators(test.from, test.agent, test.skill, test.card) {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("Evaluators(%q, %q, %q, %q) = %q, want %q", test.from, test.agent, test.skill, test.card, got, test.want)
		}
	}
	if got := p.Judged(); got != "relevance" {
		t.Errorf("Judged() = %q", got)
	}
	var none *policy.Policy
	if none.Evaluators("user", "a", "", []string{"no_pii"}) != nil || none.Judged() != "" || parse(t, "rules: [{agents: [a], evaluators: [no_pii]}]").Judged() != "" {
		t.Error("without a policy, or with rules only, there is nothing to judge")
	}
}

func TestWaives(t *testing.T) {
	p := parse(t, "rules: [{agents: [fs], confirm: false}, {agents: ['db*'], skills: [write], from: [user], confirm: false}, {agents: [fs2], confirm: true}]")
	for _, test := range []struct {
		from, agent, skill string
		want               bool
	}{
		{"user", "fs", "write", true},
		{"user", "fs", "", true},
		{"user", "db1", "write", true},
		{"user", "db1", "", false},
		{"agent", "db1", "write", false},
		{"user", "fs2", "write", false},
		{"user", "other", "write", false},
	} {
		if got := p.Waives(test.from, test.agent, test.skill); got != test.want {
			t.Errorf("Waives(%q, %q, %q) = %v, want %v", test.from, test.agent, test.skill, got, test.want)
		}
	}
	if p.Confirms("user", "fs", "write") || !p.Confirms("user", "fs2", "write") {
		t.Error("confirm: false is taken for true, or the other way round")
	}
}

func TestConfirms(t *testing.T) {
	p := parse(t, rules)
	for _, test := range []struct {
		from, agent, skill string
		want               bool
	}{
		{"user", "pay", "transfer", true},
		{"user:alice", "pay", "transfer-all", true},
		{"agent_x", "pay", "transfer", false},
		{"user", "pay", "balance", false},
		{"user", "pay", "", false},
		{"user", "echo", "transfer", false},
	} {
		if got := p.Confirms(test.from, test.agent, test.skill); got != test.want {
			t.Errorf("Confirms(%q, %q, %q) = %v, want %v", test.from, test.agent, test.skill, got, test.want)
		}
	}
}

func TestCaps(t *testing.T) {
	p := parse(t, rules)
	got := map[string][2]int{}
	for _, agent := range []string{"pay", "pby", "pzy", "echo"} {
		got[agent] = [2]int{p.AtOnce(agent), p.PerTurn(agent)}
	}
	want := map[string][2]int{"pay": {2, 3}, "pby": {2, 3}, "pzy": {2, 3}, "echo": {0, 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at once and per turn (-want +got):\n%s", diff)
	}
	for agent, want := range map[string]int{"watch1": 300, "watch2": 60, "pay": 0} {
		if got := p.Requests(agent); got != want {
			t.Errorf("Requests(%q) = %d, want %d", agent, got, want)
		}
	}
}

func TestRetries(t *testing.T) {
	p := parse(t, rules)
	for _, test := range []struct {
		from, agent, skill string
		others             bool
		attempts           int
	}{
		{"user", "echo", "say", true, policy.MaxAttempts},
		{"user", "bank-1", "", false, policy.MaxAttempts},
		{"user", "bank-x", "move", false, 1},
		{"agent_y", "bank-x", "move", false, 3},
		{"user", "bank-x", "", false, 3},
		{"user", "pay", "transfer", true, 3},
	} {
		others, attempts := p.Others(test.from, test.agent, test.skill), p.Attempts(test.from, test.agent, test.skill)
		if others != test.others || attempts != test.attempts {
			t.Errorf("(%q, %q, %q): others %v, attempts %d; want %v, %d", test.from, test.agent, test.skill, others, attempts, test.others, test.attempts)
		}
	}
}

func TestDeniesTenant(t *testing.T) {
	p := parse(t, rules)
	for tenant, want := range map[string]bool{"": false, "good": false, "evil-1": true, "evil": false, "gone": true, "evil-a/b": true} {
		if got := p.DeniesTenant(tenant); got != want {
			t.Errorf("DeniesTenant(%q) = %v, want %v", tenant, got, want)
		}
	}
}

func TestNilAllowsEverything(t *testing.T) {
	var p *policy.Policy
	if p.DeniesTenant("x") || !p.Allows("user", "x", "y") || p.Confirms("user", "x", "y") || p.AtOnce("x") != 0 || p.PerTurn("x") != 0 || p.Requests("x") != 0 || p.Any("x") || p.Rules() != 0 ||
		!p.Others("user", "x", "y") || p.Attempts("user", "x", "y") != policy.MaxAttempts {
		t.Error("a nil Policy has rules")
	}
}

func TestParseErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"# later\n", "there is nothing in it: write `rules: []` to have no rules"},
		"a list":         {"- a", "it has to have keys, of tenants, rules, evaluators"},
		"no yaml":        {"rules: [", "line 1: did not find expected node content"},
		"twice":          {"rules: []\nrules: []", `line 2: key "rules" already set in map`},
		"key":            {"rule: []", `unknown key "rule": did you mean rules?`},
		"far key":        {"something: []", `unknown key "something": there are tenants, rules, evaluators`},
		"tenants":        {"tenants: {Denys: []}", `tenants: unknown key "Denys": did you mean deny?`},
		"tenants' list":  {"tenants: {deny: evil}", `tenants: deny: it is a list of globs, such as ["bank-*"]`},
		"rules":          {"rules: 3", "rules: it is a list"},
		"rule key":       {"rules:\n- {agents: [a], confirm: true}\n- {agents: [a], at-once: 2}", `rule 2: unknown key "at-once": did you mean at_once?`},
		"a word":         {"rules: [no]", "rule 1: it has to have keys, of agents, skills, from, only_from, allow, confirm, at_once, per_turn, requests_per_minute, retry, evaluators, bids, board, swarm, calls, repeat"},
		"no agents":      {"rules: [{allow: false}]", `rule 1: agents: it is missing: globs of the agents' ids, such as ["bank-*"]`},
		"agents":         {"rules: [{agents: pay, allow: false}]", `rule 1: agents: it is a list of globs, such as ["bank-*"]`},
		"no glob":        {"rules: [{agents: [], allow: false}]", `rule 1: agents: it is a list of globs, such as ["bank-*"]`},
		"empty glob":     {`rules: [{agents: [""], allow: false}]`, "rule 1: agents: an empty glob matches nothing"},
		"bad glob":       {`rules: [{agents: ["a[b"], allow: false}]`, `rule 1: agents: "a[b" is no glob: it has a [ or \ without its end`},
		"long glob":      {`rules: [{agents: ["` + strings.Repeat("a", 513) + `"], allow: false}]`, "rule 1: agents: a glob of 513 bytes; at most 512 are allowed"},
		"skills":         {"rules: [{agents: [a], skills: [1], allow: false}]", `rule 1: skills: it is a list of globs, such as ["bank-*"]`},
		"deny and waive": {"rules: [{agents: [a], allow: false, confirm: false}]", "rule 1: allow: with false nothing else counts: leave out only_from, confirm, at_once, per_turn, requests_per_minute, retry, bids, board, swarm, calls, repeat and evaluators"},
		"flag":           {"rules: [{agents: [a], confirm: sometimes}]", "rule 1: confirm: it is true or false"},
		"cap":            {"rules: [{agents: [a], at_once: 0}]", "rule 1: at_once: it is a number of tasks from 1 to 1000000"},
		"half a cap":     {"rules: [{agents: [a], per_turn: 1.5}]", "rule 1: per_turn: it is a number of tasks from 1 to 1000000"},
		"empty value":    {"rules: [{agents: [a], from: , allow: false}]", "rule 1: from: there is nothing behind it: leave the key out"},
		"both":           {"rules: [{agents: [a], from: [b], only_from: [c]}]", "rule 1: only_from: the rule has from too: make two rules of it"},
		"idle":           {"rules: [{agents: [a], from: [b], allow: true}]", `rule 1: it changes nothing, since what no rule forbids is allowed: for "these and nobody else" write only_from`},
		"deny and more":  {"rules: [{agents: [a], allow: false, at_once: 2}]", "rule 1: allow: with false nothing else counts: leave out only_from, confirm, at_once, per_turn, requests_per_minute, retry, bids, board, swarm, calls, repeat and evaluators"},
		"deny and retry": {"rules: [{agents: [a], allow: false, retry: {attempts: 1}}]", "rule 1: allow: with false nothing else counts: leave out only_from, confirm, at_once, per_turn, requests_per_minute, retry, bids, board, swarm, calls, repeat and evaluators"},
		"retry":          {"rules: [{agents: [a], retry: 2}]", "rule 1: retry: it has to have keys, of others, attempts"},
		"retry key":      {"rules: [{agents: [a], retry: {other: false}}]", `rule 1: retry: unknown key "other": did you mean others?`},
		"idle retry":     {"rules: [{agents: [a], retry: {others: true}}]", "rule 1: retry: it changes nothing, since others are tried anyway: write others: false, or attempts"},
		"retry's flag":   {"rules: [{agents: [a], retry: {others: 1}}]", "rule 1: retry: others: it is true or false"},
		"attempts":       {"rules: [{agents: [a], retry: {attempts: 6}}]", "rule 1: retry: attempts: it is a number of attempts from 1 to 5"},
		"cap of skill":   {"rules: [{agents: [a], skills: [s], at_once: 2}]", "rule 1: at_once and per_turn: they count all tasks of an agent: put them into a rule without skills and from"},
		"requests":       {"rules: [{agents: [a], requests_per_minute: 0}]", "rule 1: requests_per_minute: it is a number of requests from 1 to 1000000"},
		"whose requests": {"rules: [{agents: [a], from: [b], requests_per_minute: 9}]", "rule 1: requests_per_minute: it is about what its agents ask for: put it into a rule without skills and from"},
		"too many":       {"rules:\n" + strings.Repeat("- {agents: [a], allow: false}\n", 1001), "1001 rules; at most 1000 are allowed"},
		"too large":      {strings.Repeat("#", policy.MaxBytes+1), "1048577 bytes; at most 1048576 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("policy.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("Parse() = nil, want an error")
			}
			if diff := cmp.Diff("policy.yaml: "+test.want, atLine.ReplaceAllString(err.Error(), "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// atLine matches the line number in an error.
var atLine = regexp.MustCompile(` \(line [0-9]+\)$`)

// TestParseNamesTheLine also checks that a document after a second "---" is not ignored: it may have denials.
func TestParseNamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"rules:\n- {agents: [a], allow: false}\n- agents: [b]\n  alow: false\n": `rule 2: unknown key "alow": did you mean allow? (line 4)`,
		"rules:\n- agents: [a]\n  retry:\n    attempts: 6\n":                    "rule 1: retry: attempts: it is a number of attempts from 1 to 5 (line 4)",
		"rules:\n- {agents: [a], allow: false}\n- {allow: false}\n":             "rule 2: agents: it is missing: globs of the agents' ids, such as [\"bank-*\"] (line 3)",
		"tenants:\n  deny: x\n": "tenants: deny: it is a list of globs, such as [\"bank-*\"] (line 2)",
		"rules: []\n---\nrules:\n- {agents: [shell], allow: false}\n": "line 2: a second document begins here: a file has one, and this one needs a file of its own",
		"rules: []\n---\n": "line 2: a second document begins here: a file has one, and this one needs a file of its own",
		"x: &x [" + strings.Repeat("a, ", 10_000) + "a]\nrules: [*x, *x]":   "line 2: with *x the aliases stand for over 65536 bytes: write them out, or into files of their own",
		"rules: " + strings.Repeat("[", 20_000):                             "exceeded max depth of 10000",
		"rules: " + strings.Repeat("[", 2_000) + strings.Repeat("]", 2_000): "line 1: it is nested too deep: at most 200 levels are allowed",
	} {
		if _, err := policy.Parse("p", []byte(text)); err == nil || err.Error() != "p: "+want {
			t.Errorf("Parse(%.80q) = %v, want %s", text, err, want)
		}
	}
}

func TestNoRules(t *testing.T) {
	if p := parse(t, "rules: []"); p.Rules() != 0 || p.Any("x") || !p.Allows("user", "x", "") {
		t.Error("there are rules")
	}
}

// TestManyRules compares the cached index with a scan of all rules.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 500 {
		fmt.Fprintf(&b, "- {agents: [\"agent_%d*\"], at_once: %d}\n", i, i+1)
	}
	p := parse(t, b.String())
	for i := range 500 {
		least := i + 1 // agent_12 matches agent_1*, too
		for n := i; n >= 10; n /= 10 {
			least = n/10 + 1
		}
		if got := p.AtOnce(fmt.Sprintf("agent_%d", i)); got != least {
			t.Fatalf("AtOnce(agent_%d) = %d, want %d", i, got, least)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(rules))
	for _, s := range documenttest.Seeds() {
		f.Add([]byte("rules: [{agents: [a], allow: false}]\n" + s))
	}
	f.Add([]byte("rules: [{agents: [\"[\"]}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := policy.Parse("f", b)
		if err == nil {
			p.Allows("user", "a/b", "s")
		} else if strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}

// BenchmarkAllows measures queries about 10,000 agents under 1,000 rules.
func BenchmarkAllows(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "- {agents: [\"team%d-*\"], from: [\"agent_*\"], allow: false}\n", i)
	}
	var agents []string
	for i := range 10000 {
		agents = append(agents, fmt.Sprintf("team%d-agent%d", i%2000, i))
	}
	for _, fresh := range []bool{true, false} {
		b.Run(fmt.Sprintf("fresh=%v", fresh), func(b *testing.B) {
			p, err := policy.Parse("p", []byte(text.String()))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if fresh {
					b.StopTimer()
					p, _ = policy.Parse("p", []byte(text.String()))
					b.StartTimer()
				}
				for _, a := range agents {
					p.Allows("user", a, "")
				}
			}
		})
	}
}
