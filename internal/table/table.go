// Package table lays out rows of texts for people: the lists of the commands and of the chat. It counts the columns that a terminal takes for
// them, and has what else depends on that.
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
	// Least is the width to which its texts are cut where a screen has no room for all, those of the widest column first; 0: they are whole.
	Least int
	// Rank says how early the column is left out where cutting makes no room: those with the highest rank first, those with none never.
	Rank int
	// IDs has the ids that Cortex makes stand there by their beginning, as other commands take them, before anything else is cut.
	IDs bool
	// Wide is how wide the column is at least.
	Wide int
}

// Table is rows of texts, which may be anybody's: each is shown as one clean line. A table whose columns have no titles has no head.
type Table struct {
	Columns []Column
	// Wrap has the last column go on below itself, where otherwise it is cut.
	Wrap bool

	rows []row
}

type row struct {
	cells []string
	marks []string // to be read however narrow the screen is
}

// New returns a table with these titles. Texts are cut where there is no room, and no column is left out.
func New(titles ...string) *Table {
	t := &Table{}
	for _, title := range titles {
		t.Columns = append(t.Columns, Column{Title: title, Least: least})
	}
	return t
}

// Row adds a row. Cells at its end may be missing.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, row{cells: cells}) }

// Mark wants a text of the last row to be read however narrow the screen is: where the row has no room for all of it, it comes below.
func (t *Table) Mark(text string) {
	if text != "" {
		last := &t.rows[len(t.rows)-1]
		last.marks = append(last.marks, text)
	}
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Cut leaves out what is behind the first n rows, and returns how many that were.
func (t *Table) Cut(n int) int {
	more := max(0, len(t.rows)-n)
	t.rows = t.rows[:len(t.rows)-more]
	return more
}

const (
	gap       = 2       // spaces between columns
	least     = 12      // to which a column is cut that says nothing else
	narrowest = 8       // to which each is cut where nothing else helps
	maxPad    = 60      // columns that a long text takes from the other rows where nobody looks
	maxCell   = 1 << 20 // characters of a text
)

// Render returns the table, for a screen of some columns or, with 0, whole. quiet is how its head is shown; nil: as it is. Columns in which
// there is nothing are left out.
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

// clean returns what is shown of the rows, all of them with as many cells.
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
	widths  []int // of those
}

// natural returns how wide the columns would be if there was room.
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

// fit chooses the columns and their widths so that a row is a line.
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
	for !l.fits(l.narrowest) && len(l.shown) > 1 {
		l.shown = l.shown[:len(l.shown)-1]
	}
	if len(l.shown) == 1 {
		l.widths[0] = min(l.widths[0], l.width)
	}
}

// narrowest is the width to which a column is cut where nothing else helps. Of the first one, which other commands take, more is left.
func (l *layout) narrowest(i int) int {
	if i == 0 {
		return l.columns[i].Least
	}
	return narrowest
}

// fits sets the widths of the columns, none of which gets narrower than to allows, and reports whether a row is a line.
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

// Narrow narrows the widest columns, none to less than its bound, until all of them take at most room. It reports whether they do.
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

// made is an id that Cortex has made.
var made = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// shorten has the ids of a column stand there by their beginning: two groups, or as much as tells them apart.
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

// line returns the first columns of a row, below those of the others.
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

func (l *layout) writeHead(b *strings.Builder, quiet func(string) string) {
	titles := make([]string, len(l.columns))
	for i, c := range l.columns {
		titles[i] = c.Title
	}
	head := l.line(titles, len(l.shown))
	if head == "" {
		return
	}
	if quiet != nil {
		head = quiet(head)
	}
	b.WriteString(head + "\n")
}

// writeMarks writes those marks of a row that its line does not show whole.
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

// wrapped returns the table with a last column that goes on below itself. On a screen that is too narrow for that, each row begins with its
// other cells on a line, and the last one stands below.
func (l *layout) wrapped(quiet func(string) string) string {
	const room = 16 // that is left for the last one beside the others
	l.widths = l.natural()
	last, indent := len(l.shown)-1, 0
	for _, w := range l.widths[:last] {
		indent += w + gap
	}
	var b strings.Builder
	stacked := indent+min(room, l.widths[last]) > l.width
	if stacked {
		indent = gap
	} else {
		l.writeHead(&b, quiet)
	}
	for _, r := range l.rows {
		text := strings.Join(Wrap(r.cells[l.shown[last]], l.width-indent), "\n"+strings.Repeat(" ", indent))
		begin := Pad(l.line(r.cells, last), indent)
		if stacked {
			var words []string
			for _, i := range l.shown[:last] {
				if r.cells[i] != "" {
					words = append(words, r.cells[i])
				}
			}
			begin = strings.Repeat(" ", indent)
			if len(words) > 0 {
				begin = Fit(strings.Join(words, strings.Repeat(" ", gap)), l.width) + "\n" + begin
			}
		}
		b.WriteString(strings.TrimRight(begin+text, " \n") + "\n")
	}
	return b.String()
}
