// Package documenttest has hostile documents for fuzz tests of readers of files.
package documenttest

import (
	"fmt"
	"strings"
)

// Seeds returns a corpus for fuzzing: small bombs, several documents, and rare features of YAML.
func Seeds() []string {
	return []string{
		"a: 1\n---\nb: 2", "---\n---\n", "a: &x [1]\nb: *x", "a: &x {s: 1}\nb: {<<: *x}", "a: &a [*a]", "%YAML 1.1\n---\na: 1\n...\n",
		"a: !!binary aGk=", "? [a]\n: b", "a: .nan", "a: 2001-01-01", "{\"a\": 1}", "- - - a", "a: |\n  b\n", "\xff\xfea\x00", "1: 2\n1.0: 3",
		"a: \x00", strings.Repeat("\x00", 4096), strings.Repeat("[", 1000), strings.Repeat("{a: ", 300), strings.Repeat("- ", 300) + "x", laughs(5, 6),
	}
}

// Bombs returns documents, by description, that expand to gigabytes or are nested without end.
func Bombs() map[string]string {
	return map[string]string{
		"aliases of aliases":  laughs(9, 10),
		"one text many times": "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 60_000) + "*a]\n",
		"merged maps":         "a: &a {" + keys(500) + "}\nb:\n" + strings.Repeat("- {<<: *a}\n", 20_000),
		"deep by aliases":     deepAliases(),
		"in itself":           "a: &a [*a]",
		"deep":                strings.Repeat("[", 5000),
		"deep map":            strings.Repeat("{a: ", 5000),
		"deep block":          strings.Repeat("- ", 5000) + "x",
		"deep and closed":     strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	}
}

func laughs(levels, each int) string {
	var b strings.Builder
	b.WriteString("l0: &l0 [ha, ha]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "l%d: &l%d [%s*l%d]\n", i, i, strings.Repeat(fmt.Sprintf("*l%d, ", i-1), each-1), i-1)
	}
	return b.String()
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v, ", i)
	}
	return b.String()
}

func deepAliases() string {
	var b strings.Builder
	nest := func(s string) string { return strings.Repeat("[", 100) + s + strings.Repeat("]", 100) }
	fmt.Fprintf(&b, "l0: &l0 %s\n", nest("x"))
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&b, "l%d: &l%d %s\n", i, i, nest(fmt.Sprintf("*l%d", i-1)))
	}
	return b.String()
}
