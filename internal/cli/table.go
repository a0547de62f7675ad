package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// table prints aligned columns. Cells may hold anybody's text: each becomes one clean line, of at most 60 characters but for the first.
type table struct {
	w     io.Writer
	rows  [][]string
	marks map[int][]string // by row
	width int              // columns of the terminal that it keeps; 0 is as wide as it likes
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: w}
	t.row(header...)
	return t
}

// newList returns a table whose rows keep to a line of the terminal each. The first column has what other commands call a row by: it is
// the last that is cut.
func newList(w io.Writer, header ...string) *table {
	t := newTable(w, header...)
	t.width = screenWidth(w)
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cleanRow(cells, maxCell)) }

// mark wants a text of the last row to be read however narrow the screen is: where the row has no room for all of it, it comes below.
func (t *table) mark(text string) {
	if t.marks == nil {
		t.marks = map[int][]string{}
	}
	n := len(t.rows) - 1
	if text = prompt.Clean(text, maxMark); text != "" {
		t.marks[n] = append(t.marks[n], text)
	}
}

// maxMark bounds a mark, in characters: two names and what is said of them.
const maxMark = 2*transport.MaxID + 64

// cleanRow returns the cells of a row as they are shown, without what is empty at its end. The first one, which other commands take, is
// whole. last bounds the last one, in characters.
func cleanRow(cells []string, last int) []string {
	row, full := make([]string, len(cells)), 0
	for i, text := range cells {
		most := maxCell
		switch i {
		case 0:
			most = max(most, transport.MaxID)
		case len(cells) - 1:
			most = last
		}
		if row[i] = prompt.Clean(text, most); row[i] != "" {
			full = i + 1
		}
	}
	return row[:full]
}

// maxCell is how many characters a table shows of anybody's text.
const maxCell = 60

func (t *table) flush() error {
	rows := t.rows
	if t.width > 0 {
		rows = withMarks(fit(rows, t.width, t.width/2), t.marks, t.width)
	}
	return writeColumns(t.w, "", rows)
}

// withMarks puts below each row those of its marks that it does not show whole.
func withMarks(rows [][]string, marks map[int][]string, width int) [][]string {
	var out [][]string
	for n, row := range rows {
		out = append(out, row)
		for _, mark := range marks[n] {
			if slices.ContainsFunc(row, func(cell string) bool { return strings.Contains(cell, mark) }) {
				continue
			}
			for _, line := range repl.Wrap(mark, width-gap) {
				out = append(out, []string{strings.Repeat(" ", gap) + line})
			}
		}
	}
	return out
}

const (
	gap       = 2  // spaces between columns
	narrowest = 10 // columns of a terminal to which a cell is cut where there is no room for all
	minLast   = 12 // that are left for the last cell
)

// printText writes lines of text, which on a terminal are broken at spaces so that they keep to it.
func printText(w io.Writer, format string, args ...any) (int, error) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	if width := screenWidth(w); width > 0 {
		lines = wrapped(lines, width)
	}
	return fmt.Fprintln(w, strings.Join(lines, "\n"))
}

// screenWidth returns the width of a terminal, or 0 for what is none.
func screenWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return max(width, 0)
		}
	}
	return 0
}

// fit returns rows of which each, written with its columns below each other, is a line of at most width columns of a terminal. The widest
// cells are cut first, so that a stranger's long name takes no room from what is said of others; those of the first column only
// when they are wider than first. What has no room at all is left out at the end of a row.
func fit(rows [][]string, width, first int) [][]string {
	var widths []int
	last := 0
	for _, row := range rows {
		for i := range max(0, len(row)-1) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	for _, row := range rows {
		if len(row) > len(widths) {
			last = max(last, uniseg.StringWidth(row[len(widths)]))
		}
	}
	room, most := width-gap*len(widths)-min(last, minLast), width // most: of the columns of a cell
	bound := func(i int) int {
		if i == 0 {
			return min(widths[i], max(most, first))
		}
		return min(widths[i], most)
	}
	for ; most > narrowest; most-- {
		used := 0
		for i := range widths {
			used += bound(i)
		}
		if used <= room {
			break
		}
	}
	out := make([][]string, len(rows))
	for n, row := range rows {
		left := width
		for i, cell := range row {
			if i > 0 && left < min(narrowest, uniseg.StringWidth(cell)) {
				break
			}
			if i < len(row)-1 {
				cell = cut(cell, min(bound(i), left))
				left -= bound(i) + gap
			} else {
				cell = cut(cell, left)
			}
			out[n] = append(out[n], cell)
		}
	}
	return out
}

// writeColumns writes rows with their cells below each other. A column is as wide as its widest cell that is not the last of its row. What
// follows an empty row has columns of its own.
func writeColumns(w io.Writer, indent string, rows [][]string) error {
	if i := slices.IndexFunc(rows, func(row []string) bool { return len(row) == 0 }); i >= 0 {
		if err := writeColumns(w, indent, rows[:i]); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		return writeColumns(w, indent, rows[i+1:])
	}
	var widths []int
	for _, row := range rows {
		for i := range max(0, len(row)-1) {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := indent
		for i, cell := range row {
			if i < len(row)-1 {
				cell = pad(cell, widths[i]+gap)
			}
			line += cell
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pad fills s with spaces to width columns of a terminal.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-uniseg.StringWidth(s)))
}

// cut returns the beginning of s, with an ellipsis, where s takes more than width columns of a terminal.
func cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	left := width - 1
	for g := uniseg.NewGraphemes(s); g.Next() && g.Width() <= left; left -= g.Width() {
		b.WriteString(g.Str())
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// ago is a time as people say it.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.Local().Format("2006-01-02")
}
