package repl

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 5, "short"},
		{"too long", 5, "too…"},
		{"abcdef", 4, "abc…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"x", 0, ""},
		{"✅❌⭐", 6, "✅❌⭐"},
		{"⏳⚡✅❌", 6, "⏳⚡…"},
		{"👩🏽👩🏽👩🏽", 5, "👩🏽👩🏽…"},
	} {
		got := table.Fit(tc.in, tc.width)
		if got != tc.want || table.Width(got) > tc.width {
			t.Errorf("table.Fit(%q, %d) = %q, want %q", tc.in, tc.width, got, tc.want)
		}
	}
}

// TestWideCharacters checks the widths of characters that are used as marks, and of wide scripts.
func TestWideCharacters(t *testing.T) {
	for text, want := range map[string]int{
		"✅": 2, "❌": 2, "⭐": 2, "⏳": 2, "⚡": 2, "⚠": 1, "⚠\ufe0f": 2, "✓": 1, "→": 1, "…": 1, "·": 1, "東京": 4, "한국": 4, "ｱ": 1, "Ａ": 2, "é": 1, "e\u0301": 1, "👍🏽": 2, "🇯🇵": 2,
	} {
		if got := table.Width(text); got != want {
			t.Errorf("table.Width(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefghij kl", 4, []string{"abcd", "efgh", "ij", "kl"}},
		{"日本語", 1, []string{"日", "本", "語"}},
		{"✅❌⭐⏳⚡", 4, []string{"✅❌", "⭐⏳", "⚡"}},
	} {
		if diff := cmp.Diff(tc.want, table.Wrap(tc.in, tc.width)); diff != "" {
			t.Errorf("table.Wrap(%q, %d) (-want +got):\n%s", tc.in, tc.width, diff)
		}
	}
}

// TestWrapBeforePaths checks that a line is broken before a path as before a word, and not before other punctuation.
func TestWrapBeforePaths(t *testing.T) {
	for text, want := range map[string]string{
		"look at /help to see": "look at\n/help to\nsee\n",
		"in ~ .config/cortex":  "in ~\n.config/cortex\n",
		"it is 12 / 4":         "it is\n12 / 4\n",
	} {
		if got := WrapText(text, 8); got != want {
			t.Errorf("WrapText(%q, 8) = %q, want %q", text, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	if got, want := columns([]string{"a", "bb", "ccc", "d", "e"}, 14), "a    ccc  e\nbb   d\n"; got != want {
		t.Errorf("columns = %q, want %q", got, want)
	}
}

func TestCommonPrefix(t *testing.T) {
	for want, words := range map[string][]string{"ab": {"abc", "abd", "ab"}, "": {"a", "b"}, "é": {"éa", "éb"}, "x": {"x"}} {
		if got := commonPrefix(words); got != want {
			t.Errorf("commonPrefix(%q) = %q, want %q", words, got, want)
		}
	}
}

// TestDelegationLines checks that a line about a delegation fits the screen, whatever the agent's texts are.
func TestDelegationLines(t *testing.T) {
	now := time.Unix(100, 0)
	long := strings.Repeat("日本 words ", 50)
	for width := 20; width < 120; width++ {
		for _, agent := range []string{"a", long} {
			b := board{now: func() time.Time { return now }}
			m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(long))
			d := b.started(&a2a.Task{ID: "t", Metadata: map[string]any{"agent_id": agent}, History: []*a2a.Message{m}})
			lines := []string{d.line(now.Add(100*time.Hour), width, ""), b.settled(clienttest.StatusUpdate("c", "t", a2a.TaskStateFailed, long), width, "").line}
			for _, line := range lines {
				if table.Width(line) >= width {
					t.Errorf("at %d columns: %q takes %d", width, line, table.Width(line))
				}
			}
		}
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0 s", 210 * time.Millisecond: "0.2 s", 59 * time.Second: "59.0 s",
		61 * time.Second: "1 min 01 s", 62 * time.Minute: "1 h 02 min",
	} {
		if got := elapsed(d); got != want {
			t.Errorf("elapsed(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestParseCommand(t *testing.T) {
	for _, tc := range []struct {
		in, name, args string
		ok             bool
	}{
		{"/help", "/help", "", true},
		{"/prompt  a b ", "/prompt", "a b", true},
		{"/export! x.md", "/export!", "x.md", true},
		{"/etc/passwd is what", "", "", false},
		{"/", "/", "", true},
		{"/ is a mark", "", "", false},
		{" /help", "", "", false},
		{"help", "", "", false},
		{"/help\nme", "", "", false},
	} {
		name, args, ok := parseCommand(tc.in)
		if ok != tc.ok || (ok && (name != tc.name || args != tc.args)) {
			t.Errorf("parseCommand(%q) = %q, %q, %v", tc.in, name, args, ok)
		}
	}
}

func TestNearest(t *testing.T) {
	for in, want := range map[string]string{
		"/agnets": "/agents", "/quti": "/quit", "/sess": "/sessions", "/exprt": "/export", "/zzzzzz": "", "/hlep": "/help",
		"/" + strings.Repeat("x", 1000): "",
	} {
		if got := nearest(in); got != want {
			t.Errorf("nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestComposer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"a line", []string{"hi"}, []string{"hi"}},
		{"backslash", []string{`a\`, `b\`, "c", "d"}, []string{"a\nb\nc", "d"}},
		{"block", []string{`"""`, "a", `b\`, "", `"""`, "c"}, []string{"a\nb\\\n", "c"}},
		{"block with text beside the quotes", []string{`"""a`, `b"""`}, []string{"a\nb"}},
		{"block on one line", []string{`"""a"""`}, []string{"a"}},
		{"quotes within a line", []string{`say """x"""`}, []string{`say """x"""`}},
		{"empty", []string{""}, []string{""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c composer
			var got []string
			for _, line := range tc.lines {
				text, done, err := c.add(line)
				if err != nil {
					t.Fatal(err)
				}
				if done {
					got = append(got, text)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		var c composer
		line := strings.Repeat("x", 600<<10) + `\`
		if _, _, err := c.add(line); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.add(line); err == nil || c.open {
			t.Errorf("add of 1.2 MiB = %v, open %v, want an error and a new beginning", err, c.open)
		}
	})
}
