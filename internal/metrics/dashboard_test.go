package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/metrics"
	"github.com/cortex-orchestrator/cortex/llm"
)

const rulesFile = "../../deploy/prometheus/cortex.rules.yml"

// expressions returns the queries of the dashboard and of the alerts, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	b, err := os.ReadFile("../../deploy/grafana/cortex.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("panel %s %d", p.Title, i)] = target.Expr
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if b, err = os.ReadFile(rulesFile); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d expressions", len(all))
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:cortex|go|process)_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// TestDashboard checks that each metric and label that the dashboard and the alerts name is in the scrape of a process that ran a turn.
func TestDashboard(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m, budget.Limits{Day: llm.Budget{Tokens: 1000}}).watch(func() []int { return make([]int, 64) })
	runCalls(t, m)
	text := scrape(t, m)
	for _, line := range []string{"cortex_inbox_messages 7", "cortex_dead_letters NaN", "cortex_ready 1", "cortex_partitions_owned 64"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	notSeen := map[string][]string{"cortex_task_attempts_total": {"agent", "reason"}} // no task of the turn was repeated
	for where, expr := range expressions(t) {
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric: %s", where, expr)
		}
		for _, name := range names {
			labels, known := notSeen[name]
			line := regexp.MustCompile(`(?m)^` + name + `(\{.*\})? `).FindString(text)
			if line == "" && !known {
				t.Errorf("%s: there is no metric %s", where, name)
				continue
			}
			var used []string
			for _, s := range selector.FindAllStringSubmatch(expr, -1) {
				used = append(used, s[1])
			}
			for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
				used = append(used, strings.Split(g[1], ", ")...)
			}
			for _, label := range used {
				if !strings.Contains(line, label+`="`) && !strings.Contains(strings.Join(labels, " "), label) {
					t.Errorf("%s: %s has no label %s", where, name, label)
				}
			}
		}
	}
}

// TestReadme checks that the README names each metric, and no others.
func TestReadme(t *testing.T) {
	m := metrics.New("1.2.3")
	runTurn(t, m, budget.Limits{Day: llm.Budget{Tokens: 1000}}).watch(func() []int { return nil })
	runCalls(t, m)
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"cortex_task_attempts_total": true} // there were none
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "cortex_") {
			known[f.GetName()] = true
		}
	}
	page, err := os.ReadFile("../../docs/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `cortex_") { // the table
			continue
		}
		for _, name := range regexp.MustCompile("`(cortex_[a-z_]+)`").FindAllStringSubmatch(line, -1) {
			named[name[1]] = true
		}
	}
	for name := range known {
		if !named[name] {
			t.Errorf("docs does not name %s", name)
		}
	}
	for name := range named {
		if !known[name] {
			t.Errorf("the README names %s, which is no metric", name)
		}
	}
}

// TestRules has promtool check the alerts.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is missing: install Debian's package prometheus")
		}
		fmt.Fprintln(os.Stderr, "NOT RUN: the alerts are not checked: there is no promtool on this machine")
		return
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", rulesFile).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(test, []byte(strings.ReplaceAll(alerting, "RULES", rules)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// alerting is a test for promtool: what makes the alerts fire that people set their day by, and what does not.
const alerting = `rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'cortex_inbox_oldest_seconds{instance="a"}', values: '0+10x30'}
      - {series: 'cortex_budget_remaining_ratio{scope="day"}', values: '0.5-0.02x25'}
      - {series: 'cortex_llm_requests_total{provider="p",model="bad",kind="ok"}', values: '0+7x30'}
      - {series: 'cortex_llm_requests_total{provider="p",model="bad",kind="quota"}', values: '0+3x30'}
      - {series: 'cortex_llm_requests_total{provider="p",model="good",kind="ok"}', values: '0+7x30'}
      - {series: 'cortex_llm_requests_total{provider="p",model="good",kind="canceled"}', values: '0+7x30'}
      - {series: 'cortex_llm_requests_total{provider="p",model="good",kind="quota"}', values: '0+1x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="busy",le="10"}', values: '0+1x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="busy",le="60"}', values: '0+9x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="busy",le="+Inf"}', values: '0+9x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="idle",le="10"}', values: '0+9x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="idle",le="60"}', values: '0+9x30'}
      - {series: 'cortex_task_queue_seconds_bucket{agent="idle",le="+Inf"}', values: '0+9x30'}
    promql_expr_test:
      - expr: count by (alertname) (ALERTS{alertstate="firing"})
        eval_time: 5m
      - expr: count by (alertname, agent, model) (ALERTS{alertstate="firing"})
        eval_time: 24m
        exp_samples:
          - {labels: '{alertname="CortexInboxOld"}', value: 1}
          - {labels: '{alertname="CortexBudgetLow"}', value: 1}
          - {labels: '{alertname="CortexModelErrors",model="bad"}', value: 1}
          - {labels: '{alertname="CortexTasksWait",agent="busy"}', value: 1}
`
