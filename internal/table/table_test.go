package table_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/table"
)

func agents() *table.Table {
	return &table.Table{Columns: []table.Column{
		{Title: "AGENT", Least: 10},
		{Title: "STATE"},
		{Title: "INSTANCES", Rank: 2},
		{Title: "VERSION", Least: 8, Rank: 1},
		{Title: "OWNER"},
		{Title: "DESCRIPTION", Least: 16},
	}}
}

// TestColumnsGiveWay checks which column is narrowed, and which one left out, on narrower and narrower screens. Outside a terminal nothing is cut.
func TestColumnsGiveWay(t *testing.T) {
	tab := agents()
	tab.Row("agent_echo", "active", "1", "1.0.0", "", "Repeats what it is told, word for word")
	tab.Row("天気", "active", "12", "2.0.0", "", "東京の天気を教えます。明日の天気も")
	tab.Row("cafe\u0301", "draining", "1", "")
	for width, want := range map[int]string{
		0: `AGENT       STATE     INSTANCES  VERSION  DESCRIPTION
agent_echo  active    1          1.0.0    Repeats what it is told, word for word
天気        active    12         2.0.0    東京の天気を教えます。明日の天気も
cafe` + "\u0301" + `        draining  1
`,
		80: `AGENT       STATE     INSTANCES  VERSION  DESCRIPTION
agent_echo  active    1          1.0.0    Repeats what it is told, word for word
天気        active    12         2.0.0    東京の天気を教えます。明日の天気も
cafe` + "\u0301" + `        draining  1
`,
		60: `AGENT       STATE     INSTANCES  VERSION  DESCRIPTION
agent_echo  active    1          1.0.0    Repeats what it…
天気        active    12         2.0.0    東京の天気を教え…
cafe` + "\u0301" + `        draining  1
`,
		50: `AGENT       STATE     VERSION  DESCRIPTION
agent_echo  active    1.0.0    Repeats what it is…
天気        active    2.0.0    東京の天気を教えま…
cafe` + "\u0301" + `        draining
`,
		40: `AGENT       STATE     DESCRIPTION
agent_echo  active    Repeats what it…
天気        active    東京の天気を教え…
cafe` + "\u0301" + `        draining
`,
		20: `AGENT       STATE
agent_echo  active
天気        active
cafe` + "\u0301" + `        draining
`,
	} {
		if diff := cmp.Diff(want, tab.Render(width, nil)); diff != "" {
			t.Errorf("on %d columns (-want +got):\n%s", width, diff)
		}
	}
}

// TestWideText checks that columns are aligned on a terminal with wide and zero-width characters.
func TestWideText(t *testing.T) {
	tab := table.New("ID", "TITLE", "STATE", "")
	tab.Row("1", "plain", "open")
	tab.Row("2", "✅ ❌ ⭐ ⏳ ⚡", "open")
	tab.Row("3", "東京の天気", "open")
	tab.Row("4", "cafe\u0301", "open", "more")
	tab.Row("5", "한국어", "")
	tab.Row("6", "👩🏽\x1b[31mred\n line")
	want := `ID  TITLE           STATE
1   plain           open
2   ✅ ❌ ⭐ ⏳ ⚡  open
3   東京の天気      open
4   cafe` + "\u0301" + `            open   more
5   한국어
6   👩🏽red line
`
	for _, width := range []int{0, 80} {
		if diff := cmp.Diff(want, tab.Render(width, nil)); diff != "" {
			t.Errorf("on %d columns (-want +got):\n%s", width, diff)
		}
	}
}

// TestStrangersLongTexts checks that one agent with a long id and version neither breaks all lines nor hides its warning, and that outside a terminal
// its name is complete and takes no room from other rows.
func TestStrangersLongTexts(t *testing.T) {
	const mark = "looks like agent_echo"
	long := strings.Repeat("天", 50)
	tab := agents()
	tab.Row("agent_echo", "active", "1", "1.0.0", "", "Repeats what it is told")
	tab.Row(long, "active", "1", strings.Repeat("9.", 60), "", mark+" · "+strings.Repeat("x", 80))
	tab.Mark(mark)
	for _, width := range []int{400, 200, 100, 80, 60, 40, 20, 5, 1} {
		got := tab.Render(width, nil)
		for line := range strings.Lines(got) {
			if w := table.Width(strings.TrimSuffix(line, "\n")); w > width && width > 3 {
				t.Errorf("%d columns on %d: %s", w, width, line)
			}
		}
		if !strings.Contains(got, "agent_echo ") && width > 20 {
			t.Errorf("the short id is cut at %d columns:\n%s", width, got)
		}
		if all := strings.Join(strings.Fields(got), ""); !strings.Contains(all, strings.ReplaceAll(mark, " ", "")) {
			t.Errorf("the other name is not there at %d columns:\n%s", width, got)
		}
		if n := strings.Count(got, mark); width >= 200 && (n != 1 || strings.Count(got, "\n") != 3) {
			t.Errorf("what fits has a line of its own at %d columns:\n%s", width, got)
		}
	}
	piped := tab.Render(0, nil)
	if !strings.Contains(piped, "\n"+long+"  active ") || !strings.Contains(piped, strings.Repeat("x", 80)+"\n") {
		t.Errorf("it is cut where nobody looks:\n%s", piped)
	}
	if strings.Contains(piped, "agent_echo"+strings.Repeat(" ", 60)) {
		t.Errorf("a long name makes the rows of others wide:\n%s", piped)
	}
}

