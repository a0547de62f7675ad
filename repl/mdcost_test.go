package repl

import (
	"runtime"
	"strings"
	"testing"
)

// TestMarkdownMultiplies checks that a short answer does not need gigabytes: rows without cells, tables with many columns, column names that are
// repeated for each row, and nested emphasis.
func TestMarkdownMultiplies(t *testing.T) {
	rep := strings.Repeat
	for name, text := range map[string]string{
		"empty rows":  rep("|a", 300) + "\n" + rep("|-", 300) + "\n" + rep("|\n", 2000),
		"many tables": rep(rep("|a", 70)+"\n"+rep("|-", 70)+"\n"+rep("|\n", 140)+"\n", 100),
		"in a quote":  "> " + rep("|a", 300) + "\n> " + rep("|-", 300) + "\n" + rep("> |\n", 2000),
		"a long name": "|" + rep("a ", 4000) + "|b b b b b b b|c c c c c c c|\n|-|-|-|\n" + rep("|x\n", 2000),
		"no width":    "|a" + rep("\u0301", 4000) + rep(" b", 20) + "|b b b b b b b|c c c c c c c|\n|-|-|-|\n" + rep("|x\n", 1500),
		"emphasis":    rep("*a **a ", 1100) + rep("a** a*", 1100),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := render(Sanitize(text), 20, ThemeDark, "")
		runtime.ReadMemStats(&after)
		if len(got) > 3<<20 {
			t.Errorf("%s: %d bytes are shown of %d", name, len(got), len(text))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
			t.Errorf("%s: %d MB were allocated for %d bytes", name, took>>20, len(text))
		}
	}
}

// TestCostly checks that hostile nesting and missing cells are distinguished from ordinary texts.
func TestCostly(t *testing.T) {
	rep := strings.Repeat
	for text, want := range map[string]bool{
		rep(">", 60):                     true,
		rep("> ", 60) + "a":              true,
		rep("- ", 60) + "a":              true,
		rep("1. ", 60) + "a":             true,
		"a\n" + rep("> 2) * ", 20) + "a": true,
		rep("|a", 100) + "\n" + rep("|-", 100) + "\n" + rep("|\n", 200): true,

		rep(">", 40) + " a":                   false,
		rep("- ", 200):                        false, // a rule
		rep("* ", 200) + "\n":                 false,
		rep("-", 200) + rep("+", 200) + "a":   false,
		"1.2.3.4" + rep(".5", 100):            false,
		rep("1. a\n", 1000):                   false,
		"12":                                  false,
		"a\n\n" + rep("|-\n\n|\n|\n|\n", 100): false,
		rep("| a ", 50) + "|\n" + rep("|---", 50) + "|\n" + rep(rep("| 1 ", 50)+"|\n", 500) + "\n" + rep("text\n", 5000): false,
	} {
		if got := costly(text); got != want {
			t.Errorf("costly(%.60q…) = %v, want %v", text, got, want)
		}
	}
}

// TestStackedTable checks that stacked tables omit empty cells, and empty rows.
func TestStackedTable(t *testing.T) {
	got := render("| first | second |\n|---|---|\n| one | |\n| | |\n| | two |\n", 12, "", "")
	if want := "first: one\n\nsecond: two\n"; got != want {
		t.Errorf("render = %q, want %q", got, want)
	}
}
