package repl

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hinshun/vt10x"

	"github.com/cortex-orchestrator/cortex/client"
)

// glass is a terminal's screen without a process.
type glass struct{ vt10x.Terminal }

func (g glass) Write(b []byte) (int, error) {
	_, err := g.Terminal.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
	return len(b), err
}

func (g glass) text() string {
	var lines []string
	for line := range strings.SplitSeq(g.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " \x00"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func TestUI(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(u *ui)
		want string
	}{
		{"live lines below what is printed", func(u *ui) {
			u.Live([]string{"one", "two"})
			u.Print("text")
			u.Live([]string{"three"})
		}, "text\nthree"},
		{"no live lines behind a text within a line", func(u *ui) {
			u.Live([]string{"one", "two"})
			u.Stream("he")
			u.Live([]string{"one", "two"})
			u.Stream("llo")
			u.EndStream()
			u.Live([]string{"one"})
		}, "hello\none"},
		{"live lines removed", func(u *ui) {
			u.Live([]string{"one", "two", "three"})
			u.Live([]string{"one"})
			u.Live(nil)
			u.Print("text")
		}, "text"},
		{"notices above the live lines", func(u *ui) {
			u.Live([]string{"one"})
			u.Notice("news", "")
		}, "news\none"},
		{"notices behind a stream", func(u *ui) {
			u.Stream("a\n")
			u.Notice("news", "")
			u.Stream("b")
			u.Notice("more", "")
			u.EndStream()
		}, "a\nb\nnews\nmore"},
		{"too many notices", func(u *ui) {
			u.Stream("a")
			for range maxWaiting + 3 {
				u.Notice("n", "")
			}
			u.EndStream()
		}, strings.Repeat("n\n", 8) + "(3 more lines are not shown)"},
		{"keys echoed at the beginning of a line", func(u *ui) {
			_, _ = u.w.Write([]byte("^C"))
			u.Print("text")
			_, _ = u.w.Write([]byte("abc"))
			u.Stream("x")
		}, "text\nx"},
		{"Print within a line", func(u *ui) {
			u.Stream("a")
			u.Print("b")
		}, "a\nb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := glass{vt10x.New(vt10x.WithSize(40, 10))}
			tc.do(&ui{screen: screen{w: g, repaint: true}})
			if got := g.text(); got != tc.want {
				t.Errorf("screen:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// TestExportFails checks that a conversation that cannot be read to its end leaves no partial file, and does not change an existing one.
func TestExportFails(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.md")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the store is away")
	c := &chat{ui: &ui{screen: screen{w: glass{vt10x.New()}}}, contextID: "ctx"}
	c.Backend.History = func(context.Context, string) iter.Seq2[*client.Line, error] {
		return func(yield func(*client.Line, error) bool) {
			_ = yield(&client.Line{Text: "half"}, nil) && yield(nil, broken)
		}
	}
	for _, err := range []error{c.export(t.Context(), filepath.Join(dir, "new.md")), c.exportOver(t.Context(), old)} {
		if !errors.Is(err, broken) {
			t.Errorf("export = %v, want the store's error", err)
		}
	}
	if b, err := os.ReadFile(old); string(b) != "old" || err != nil {
		t.Errorf("the old file is %q, %v", b, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestSecondInterruptLeaves checks that Ctrl-C leaves behind its hint, however much later, unless a text was discarded meanwhile.
func TestSecondInterruptLeaves(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := glass{vt10x.New()}
	c := &chat{ui: &ui{screen: screen{w: g}}}
	c.Client = &client.Client{Now: func() time.Time { now = now.Add(time.Hour); return now }}
	for i, press := range []struct{ discarded, leaves bool }{{false, false}, {true, false}, {false, false}, {false, true}} {
		if got := c.interrupted(press.discarded); got != press.leaves {
			t.Errorf("press %d leaves: %v, want %v", i+1, got, press.leaves)
		}
	}
	if n := strings.Count(g.text(), "Ctrl-C again"); n != 2 {
		t.Errorf("the hint was shown %d times, want twice:\n%s", n, g.text())
	}
}

// TestHelpFits checks that all of /help is on a terminal of 80 columns and 24 rows, with the prompt below it.
func TestHelpFits(t *testing.T) {
	var b bytes.Buffer
	c := &chat{ui: &ui{screen: screen{w: &b}}}
	c.Decides = "deciding offline by words; for a language model: --llm … (cortex llm list)"
	if err := c.help(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(rows) > 23 {
		t.Errorf("it has %d rows, want 23 at most:\n%s", len(rows), &b)
	}
	for _, row := range rows {
		if len([]rune(row)) > 79 {
			t.Errorf("%q is wider than 79 columns", row)
		}
	}
}