// TestIDs checks that ids are shortened first, to what distinguishes them, and names are not.
func TestIDs(t *testing.T) {
	tab := &table.Table{Columns: []table.Column{{Title: "TASK", IDs: true, Least: 13}, {Title: "TEXT", Least: 10}}}
	tab.Row("01a20777-c104-7dd0-bd7a-f74d466e7328", "one thing")
	tab.Row("01a20777-c104-7dd0-bd7b-f74d466e7328", "another thing")
	tab.Row("a-name-of-somebody's", "a third thing")
	want := `TASK                     TEXT
01a20777-c104-7dd0-bd7a  one thing
01a20777-c104-7dd0-bd7b  another thing
a-name-of-somebody's     a third thing
`
	if diff := cmp.Diff(want, tab.Render(40, nil)); diff != "" {
		t.Errorf("40 columns (-want +got):\n%s", diff)
	}
	for _, width := range []int{0, 80} {
		if got := tab.Render(width, nil); !strings.Contains(got, "bd7a-f74d466e7328  one") {
			t.Errorf("it is cut though there is room on %d columns:\n%s", width, got)
		}
	}
}

// TestWrappedColumn checks a table that wraps its last column, stacks its cells where there is no room for that, and breaks no word that fits a line.
func TestWrappedColumn(t *testing.T) {
	tab := table.New("agent", "state", "what")
	tab.Wrap = true
	tab.Row("agent_clock", "active", "tells the time of day in all cities of the world")
	tab.Row()
	tab.Row("b\x1b[31m\nc", "stale", "")
	for width, want := range map[int]string{
		39: `agent        state   what
agent_clock  active  tells the time of
                     day in all cities
                     of the world

b c          stale
`,
		33: `agent  state
  what
agent_clock  active
  tells the time of day in all
  cities of the world

b c  stale
`,
	} {
		if diff := cmp.Diff(want, tab.Render(width, nil)); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
	}
	for width := 4; width < 50; width++ {
		for line := range strings.SplitSeq(tab.Render(width, nil), "\n") {
			if table.Width(line) > width {
				t.Errorf("at %d columns: line %q", width, line)
			}
		}
	}
}

// TestCommandsStayWhole checks that no line ends within a command in backquotes, which users copy, unless it is longer than a line.
func TestCommandsStayWhole(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"no agent is online: start one with `cortex agent echo`, or wait", 44, []string{"no agent is online: start one with", "`cortex agent echo`, or wait"}},
		{"say `a b c d e f g` now", 8, []string{"say `a b", "c d e f", "g` now"}},
		{"one ` mark is no command at all", 12, []string{"one ` mark", "is no", "command at", "all"}},
		{"", 10, nil},
	} {
		if diff := cmp.Diff(test.want, table.Wrap(test.text, test.width)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
	}
}

// TestHead checks that the head can be quiet, and that columns without titles have none.
func TestHead(t *testing.T) {
	tab := table.New("A", "B")
	tab.Row("1", "2")
	if got := tab.Render(0, func(s string) string { return "<" + s + ">" }); got != "<A  B>\n1  2\n" {
		t.Errorf("the table is %q", got)
	}
	bare := table.New("", "")
	bare.Row("1", "2")
	if got := bare.Render(40, nil); got != "1  2\n" {
		t.Errorf("the table is %q", got)
	}
	if got := table.New("A").Render(40, nil); got != "" {
		t.Errorf("an empty table is %q", got)
	}
}

// TestWordsGiveWayToNames checks that the words at the end of a row are cut further before the name of something is.
func TestWordsGiveWayToNames(t *testing.T) {
	tab := &table.Table{Columns: []table.Column{{Title: "TASK", Least: 13}, {Title: "AGENT", Least: 16}, {Title: "STATE"}, {Title: "TEXT", Least: 24}}}
	tab.Row("0f42d511-b2c8", "agent_clock", "completed", "what time is it in Lima, in Oslo and in Cairo")
	tab.Row("619bf652-1246", "slow", "submitted", "bake a cake")
	want := `TASK           AGENT        STATE      TEXT
0f42d511-b2c8  agent_clock  completed  what time…
619bf652-1246  slow         submitted  bake a cake
`
	if got := tab.Render(50, nil); got != want {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
}
