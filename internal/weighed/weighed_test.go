package weighed

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

const bound = 512 << 10

// TestWeightIsABound compares the weight with what package regexp takes, whether the pattern would be refused or not. The test itself takes a kilobyte.
func TestWeightIsABound(t *testing.T) {
	largest := ""
	for name := range unicode.Categories {
		if largest == "" || len(unicode.Categories[name].R16)+len(unicode.Categories[name].R32) > len(unicode.Categories[largest].R16)+len(unicode.Categories[largest].R32) {
			largest = name
		}
	}
	patterns := []string{
		"", "a", `^\pL{990}1$`, `^(\pL|\pN){400}$`, `^[^a]{900}$`, `(?i)^\pL{900}$`, `^(?:\pL{1,100}1)+$`, `^\pL{1,400}$`, `^(\pL{400}|1\pN{400})$`, strings.Repeat(`\pL`, 300), strings.Repeat(`\PL1`, 300),
		"[" + strings.Repeat(`\pL`, 300) + "]", "[^" + strings.Repeat(`\PL`, 300) + "]", "[^" + strings.Repeat(`\PL\pL`, 100) + "a]", strings.Repeat(`\pL|`, 300), "(?i)" + strings.Repeat(`\pL`, 300),
		"^" + strings.Repeat(`\p{`+largest+`}`, 300), "(?i)" + strings.Repeat(`\P{`+largest+`}`, 300), "(?i)[" + strings.Repeat("B-\U0001E942", 9) + "]", "(?i)" + strings.Repeat("[B-\U0001E942]", 9), "(?i)" + strings.Repeat(`[B-\x{1E942}]`, 9),
		"(?i)" + strings.Repeat("k", 3000), strings.Repeat("a", 4000), strings.Repeat("世", 3000), strings.Repeat("[ac]", 1000), strings.Repeat(`[^\n\x{0}a]`, 300), strings.Repeat(`\W`, 1000), "(?i)" + strings.Repeat(`[^a-z]`, 500),
		strings.Repeat("()", 40), "x{1000}x{1000}x{1000}", "(?:x{0,30}){30}", "(x?){500}", "(?:a*){300}", "(?:(?:a*)*)+", "(a|b|c|d){1,300}", "(?:|a){100}", "(?:a|b|){100,}", "(?:){1000}", "x{0}", "x{0,}", "[^\\x00-\\x{10FFFF}]{100}", `^$\b\B\A\z`, ".*.+.?(?s).{900}",
		strings.Repeat("abc|", 900), strings.Repeat("ab|ac|b|", 400),
	}
	for _, p := range patterns {
		if _, err := Compile(p, 1<<30, 1<<30); err != nil { // what is made once for all is made here
			t.Fatal(err)
		}
		kept := make([]*Regexp, 4)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			var err error
			if kept[i], err = Compile(p, 1<<30, 1<<30); err != nil {
				t.Fatalf("Compile(%.60q): %v", p, err)
			}
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := (int(after.HeapAlloc) - int(before.HeapAlloc)) / len(kept)
		re, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if k := kept[0]; k.Weight+1<<10 < heap || k.Instructions < len(prog.Inst) || k.Instructions > 2*len(prog.Inst)+4 {
			t.Errorf("%.60q takes %d bytes and %d instructions, computed are %d and %d", p, heap, len(prog.Inst), k.Weight, k.Instructions)
		}
		runtime.KeepAlive(kept)
	}
}

// TestCompileRefuses has patterns of a few kilobytes for which reading or compiling alone takes seconds, or gigabytes.
func TestCompileRefuses(t *testing.T) {
	for _, p := range []string{
		"(?i)[" + strings.Repeat("B-\U0001E942", 2600) + "]", "(?i)" + strings.Repeat(`[B-\x{1E942}]`, 1000), "(?s-m:(?mi-s)" + strings.Repeat("[B-\U0001E942]", 1000) + ")", "[" + strings.Repeat(`\pL`, 4000) + "]",
		strings.Repeat("x{0,1000}", 1700), strings.Repeat("(x{1,30}){1,30}", 4), strings.Repeat("a", 12000), strings.Repeat("()", 101) + "x{1000}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile(p, 4096, bound)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLarge) || after.TotalAlloc-before.TotalAlloc > 8<<20 {
			t.Errorf("Compile(%.60q) = %v after %d bytes", p, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
	for _, p := range []string{"(", `\`, "a)(b", `*`, `(?=x)`, `\E`} {
		if _, err := Compile(p, 4096, bound); err == nil || errors.Is(err, ErrLarge) || strings.Contains(err.Error(), "()") {
			t.Errorf("Compile(%q) = %v", p, err)
		}
	}
}

// TestCompile checks that ordinary patterns, and a few odd ones, match as before.
func TestCompile(t *testing.T) {
	texts := []string{"", "a", "b", "ab", "ba", "A", "abc", "\na", "a\n", "2026-01-02", "a.b+c@example.com", "https://example.com/a?b=c", "123e4567-e89b-12d3-a456-426614174000", "Żółć", "世界", "a)b", "()a", "+49 30 123", "1.2.3-rc.1", "İ", "\xff"}
	for _, p := range []string{
		`^[a-z]{1,64}$`, `^\d{4}-\d{2}-\d{2}$`, `^[\w.+-]+@[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*\.[a-zA-Z]{2,24}$`, `(?i)^[a-z0-9._%+\-]+@[a-z0-9.\-]+\.[a-z]{2,}$`, `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, `^https?://[^\s/$.?#].[^\s]*$`,
		`^\p{L}+$`, `^[\p{L}\p{M}\p{N} .'\-]{1,255}$`, `^[^\p{C}]{0,1000}$`, `^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([\w.-]+))?$`, `^\+?[0-9 ()-]{5,20}$`, `^.{1,1000}$`, `^[A-Za-z0-9+/]{1,1000}={0,2}$`,
		"", "a|^b", "^a|^b", "^a|b$", `(?i)A`, `(?m)^a$`, `\Aa\z`, `\Qa)`, `^\Q()`, `(?s)^.a`, `(^)a`, `(a)|b`, `(?U)^a*`, "^", "$", "^$", `{,2}`, `^a{2}`,
		`^(?:[A-Za-z0-9+/]{4}){1,200}$`, `^[a-z]+(-[a-z]+){0,600}$`, `(?i)` + strings.Repeat(`ab-\d+|`, 40), `(?i)[a-\x{7a}]?` + strings.Repeat("()", 40),
	} {
		got, err := Compile(p, 4096, bound)
		if err != nil {
			t.Errorf("Compile(%q): %v", p, err)
			continue
		}
		want := regexp.MustCompile(p)
		if got.String() != p {
			t.Errorf("%q is said to be %q", p, got)
		}
		for _, text := range texts {
			if got.MatchString(text) != want.MatchString(text) || fmt.Sprint(got.FindAllStringIndex(text, -1)) != fmt.Sprint(want.FindAllStringIndex(text, -1)) || got.MatchReader(strings.NewReader(text)) != want.MatchReader(strings.NewReader(text)) {
				t.Errorf("%q and %q do not match as before", p, text)
			}
		}
	}
}
