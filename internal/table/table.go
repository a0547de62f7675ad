// Package table formats tables for people: the lists of the commands and of the chat. It measures text in terminal columns, and has other functions
// that need that.
package table

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Column is a column of a table.
type Column struct {
	Title string
	// Least is the width to which texts may be cut when the screen is too narrow, those of the widest column first; 0: they are not cut.
	Least int
	// Rank is the order in which columns are left out when cutting is not sufficient: the highest rank first; columns without a rank stay.
	Rank int
	// IDs shortens ids made by Cortex to a beginning, which other commands accept, before anything else is cut.
	IDs bool
	// Wide is the minimum width of the column.
	Wide int
}

// Table has rows of texts, which may be external: each is shown as one clean line. A table whose columns have no titles has no head.
type Table struct {
	Columns []Column
	// Wrap wraps the last column below itself instead of cutting it.
	Wrap bool

	rows []row
}

type row struct {
	cells []string
	marks []string // texts that are shown on any screen
}

// New returns a table with these titles. Texts are cut when there is no room, and no column is left out.
func New(titles ...string) *Table {
	t := &Table{}
	for _, title := range titles {
		t.Columns = append(t.Columns, Column{Title: title, Least: least})
	}
	return t
}

// Row adds a row. Cells at its end may be missing.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, row{cells: cells}) }

