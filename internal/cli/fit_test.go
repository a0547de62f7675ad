package cli

import (
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
)

// aligned is what is printed of rows.
func aligned(t *testing.T, rows [][]string) string {
	t.Helper()
	var b strings.Builder
	if err := writeColumns(&b, "", rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFitCountsColumns holds that lists count columns of a terminal too, also where they cut.
func TestFitCountsColumns(t *testing.T) {
	got := aligned(t, fit([][]string{
		{"AGENT", "STATE", "DESCRIPTION"},
		{"天気", "active", "東京の天気を教えます。明日の天気も"},
		{"cafe\u0301", "active", "plain words that go on and on"},
		{"👩👩👧", "active", ""},
	}, 34, 0, 0))
	want := `AGENT   STATE   DESCRIPTION
天気    active  東京の天気を教え…
cafe` + "\u0301" + `    active  plain words that…
👩👩👧  active
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

// TestFitKeepsWidth holds that one agent with a long id and version neither breaks the lines of all nor hides what is said of it.
func TestFitKeepsWidth(t *testing.T) {
	rows := [][]string{
		{"AGENT", "STATE", "INSTANCES", "SEEN", "VERSION", "DESCRIPTION"},
		{"agent_echo", "active", "1", "3 s ago", "1.0.0", "Repeats what it is told"},
		{strings.Repeat("天", 30), "active", "1", "3 s ago", strings.Repeat("9.", 30), "looks like agent_echo · " + strings.Repeat("x", 80)},
	}
	for _, width := range []int{200, 100, 80, 60, 40, 20, 5, 1} {
		got := aligned(t, fit(rows, width, 0, len("looks like agent_echo")))
		for line := range strings.Lines(got) {
			if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns on %d: %s", w, width, line)
			}
		}
		if !strings.Contains(got, "agent_echo ") && width > 10 {
			t.Errorf("the short id is cut at %d columns:\n%s", width, got)
		}
		if !strings.Contains(got, "looks like agent_echo") && width >= 80 {
			t.Errorf("the other name is not there at %d columns:\n%s", width, got)
		}
	}
}

// TestListKeepsWidth holds that the rows of a list are a line of the terminal each, and that what other commands take is whole.
func TestListKeepsWidth(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	const id = "5f9d1f2e-6d3c-4a57-9c0e-0d9a3f5b7c11"
	list := newList(tty, "CONTEXT", "UPDATED", "ENTRIES", "TOKENS", "COST", "TITLE")
	list.row(id, "2026-11-22", "1234", "123456", "0.1234", strings.Repeat("a long title ", 9))
	if err := list.flush(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := master.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	out := strings.ReplaceAll(string(b[:n]), "\r", "")
	for line := range strings.Lines(out) {
		if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	if !strings.Contains(out, "\n"+id+" ") {
		t.Errorf("the id is cut:\n%s", out)
	}
	if w := screenWidth(&strings.Builder{}); w != 0 {
		t.Errorf("what is no terminal has a width of %d", w)
	}
}
