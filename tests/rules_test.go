package tests

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var breakRules = flag.Bool("rules", false, "take out what keeps each rule of a turn, and want the tests to fail that hold it; takes minutes")

const (
	rulesFile   = "tests/testdata/rules.yaml"
	designFile  = "cortex/DESIGN.md"
	rulesTable  = "## Which test holds which rule of a turn\n"
	ruleTimeout = 3 * time.Minute  // of one test
	hangTimeout = 20 * time.Second // of a test that hangs without its rule
)

// rule is a rule of a turn.
type rule struct {
	Name   string `json:"name"` // of the subtest
	Rule   string `json:"rule"` // the text in the table
	Losses []loss `json:"losses"`
}

// loss is a way to remove a rule, with the tests that must fail.
type loss struct {
	Edits []edit              `json:"edits"`
	Tests map[string][]string `json:"tests"` // by the folder of their package; each must fail on its own
	Hangs bool                `json:"hangs"` // without the rule the tests hang
}

// edit replaces a text that occurs once in a file.
type edit struct {
	File    string `json:"file"`
	Without string `json:"without"`
	Instead string `json:"instead"`
}

// TestRules compares the table of rules in DESIGN.md with tests/testdata/rules.yaml: each rule has texts in the code that implement it, and the tests that
// the table names. With the flag -rules it removes the texts, one loss after the other, in overlays for the compiler, and each of the tests has to
// fail. -run TestRules/NAME selects one rule.
func TestRules(t *testing.T) {
	data, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rule
	if err := yaml.UnmarshalStrict(data, &rules); err != nil {
		t.Fatalf("%s: %v", rulesFile, err)
	}
	t.Run("table", func(t *testing.T) { wantTable(t, rules) })
	p := &prover{dir: t.TempDir(), declared: map[string]map[string]bool{}, binaries: map[string]string{}, passed: map[string]bool{}}
	named := map[string]bool{}
	for _, r := range rules {
		if named[r.Name] || r.Name == "" || r.Name == "table" {
			t.Errorf("the name %q is no name, or another's", r.Name)
		}
		named[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			if len(r.Losses) == 0 {
				t.Error("nothing is taken out")
			}
			for _, l := range r.Losses {
				if changed, ok := l.apply(t); l.wantTests(t, p) && ok && *breakRules {
					l.prove(t, p, changed)
				}
			}
		})
	}
}

// wantTable checks that DESIGN.md has the same rules, with the same tests.
func wantTable(t *testing.T, rules []rule) {
	want := map[string][]string{}
	for _, r := range rules {
		if _, twice := want[r.Rule]; twice {
			t.Errorf("the rule %q is in %s twice", r.Rule, rulesFile)
		}
		tests := []string{}
		for _, l := range r.Losses {
			tests = slices.AppendSeq(tests, l.all())
		}
		slices.Sort(tests)
		want[r.Rule] = slices.Compact(tests)
	}
	page, err := os.ReadFile(designFile)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), rulesTable)
	if !ok {
		t.Fatalf("%s has no section %q", designFile, rulesTable)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	got := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "rule" {
			continue
		}
		tests := []string{}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			tests = append(tests, m[1])
		}
		slices.Sort(tests)
		got[strings.TrimSpace(cells[1])] = tests
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table in %s is another (-%s +table):\n%s", designFile, rulesFile, diff)
	}
}

// all yields the tests of all packages.
func (l *loss) all() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, tests := range l.Tests {
			for _, test := range tests {
				if !yield(test) {
					return
				}
			}
		}
	}
}

// apply returns the changed files with their new content.
func (l *loss) apply(t *testing.T) (changed map[string]string, ok bool) {
	t.Helper()
	if len(l.Edits) == 0 {
		t.Error("a loss without an edit")
	}
	changed, ok = map[string]string{}, len(l.Edits) > 0
	for _, e := range l.Edits {
		text, again := changed[e.File]
		if !again {
			data, err := os.ReadFile(e.File)
			if err != nil {
				t.Error(err)
				ok = false
				continue
			}
			text = string(data)
		}
		if n := strings.Count(text, e.Without); e.Without == "" || n != 1 {
			t.Errorf("%s has this %d times, want it once:\n%s", e.File, n, e.Without)
			ok = false
			continue
		}
		changed[e.File] = strings.Replace(text, e.Without, e.Instead, 1)
	}
	return changed, ok
}

// wantTests checks that the tests exist, and reports whether they do.
func (l *loss) wantTests(t *testing.T, p *prover) (ok bool) {
	t.Helper()
	if ok = len(l.Tests) > 0; !ok {
		t.Error("a loss that no test notices")
	}
	for dir, tests := range l.Tests {
		there := p.functions(t, dir)
		for _, test := range tests {
			if name, _, _ := strings.Cut(test, "/"); !strings.HasPrefix(name, "Test") || !there[name] {
				t.Errorf("package %s has no test %s", dir, name)
				ok = false
			}
		}
	}
	return ok
}