// Mark makes a text of the last row visible on any screen: if the row has no room for all of it, it is shown below.
func (t *Table) Mark(text string) {
	if text != "" {
		last := &t.rows[len(t.rows)-1]
		last.marks = append(last.marks, text)
	}
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Cut removes the rows after the first n, and returns how many these were.
func (t *Table) Cut(n int) int {
	more := max(0, len(t.rows)-n)
	t.rows = t.rows[:len(t.rows)-more]
	return more
}

const (
	gap       = 2       // spaces between columns
	least     = 12      // the default width to which a column may be cut
	narrowest = 8       // the width to which columns may be cut as a last resort
	maxPad    = 60      // in a table that is not for a terminal: the padding that a long text causes in other rows, at most
	maxCell   = 1 << 20 // characters of a text
)

// Render formats the table for a screen with this many columns, or in full if width is 0. quiet formats its head; nil leaves it unchanged. Empty
// columns are left out.
func (t *Table) Render(width int, quiet func(string) string) string {
	l := layout{width: width, columns: t.Columns, rows: t.clean()}
	for i := range t.Columns {
		if slices.ContainsFunc(l.rows, func(r row) bool { return r.cells[i] != "" }) {
			l.shown = append(l.shown, i)
		}
	}
	if len(l.shown) == 0 {
		return ""
	}
	switch {
	case t.Wrap && width > 0:
		return l.wrapped(quiet)
	case width > 0:
		l.fit()
	default:
		for _, w := range l.natural() {
			l.widths = append(l.widths, min(w, maxPad))
		}
	}
	var b strings.Builder
	l.writeHead(&b, quiet)
	for _, r := range l.rows {
		line := l.line(r.cells, len(l.shown))
		b.WriteString(line + "\n")
		if width > 0 {
			writeMarks(&b, line, r.marks, width)
		}
	}
	return b.String()
}

// clean returns the rows cleaned, all with the same number of cells.
func (t *Table) clean() (rows []row) {
	for _, r := range t.rows {
		cells := make([]string, len(t.Columns))
		for i, cell := range r.cells {
			cells[i] = prompt.Clean(cell, maxCell)
			if i == 0 { // where it says what the cell is a part of
				cells[i] = cell[:len(cell)-len(strings.TrimLeft(cell, " "))] + cells[i]
			}
		}
		var marks []string
		for _, m := range r.marks {
			marks = append(marks, prompt.Clean(m, maxCell))
		}
		rows = append(rows, row{cells, marks})
	}
	return rows
}

// layout is a table on a screen.
type layout struct {
	width   int
	columns []Column
	rows    []row
	shown   []int // the columns that are not left out
	widths  []int // of the shown columns
}

// natural returns the widths of the columns without a limit.
func (l *layout) natural() []int {
	widths := make([]int, len(l.shown))
	for n, i := range l.shown {
		widths[n] = max(Width(l.columns[i].Title), l.columns[i].Wide)
		for _, r := range l.rows {
			widths[n] = max(widths[n], Width(r.cells[i]))
		}
	}
	return widths
}

// fit chooses the columns and their widths so that each row fits on a line.
func (l *layout) fit() {
	if l.fits(func(int) int { return maxCell }) {
		return
	}
	for _, i := range l.shown {
		if l.columns[i].IDs {
			l.shorten(i)
		}
	}
	for !l.fits(func(i int) int { return l.columns[i].Least }) {
		first := slices.MaxFunc(l.shown, func(a, b int) int { return cmp.Compare(l.columns[a].Rank, l.columns[b].Rank) })
		if l.columns[first].Rank == 0 {
			break
		}
		l.shown = slices.DeleteFunc(l.shown, func(i int) bool { return i == first })
	}
	if last := l.shown[len(l.shown)-1]; l.fits(func(i int) int { // the words at the end rather than what names something
		if i == last {
			return narrowest
		}
		return l.columns[i].Least
	}) {
		return
	}
	for !l.fits(l.narrowest) && len(l.shown) > 1 {
		l.shown = l.shown[:len(l.shown)-1]
	}
	if len(l.shown) == 1 {
		l.widths[0] = min(l.widths[0], l.width)
	}
}

// narrowest returns the width to which a column is cut as a last resort. The first column, whose texts other commands accept, keeps more.
func (l *layout) narrowest(i int) int {
	if i == 0 {
		return l.columns[i].Least
	}
	return narrowest
}

// fits sets the widths of the columns, none below the bound that to returns, and reports whether a row fits on a line.
func (l *layout) fits(to func(int) int) bool {
	l.widths = l.natural()
	bounds := make([]int, len(l.widths))
	for n, i := range l.shown {
		if bounds[n] = l.widths[n]; to(i) > 0 {
			bounds[n] = min(to(i), l.widths[n])
		}
	}
	return Narrow(l.widths, bounds, l.width-gap*(len(l.widths)-1))
}

// Narrow reduces the widest columns, none below its bound, until they take at most room together. It reports whether they do.
func Narrow(widths, bounds []int, room int) bool {
	used := func(most int) (sum int) {
		for i, w := range widths {
			sum += max(min(w, most), bounds[i])
		}
		return sum
	}
	most := slices.Max(widths)
	for most = min(most, max(room, 1)); most > 1 && used(most) > room; most-- {
	}
	fits := used(most) <= room
	for i, w := range widths {
		widths[i] = max(min(w, most), bounds[i])
	}
	return fits
}

// made matches ids that Cortex has made.
var made = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// shorten shortens the ids of a column to two groups, or to as much as distinguishes them.
func (l *layout) shorten(i int) {
	n := len("5f0c2a54-1b2c")
	for begins := map[string]string{}; ; n, begins = n+1, map[string]string{} {
		apart := true
		for _, r := range l.rows {
			id := r.cells[i]
			begin := id[:min(n, len(id))]
			other, taken := begins[begin]
			apart = apart && (!taken || other == id)
			begins[begin] = id
		}
		if apart {
			break
		}
	}
	for _, r := range l.rows {
		if made.MatchString(r.cells[i]) {
			r.cells[i] = r.cells[i][:min(n, len(r.cells[i]))]
		}
	}
}

// line formats the first columns of a row, aligned with those of other rows.
func (l *layout) line(cells []string, columns int) string {
	var b strings.Builder
	for n, i := range l.shown[:columns] {
		cell := cells[i]
		if l.width > 0 {
			cell = Fit(cell, l.widths[n])
		}
		b.WriteString(Pad(cell, l.widths[n]) + strings.Repeat(" ", gap))
	}
	return strings.TrimRight(b.String(), " ")
}

func (l *layout) titles() []string {
	titles := make([]string, len(l.columns))
	for i, c := range l.columns {
		titles[i] = c.Title
	}
	return titles
}

func (l *layout) writeHead(b *strings.Builder, quiet func(string) string) {
	head := l.line(l.titles(), len(l.shown))
	if head == "" {
		return
	}
	if quiet != nil {
		head = quiet(head)
	}
	b.WriteString(head + "\n")
}

// writeMarks writes the marks of a row that its line does not show in full.
func writeMarks(b *strings.Builder, line string, marks []string, width int) {
	for _, mark := range marks {
		if strings.Contains(line, mark) {
			continue
		}
		for _, part := range Wrap(mark, width-gap) {
			b.WriteString(strings.Repeat(" ", gap) + part + "\n")
		}
	}
}

// wrapped formats a table whose last column wraps below itself. On a screen that is too narrow for that, each row begins with a line of its other
// cells, and the last one follows below.
func (l *layout) wrapped(quiet func(string) string) string {
	const room = 16 // for the last column, beside the others
	l.widths = l.natural()
	last, indent := len(l.shown)-1, 0
	for _, w := range l.widths[:last] {
		indent += w + gap
	}
	var b strings.Builder
	if indent+min(room, l.widths[last]) > l.width {
		if head := l.stacked(l.titles()); strings.TrimSpace(head) != "" {
			if quiet != nil {
				head = quiet(head)
			}
			b.WriteString(head + "\n")
		}
		for _, r := range l.rows {
			b.WriteString(l.stacked(r.cells) + "\n")
		}
		return b.String()
	}
	l.writeHead(&b, quiet)
	for _, r := range l.rows {
		text := strings.Join(Wrap(r.cells[l.shown[last]], l.width-indent), "\n"+strings.Repeat(" ", indent))
		b.WriteString(strings.TrimRight(Pad(l.line(r.cells, last), indent)+text, " ") + "\n")
	}
	return b.String()
}

// stacked formats a row with its last cell below the others.
func (l *layout) stacked(cells []string) string {
	last := len(l.shown) - 1
	var words, lines []string
	for _, i := range l.shown[:last] {
		if cells[i] != "" {
			words = append(words, cells[i])
		}
	}
	if len(words) > 0 {
		lines = append(lines, Fit(strings.Join(words, strings.Repeat(" ", gap)), l.width))
	}
	for _, line := range Wrap(cells[l.shown[last]], l.width-gap) {
		lines = append(lines, strings.Repeat(" ", gap)+line)
	}
	return strings.Join(lines, "\n")
}
