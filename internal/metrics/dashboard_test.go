package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	selector   = regexp.MustCompile(`([a-z_]+)(?:=~|=)"`)
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
}