// prove checks that each of the tests passes without the loss, and fails with it.
func (l *loss) prove(t *testing.T, p *prover, changed map[string]string) {
	t.Helper()
	overlay := p.overlay(t, changed)
	for _, dir := range slices.Sorted(maps.Keys(l.Tests)) {
		binary := filepath.Join(t.TempDir(), "lost.test")
		if out, err := build(t, dir, binary, "-overlay", overlay); err != nil {
			t.Errorf("%s cannot be built without %s: mend the list, if the code itself can be built\n%s", dir, l, out)
			return
		}
		for _, test := range l.Tests[dir] {
			if !p.passes(t, dir, test) {
				continue
			}
			began := time.Now()
			how, out := p.run(t, dir, binary, test, l.Hangs)
			took := time.Since(began).Round(100 * time.Millisecond)
			if how == failed || how == hung && l.Hangs {
				t.Logf("%s %s after %v, as it must, without %s", test, how, took, l)
			} else {
				t.Errorf("%s %s after %v without %s\n%s", test, how, took, l, tail(out))
			}
		}
	}
}

func (l *loss) String() string {
	var texts []string
	for _, e := range l.Edits {
		texts = append(texts, e.File+": "+strings.Join(strings.Fields(e.Without), " "))
	}
	return strings.Join(texts, "; ")
}

// complaint matches a failure that a test reports. A test that only panics does not count.
var complaint = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: `)

// Results of a test.
const (
	failed = "fails"
	hung   = "hangs"
	passed = "passes"
	broke  = "breaks down"
	absent = "is not there"
)

// prover runs tests. It caches which tests pass with unchanged code.
type prover struct {
	dir      string
	declared map[string]map[string]bool // test functions, by the folder of their package
	binaries map[string]string          // of the unchanged packages
	passed   map[string]bool
}

// functions returns the names of the functions in the test files of a package. It caches them.
func (p *prover) functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	if there, ok := p.declared[dir]; ok {
		return there
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[fn.Name.Name] = true
			}
		}
	}
	p.declared[dir] = there
	return there
}

// overlay writes the changed files, and the overlay file for the compiler.
func (p *prover) overlay(t *testing.T, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range changed {
		original, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[original] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds the test binary of a package.
func build(t *testing.T, dir, binary string, flags ...string) (out []byte, err error) {
	args := append([]string{"test", "-c", "-o", binary}, flags...)
	return exec.CommandContext(t.Context(), "go", append(args, "./"+dir)...).CombinedOutput()
}

// passes checks that a test passes with unchanged code, and reports whether it does.
func (p *prover) passes(t *testing.T, dir, test string) bool {
	t.Helper()
	if p.passed[dir+" "+test] {
		return true
	}
	binary, ok := p.binaries[dir]
	if !ok {
		binary = filepath.Join(p.dir, strings.ReplaceAll(dir, "/", "_")+".test")
		if out, err := build(t, dir, binary); err != nil {
			t.Fatalf("%s cannot be built: %v\n%s", dir, err, out)
		}
		p.binaries[dir] = binary
	}
	how, out := p.run(t, dir, binary, test, false)
	if how != passed {
		t.Errorf("%s %s although nothing was taken out\n%s", test, how, tail(out))
	}
	p.passed[dir+" "+test] = how == passed
	return how == passed
}

// run runs one test of a binary, in the folder of its package.
func (p *prover) run(t *testing.T, dir, binary, test string, hangs bool) (how, out string) {
	t.Helper()
	timeout := ruleTimeout
	if hangs {
		timeout = hangTimeout
	}
	name, sub, ok := strings.Cut(test, "/")
	pattern := "^" + name + "$"
	if ok { // a suite of transports first finds out what they offer
		pattern += "/^(features|" + regexp.QuoteMeta(sub) + ")$"
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", pattern, "-test.count=1", "-test.v", "-test.timeout", timeout.String())
	cmd.Dir = dir
	data, err := cmd.CombinedOutput()
	out = string(data)
	switch {
	case !strings.Contains(out, "=== RUN   "+test):
		return absent, out
	case err == nil:
		return passed, out
	case strings.Contains(out, "panic: test timed out after"):
		return hung, out
	case complaint.MatchString(out):
		return failed, out // a panic may have followed
	}
	return broke, out
}

// tail returns the end of a long output.
func tail(out string) string {
	const most = 4000
	if len(out) > most {
		return "…" + out[len(out)-most:]
	}
	return out
}
