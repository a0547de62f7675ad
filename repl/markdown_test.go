package repl

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMarkdown checks the layout of an answer with all of Markdown, on screens of several widths, with and without colours.
func TestMarkdown(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "answer.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		width int
		style style
	}{"120": {120, ""}, "80": {80, ""}, "40": {40, ""}, "20": {20, ""}, "colour": {80, ThemeDark}, "light": {80, ThemeLight}, "bold": {80, ThemePlain}} {
		t.Run(name, func(t *testing.T) {
			got := render(Sanitize(string(b)), tc.width, tc.style, "")
			path := filepath.Join("testdata", "answer-"+name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the screen (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkdownLeavesJSON checks that data is shown as it is, but a text that only begins as data does as what it is.
func TestMarkdownLeavesJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"said":"\"a *b* c\"","at":"C:\\new"}`: `{"said":"\"a *b* c\"","at":"C:\\new"}`,
		"[\n  \"__init__\"\n]":                  "[\n  \"__init__\"\n]",
		`{name} is \"here\"`:                    `{name} is "here"`,
	} {
		if got := render(text, 80, ThemeDark, ""); got != want+"\n" {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// TestMarkdownIsSafe checks that no text controls a terminal, not even through entities, and that links show their targets.
func TestMarkdownIsSafe(t *testing.T) {
	for in, want := range map[string]string{
		"&#27;[31mred&#x9b;2J &#x202e;txt":               "[31mred txt\n",
		"a&#10;b&#13;c":                                  "a bc\n",
		"`&#27;[2J`":                                     "`&#27;[2J`\n",
		"[bank.com](https://evil.example)":               "bank.com (https://evil.example)\n",
		"[https://a.example](https://b.example/%20?x=1)": "https://a.example (https://b.example/%20?x=1)\n",
		"<https://a.example>":                            "https://a.example\n",
		"[](https://a.example)":                          "(https://a.example)\n",
		"![a cat](cat.png)":                              "[image] a cat (cat.png)\n",
		"[a][b]\n\n[b]: https://a.example":               "[a][b]\n\n[b]: https://a.example\n",
		"|a|\n|-|\n|&#27;[2J&#10;x|":                     "a\n─────\n[2J x\n",
	} {
		if got := render(Sanitize(in), 80, "", ""); got != want {
			t.Errorf("render(%q) = %q, want %q", in, got, want)
		}
		if got := render(Sanitize(in), 80, ThemeDark, ""); strings.Contains(got, "\x1b[2J") || strings.Contains(got, "\x1b[31m") || strings.ContainsRune(got, '\u009b') {
			t.Errorf("render(%q) = %q: an escape got through", in, got)
		}
	}
}

// TestMarkdownKeepsText checks that other texts are unchanged.
func TestMarkdownKeepsText(t *testing.T) {
	for _, text := range []string{
		"{\n  \"a\": {\n    \"b\": [1, 2]\n  }\n}\n",
		"name     age\nAlice     30\n",
		"2 * 3 * 4 = 24, snake_case_name, 5 < 6 > 4, a | b\n",
		"Dear all,\n\n  one\n    two\n",
	} {
		if got := render(text, 80, "", ""); got != text {
			t.Errorf("render = %q, want %q", got, text)
		}
	}
}

// snippets are pieces of which the streams of TestWriting are made.
var snippets = []string{
	"# Head\n", "a **bold", " word** and `code`", "\n", "\n\n", "- item\n", "  - nested\n", "1. one\n", "```\n", "```go\n", "x := 1\n", "    indented\n", "> quote\n", "| a | b |\n", "|---|--:|\n", "| 1 | 2 |\n",
	"---\n", "--", "===\n", "日本語 ✅ ", "[a](http://b)", "<div>\n", "</div>\n", " ", "\t", "*", "_x_", "~~~\n", "long words and more of them ", "&amp;", "+ [x] done\n", "<br>", "\\",
}

// TestWriting checks that a streamed text finally looks as if it had come at once, and that its earlier states leave no traces.
func TestWriting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text string
		for range r.IntN(25) {
			text += snippets[r.IntN(len(snippets))]
		}
		const width = 80
		want := render(text, width, "", "")
		g := glass{vt10x.New(vt10x.WithSize(width, 200))}
		now := time.Unix(0, 0)
		v := newTurnView(&ui{screen: screen{w: g, repaint: true}}, func() time.Time { return now })
		for rest := text; rest != ""; {
			k := min(len(rest), 1+r.IntN(7))
			v.write(rest[:k], "")
			rest = rest[k:]
			now = now.Add(redraw)
			v.tick()
		}
		v.finish()
		v.end()
		whole := glass{vt10x.New(vt10x.WithSize(width, 200))}
		_, _ = whole.Write([]byte(want))
		if got, want := g.text(), whole.text(); got != want {
			t.Fatalf("%q (-want +got):\n%s", text, cmp.Diff(want, got))
		}
	}
}

// TestWritingTall checks that a block taller than the screen shows its end while it is written, and is complete in the end.
func TestWritingTall(t *testing.T) {
	g := glass{vt10x.New(vt10x.WithSize(80, 200))}
	now := time.Unix(0, 0)
	v := newTurnView(&ui{screen: screen{w: g, repaint: true}}, func() time.Time { return now })
	var want strings.Builder
	v.write("| n |\n|---|\n", "")
	want.WriteString("n\n──\n")
	for i := range 50 {
		v.write(fmt.Sprintf("| %d |\n", i), "")
		fmt.Fprintf(&want, "%d\n", i)
		now = now.Add(redraw)
		v.tick()
		if rows := strings.Count(g.text(), "\n") + 1; rows > 23 {
			t.Fatalf("%d rows are on a screen of 24 before the table is whole", rows)
		}
	}
	if got := g.text(); !strings.HasPrefix(got, "…\n") || !strings.HasSuffix(got, "\n48\n49") {
		t.Errorf("while it is written:\n%s", got)
	}
	v.finish()
	if got := g.text() + "\n"; got != want.String() {
		t.Errorf("in the end (-want +got):\n%s", cmp.Diff(want.String(), got))
	}
}

// TestMarkdownHostile checks that texts that take long to parse are shown unformatted, without losing anything.
func TestMarkdownHostile(t *testing.T) {
	for name, text := range map[string]string{
		"quotes": strings.Repeat(">", 1<<20), "links": strings.Repeat("[a](", 1<<18), "emphasis": strings.Repeat("*a_ ", 1<<18), "lines": strings.Repeat("*a\n", 1<<18),
		"after much": strings.Repeat("some **text**\n\n", 2) + strings.Repeat("[", 1<<17), "in a list": "- a\n- b\n" + strings.Repeat("  [", 1<<15),
	} {
		w := newWriting("", "")
		var got []string
		for rest := text; rest != ""; {
			k := min(len(rest), 8<<10)
			w.add(rest[:k])
			rest = rest[k:]
			done, _ := w.draw(80, false)
			got = append(got, done...)
		}
		done, _ := w.draw(80, true)
		got = append(got, done...)
		if !w.plain {
			t.Errorf("%s: it was parsed as Markdown", name)
		}
		strip := strings.NewReplacer(" ", "", "\n", "", "•", "-", "│", "")
		if got, want := strip.Replace(strings.Join(got, "")), strip.Replace(text); len(got) < len(want)*9/10 || !strings.HasSuffix(got, want[len(want)-100:]) {
			t.Errorf("%s: %d bytes of %d are shown", name, len(got), len(want))
		}
	}
}

// TestLiveLinesOfANarrowerWindow checks that live lines that the terminal has wrapped, because the window became narrower, are removed completely.
func TestLiveLinesOfANarrowerWindow(t *testing.T) {
	u := &ui{screen: screen{w: glass{vt10x.New(vt10x.WithSize(80, 20))}, repaint: true}}
	u.live = []string{strings.Repeat("x", 70), "\x1b[2m" + strings.Repeat("日", 45) + "\x1b[0m", ""}
	if got := u.liveRows(); got != 4 {
		t.Errorf("liveRows = %d, want 4", got)
	}
}

// TestWaiting checks that the user soon sees that something is being done, and that it continues.
func TestWaiting(t *testing.T) {
	g := glass{vt10x.New(vt10x.WithSize(80, 20))}
	now := time.Unix(0, 0)
	v := newTurnView(&ui{screen: screen{w: g, repaint: true}}, func() time.Time { return now })
	seen := map[string]bool{}
	for range 9 {
		now = now.Add(redraw)
		v.tick()
		if got := g.text(); !strings.HasSuffix(got, " thinking") {
			t.Fatalf("after %v the screen is %q", now.Sub(v.start), got)
		}
		seen[g.text()] = true
	}
	if len(seen) != 9 {
		t.Errorf("the mark has %d looks in nine steps, want it to turn", len(seen))
	}
	now = now.Add(time.Second)
	v.tick()
	if got := g.text(); !strings.HasSuffix(got, " thinking  1.9 s  (Ctrl-C cancels)") {
		t.Errorf("later the screen is %q", got)
	}
	v.write("an answer", "")
	v.finish()
	if got := g.text(); got != "an answer" {
		t.Errorf("in the end the screen is %q", got)
	}
}
